"""The words and cells of benchmark tables, the same in the terminal and in Markdown, and the terminal's tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tmflow.analysis.stats import Interval, bounded
from tmflow.base.text import several
from tmflow.benchmark.comparison import best_mutex, check_step_targets, timed_rows
from tmflow.benchmark.plan import Gradient
from tmflow.benchmark.storage import (
    Benchmark,
    ByteRate,
    Copied,
    Header,
    Read,
    Row,
    Saved,
    SavedReads,
    SavedSteps,
    Step,
    Timed,
    TimedVariant,
    Written,
)
from tmflow.runfile.record import MachineState

CONSISTENCY = "consistency"
ONCE = ("variant", CONSISTENCY)  # the columns that are the same for all kinds of gradient
HEADS = (
    "variant",
    "us per update",
    "ratio",
    "relative to memcpy",
    CONSISTENCY,
    "lost",
    "committed",
    "aborts per commit",
    "GB/s",
)


class Block(NamedTuple):
    """A configuration: a heading, and a row per variant, fastest first, in the order of `heads`."""

    heading: str
    heads: Sequence[str]
    texts: list[list[str]]


def gradients(benchmark: Saved) -> list[Gradient]:
    """The measured kinds of gradient, in order."""
    return list(dict.fromkeys(row.gradient for row in benchmark.rows))


def blocks(benchmark: Saved | SavedReads) -> Iterator[Block]:
    """Yield the measurements in blocks of comparable ones, in the order of the file."""
    if isinstance(benchmark, SavedReads):
        cells = [(row.elements, row.readers, row.writers) for row in benchmark.rows]
        for elements, readers, writers in dict.fromkeys(cells):
            of_cell = (elements, readers, writers)
            reads = [row for row, cell in zip(benchmark.rows, cells, strict=True) if cell == of_cell]
            counts = f"{readers} reader{'s' * (readers != 1)}, {writers} writer{'s' * (writers != 1)}"
            heading = f"{size(elements)}, {counts}{_oversubscribed(benchmark, reads[0])}"
            yield Block(heading, READ_HEADS, [_read_line(row) for row in reads])
        return
    kinds = gradients(benchmark)
    heads = [  # with two kinds of gradient, each measure has two adjacent columns
        text
        for head in HEADS
        for text in ([head] if head in ONCE or len(kinds) < 2 else [f"{head}, {kind}" for kind in kinds])
    ]
    for elements, threads in dict.fromkeys((row.elements, row.threads) for row in benchmark.rows):
        rows = [row for row in benchmark.rows if (row.elements, row.threads) == (elements, threads)]
        heading = size(elements, threads) + _oversubscribed(benchmark, rows[0])
        for kind in kinds:
            suffix = f", gradient {kind}" if len(kinds) > 1 else ""
            heading += _heading_suffix([row for row in rows if row.gradient == kind], suffix)
        timed = timed_rows(rows)
        names = dict.fromkeys(row.name for kind in reversed(kinds) for row in timed if row.gradient == kind)
        of = {(row.name, row.gradient): row for row in timed}
        lines = [_line([of.get((name, kind)) for kind in kinds], benchmark.rounds) for name in names]
        yield Block(heading, heads, lines)


def _oversubscribed(benchmark: Saved | SavedReads, row: Row | Read) -> str:
    return f" (oversubscribed: {benchmark.cpus_allowed} CPUs)" if row.oversubscribed else ""


def _heading_suffix(rows: Sequence[Row], suffix: str) -> str:
    """The end of a heading: the measurements of a cell in addition to updates."""
    text = ""
    for row in rows:
        if isinstance(row, Copied):
            text += (
                f"; memcpy {with_interval(row.memcpy_us, row.memcpy_low, row.memcpy_high)} us, {row.gb_per_s:.1f} GB/s"
            )
        if isinstance(row, Written):
            text += f"; writing a gradient {with_interval(row.writing_us, row.writing_low, row.writing_high)} us"
    if best := best_mutex(rows):
        text += f"; best plain mutex{suffix} {best.name}"
    return text


def _line(rows: Sequence[Timed | None], rounds: int) -> list[str]:
    """The row of a variant; `rows` has one per kind of gradient, None if not measured."""
    by_kind = [[""] * len(HEADS) if row is None else texts(row, rounds) for row in rows]
    return [
        text
        for head, columns in zip(HEADS, zip(*by_kind, strict=True), strict=True)
        for text in ([next(filter(None, columns), "")] if head in ONCE else columns)
    ]


def texts(row: Timed, rounds: int) -> list[str]:
    """Format a row in the order of HEADS; a row with fewer than `rounds` rounds says so."""
    return [
        row.name if isinstance(row, TimedVariant) else f"({row.name})",
        with_interval(row.us_per_update, row.us_low, row.us_high) + _fewer(row, rounds),
        with_interval(row.ratio, row.ratio_low, row.ratio_high, "{:.2f}"),
        with_interval(row.memcpy_ratio, row.memcpy_ratio_low, row.memcpy_ratio_high, "{:.2f}"),
        row.consistency if isinstance(row, TimedVariant) else "",
        _lost(row),
        "" if row.commit_fraction is None else f"{100 * row.commit_fraction:.3g} %",
        _aborts(row),
        f"{row.gb_per_s:.2f}",
    ]


def _fewer(row: Timed | Step, rounds: int) -> str:
    return f" ({row.rounds} of {rounds} rounds)" if row.rounds < rounds else ""


def machine(benchmark: Header) -> str:
    """Describe the machine in a line."""
    facts, settings = benchmark.platform, benchmark.environment
    parts = [
        facts.get("cpu_model") or facts.get("isa") or "unknown processor",
        f"{benchmark.cpus_allowed} CPUs",
        settings.get("virtualisation") or "unknown virtualisation",
        settings.get("libc") or "unknown C library",
        benchmark.software.compiler or "unknown compiler",
        f"tmflow {benchmark.software.tmflow}"
        + (f" at {benchmark.software.git_commit[:10]}" if benchmark.software.git_commit else "")
        + (" with changes" if benchmark.software.git_dirty else ""),
    ]
    return ", ".join(parts)


def protocol(benchmark: Benchmark) -> str:
    """Describe the protocol in a line."""
    if isinstance(benchmark, SavedSteps):
        ratio_to = benchmark.rows[0].ratio_to if benchmark.rows else "nothing"
        disturbed = max((row.disturbed_rounds for row in benchmark.rows), default=0)
        words = f"up to {disturbed} rounds of a configuration on a disturbed machine" if disturbed else ""
        return (
            f"{several(benchmark.rounds, 'round')}, a fresh process each, all configurations once in shuffled order; "
            f"[95 % interval]; ratio to {ratio_to}; {benchmark.dataset}; {benchmark.measured_at_utc}; "
            f"{words or 'no disturbed round'}"
        )
    of_updates = ""
    if isinstance(benchmark, Saved):
        ratio_to = next((row.ratio_to for row in benchmark.rows if not isinstance(row, ByteRate)), None) or "nothing"
        of_updates = f"gradient {' and '.join(gradients(benchmark))}; [95 % interval]; ratio to {ratio_to}"
    return (
        f"{several(benchmark.rounds, 'round')} in turns, seed {benchmark.seed}; {of_updates or '[95 % interval]'}; "
        f"{benchmark.measured_at_utc}; {state(benchmark.machine)}"
    )


def state(machine: MachineState) -> str:
    """Describe whether other processes used the machine."""
    return {
        True: "the machine was disturbed",
        False: "the machine was not disturbed",
        None: "whether the machine was disturbed is not known",
    }[machine.disturbed]


def left_out(benchmark: Header) -> list[str]:
    """A sentence for each thing that was not measured."""
    sentences = []
    for one in benchmark.left_out:
        what = "failed" if one.failed else "cannot run here"
        if one.elements is not None:
            what = f"was not measured with {size(one.elements, one.threads)}"
            what += f", gradient {one.gradient}" if one.gradient else ""
        sentences.append(f"{one.name} {what}: {one.reason}.")
    return sentences


def not_measured(benchmark: Header) -> list[str]:
    """The section "Not measured" of a Markdown report; empty if nothing is missing."""
    sentences = left_out(benchmark)
    return ["", "### Not measured", "", *(f"- {line}" for line in sentences)] if sentences else []


def size(elements: int, threads: int | None = None) -> str:
    """Format a size and, if given, a number of threads."""
    of_threads = "" if threads is None else f", {threads} thread{'s' * (threads > 1)}"
    return f"{elements:,} element{'s' * (elements > 1)}{of_threads}"


def _lost(row: Timed) -> str:
    text = "0" if row.lost_fraction == 0 else f"{100 * row.lost_fraction:.3g} %"
    if row.doubled or row.corrupt_elements:
        text += f", doubled {row.doubled}, corrupt {row.corrupt_elements}"
    return text


def _aborts(row: Timed) -> str:
    if row.aborts_per_commit is not None:
        return f"{row.aborts_per_commit:.3g}"
    if not row.attempts_known:
        return "unknown"
    return f"no commit, {row.aborts_per_update:.3g} per update" if row.aborts_per_update else ""


def with_interval(value: float | None, low: float | None, high: float | None, form: str = "{:.4g}") -> str:
    """Format a value with its interval, never in powers of ten; empty if it is unknown."""
    if value is None:
        return ""
    numbers = [value] if low is None or high is None else [value, low, high]
    texts = [f"{number:.0f}" if "e+" in form.format(number) else form.format(number) for number in numbers]
    return texts[0] if len(texts) == 1 else f"{texts[0]} [{texts[1]}, {texts[2]}]"


READ_HEADS = [
    "variant, read",
    "us per read",
    "relative to plain copy",
    "consistency",
    "torn",
    "reads per s",
    "updates per s",
]


def _read_line(row: Read) -> list[str]:
    return [
        row.name,
        with_interval(row.us_per_read, row.us_low, row.us_high),
        with_interval(row.ratio, row.ratio_low, row.ratio_high, "{:.2f}"),
        row.consistency,
        "0" if row.torn_fraction == 0 else f"{100 * row.torn_fraction:.3g} %",
        f"{row.reads_per_s:,.0f}",
        f"{row.updates_per_s:,.0f}",
    ]


STEP_HEADS = ["configuration", "us per step", "ratio", "accuracy", "consistency"]
STEP_TARGET_HEADS = ["what", "relative to", "at most", "measured", "verdict"]


def step_line(row: Step, rounds: int) -> list[str]:
    """Format a row in the order of STEP_HEADS."""
    return [
        row.name,
        with_interval(row.us_per_step, row.us_low, row.us_high) + _fewer(row, rounds),
        with_interval(row.ratio, row.ratio_low, row.ratio_high, "{:.3f}"),
        f"{row.accuracy:.4f}",
        row.consistency,
    ]


def step_target_lines(steps: SavedSteps) -> list[list[str]]:
    """Format the checked targets in the order of STEP_TARGET_HEADS."""
    return [
        [one.what, one.of, f"{one.limit:.3g}", with_bounds(one.measured, "{:.3f}"), one.verdict]
        if one.of
        else [one.what, "", f"{one.limit:g} us", f"{with_bounds(one.measured, '{:.1f}')} us", one.verdict]
        for one in check_step_targets(steps)
    ]


def with_bounds(interval: Interval, form: str) -> str:
    return with_interval(*bounded(interval), form)


def format_table(benchmark: Benchmark) -> str:
    """Format a benchmark for the terminal: a block per cell, the fastest first; steps in the requested order."""
    lines = [machine(benchmark), protocol(benchmark)]
    if isinstance(benchmark, SavedSteps):
        lines += ["", *align([STEP_HEADS, *(step_line(row, benchmark.rounds) for row in benchmark.rows)])]
        if checked := step_target_lines(benchmark):
            lines += ["", *align([STEP_TARGET_HEADS, *checked])]
    else:
        shown = list(blocks(benchmark))
        # Blocks of updates have the same columns, so their widths are the same.
        grid = [row for block in shown for row in (block.heads, *block.texts)] if isinstance(benchmark, Saved) else None
        for block in shown:
            lines += ["", block.heading, *align([block.heads, *block.texts], grid)]
    return "\n".join([*lines, *(["", *left_out(benchmark)] if benchmark.left_out else [])])


def align(rows: Sequence[Sequence[str]], widest: Sequence[Sequence[str]] | None = None) -> list[str]:
    """Align rows in columns as wide as those of `widest`, or of `rows`; the last column is right-aligned."""
    widths = [max(map(len, column)) for column in zip(*(widest or rows), strict=True)]
    lines = []
    for row in rows:
        texts = [text.ljust(width) for text, width in zip(row[:-1], widths[:-1], strict=True)]
        lines.append("  " + "  ".join([*texts, row[-1].rjust(widths[-1])]))
    return lines
