"""Formats a benchmark as a text table, with the same columns in the terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tmflow.benchmark.comparison import best_mutex, cell_of
from tmflow.benchmark.rows import ByteRate, Copied, Header, Row, Timed, TimedVariant, Written
from tmflow.benchmark.storage import Saved
from tmflow.benchmark.subjects import Gradient
from tmflow.benchmark.updates import Cell
from tmflow.runfile.record import MachineState

PROMISE = "promise"
HEADS = ("variant", "us per update", "ratio", "of memcpy", PROMISE, "lost", "committed", "aborts per commit", "GB/s")


class Block(NamedTuple):
    """A size and number of threads: a heading, and a row per variant, fastest first, in the order of `heads`."""

    heading: str
    texts: list[list[str]]


def gradients(benchmark: Saved) -> list[Gradient]:
    """The measured kinds of gradient, in order."""
    return list(dict.fromkeys(row.gradient for row in benchmark.rows))


def heads(benchmark: Saved) -> list[str]:
    """The column heads; with two kinds of gradient, each measure has two adjacent columns."""
    kinds = gradients(benchmark)
    if len(kinds) < 2:
        return list(HEADS)
    return [
        HEADS[0],
        *(head if head == PROMISE else f"{head}, {kind}" for head in HEADS[1:] for kind in _kinds(head, kinds)),
    ]


def _kinds(head: str, kinds: Sequence[Gradient]) -> Sequence[Gradient]:
    """The kinds of gradient for which a column is repeated."""
    return kinds[:1] if head == PROMISE else kinds


def blocks(benchmark: Saved) -> Iterator[Block]:
    """Yield the measurements in blocks, in the order of the file."""
    kinds = gradients(benchmark)
    for elements, threads in dict.fromkeys((row.elements, row.threads) for row in benchmark.rows):
        rows = [row for row in benchmark.rows if (row.elements, row.threads) == (elements, threads)]
        heading = size(elements, threads)
        if rows[0].oversubscribed:
            heading += f" (oversubscribed: {benchmark.cpus_allowed} CPUs)"
        for kind in kinds:
            cell = Cell(elements, threads, kind)
            heading += _heading_suffix(rows, cell, f", gradient {kind}" if len(kinds) > 1 else "")
        timed = [row for row in rows if not isinstance(row, ByteRate)]
        names = dict.fromkeys(row.name for kind in reversed(kinds) for row in timed if row.gradient == kind)
        of = {(row.name, row.gradient): row for row in timed}
        yield Block(heading, [_line([of.get((name, kind)) for kind in kinds], benchmark.rounds) for name in names])


def _heading_suffix(rows: Sequence[Row], cell: Cell, suffix: str) -> str:
    """The end of a heading: the measurements of a cell in addition to updates."""
    text = ""
    for row in (row for row in rows if cell_of(row) == cell):
        if isinstance(row, Copied):
            text += (
                f"; memcpy {with_interval(row.memcpy_us, row.memcpy_low, row.memcpy_high)} us, {row.gb_per_s:.1f} GB/s"
            )
        if isinstance(row, Written):
            text += f"; writing a gradient {with_interval(row.writing_us, row.writing_low, row.writing_high)} us"
    if best := best_mutex(rows, cell):
        text += f"; best plain mutex{suffix} {best.name}"
    return text


def _line(rows: Sequence[Timed | None], rounds: int) -> list[str]:
    """The row of a variant; `rows` has one per kind of gradient, None if not measured."""
    by_kind = [[""] * len(HEADS) if row is None else texts(row, rounds) for row in rows]
    name = next(text[0] for text in by_kind if text[0])
    promise = next(text[HEADS.index(PROMISE)] for text in by_kind if text[0])
    measures = zip(HEADS[1:], zip(*(text[1:] for text in by_kind), strict=True), strict=True)
    return [name, *(text for head, columns in measures for text in ([promise] if head == PROMISE else columns))]


def texts(row: Timed, rounds: int) -> list[str]:
    """Format a row in the order of HEADS; a row with fewer than `rounds` rounds says so."""
    is_variant = isinstance(row, TimedVariant)
    fewer = f" ({row.rounds} of {rounds} rounds)" if row.rounds < rounds else ""
    return [
        row.name if is_variant else f"({row.name})",
        with_interval(row.us_per_update, row.us_low, row.us_high) + fewer,
        "" if row.ratio is None else with_interval(row.ratio, row.ratio_low, row.ratio_high, "{:.2f}"),
        ""
        if row.memcpy_ratio is None
        else with_interval(row.memcpy_ratio, row.memcpy_ratio_low, row.memcpy_ratio_high, "{:.2f}"),
        row.promise if isinstance(row, TimedVariant) else "",
        _lost(row),
        "" if row.commit_fraction is None else f"{100 * row.commit_fraction:.3g} %",
        _aborts(row),
        f"{row.gb_per_s:.2f}",
    ]


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


def rounds(number: int) -> str:
    """Format a number of rounds."""
    return f"{number} round{'s' if number != 1 else ''}"


def protocol(benchmark: Saved) -> str:
    """Describe the protocol in a line."""
    ratio_to = next((row.ratio_to for row in benchmark.rows if not isinstance(row, ByteRate)), None) or "nothing"
    return (
        f"{rounds(benchmark.rounds)} in turns, seed {benchmark.seed}; gradient {' and '.join(gradients(benchmark))}; "
        f"[95 % interval]; ratio to {ratio_to}; "
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
        return "not told"
    return f"no commit, {row.aborts_per_update:.3g} per update" if row.aborts_per_update else ""


def with_interval(value: float, low: float | None, high: float | None, form: str = "{:.4g}") -> str:
    """Format a value with its interval, never in powers of ten."""
    texts = [_plain(bound, form) for bound in (value, low, high) if bound is not None]
    return texts[0] if len(texts) == 1 else f"{texts[0]} [{texts[1]}, {texts[2]}]"


def _plain(value: float, form: str) -> str:
    text = form.format(value)
    return f"{value:.0f}" if "e+" in text else text


def table(benchmark: Saved) -> str:
    """Format a block per size and number of threads, the fastest variant first; references are in parentheses."""
    titles, shown = heads(benchmark), list(blocks(benchmark))
    lines = [machine(benchmark), protocol(benchmark)]
    grid = [titles, *(row for block in shown for row in block.texts)]
    for block in shown:
        lines += ["", block.heading, *align([titles, *block.texts], grid)]
    if benchmark.left_out:
        lines += ["", *left_out(benchmark)]
    return "\n".join(lines)


def align(rows: Sequence[Sequence[str]], widest: Sequence[Sequence[str]] | None = None) -> list[str]:
    """Align rows in columns as wide as those of `widest`, or of `rows`; the last column is right-aligned."""
    widths = [max(map(len, column)) for column in zip(*(widest or rows), strict=True)]
    lines = []
    for row in rows:
        texts = [text.ljust(width) for text, width in zip(row[:-1], widths[:-1], strict=True)]
        lines.append("  " + "  ".join([*texts, row[-1].rjust(widths[-1])]))
    return lines
