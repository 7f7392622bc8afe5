"""Saved benchmarks as Markdown, deterministically, and the pictures of updates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap
from typing import Any

from tmflow.benchmark import plots, text
from tmflow.benchmark.comparison import (
    LIMIT,
    Best,
    CheckedTarget,
    Rest,
    against_one_thread,
    best_of_equal_consistency,
    check_targets,
    relative_to,
    rests,
)
from tmflow.benchmark.plan import BEST_MUTEX, MUTEX_LOOP, Cell
from tmflow.benchmark.storage import Benchmark, Saved, SavedReads, SavedSteps, Timed


def render(benchmark: Benchmark, stem: str | None) -> tuple[str, dict[str, dict[str, Any]]]:
    """Render the report as Markdown, and its pictures as Vega-Lite by file name; the names begin with `stem`.

    Without a stem there are none; steps and reads have none.
    """
    if isinstance(benchmark, SavedSteps):
        return report_steps(benchmark), {}
    if isinstance(benchmark, SavedReads):
        return report_reads(benchmark), {}
    pictures: Iterable[plots.Plot] = () if stem is None else plots.plots(benchmark)
    named = [(plot, f"{stem}-{plot.name}.svg") for plot in pictures]
    report = report_updates(benchmark, [(plot.title, name) for plot, name in named])
    return report, {name: plot.chart.to_dict() for plot, name in named}


def _opening(title: str, benchmark: Benchmark) -> list[str]:
    return [f"# {title}", "", f"{text.machine(benchmark)}.", "", f"{text.protocol(benchmark)}."]


CELL = ("elements", "threads", "gradient")

TARGETS = """\
Ratios of times, paired within rounds; met or missed only if the whole 95 % interval lies on one side of the limit."""
TARGET_HEADS = (*CELL, "what", "relative to", "at most", "measured", "verdict")

BEST = """\
The fastest variant at each level of consistency, and its time relative to the next best. Compare speeds only at equal
consistency."""
BEST_HEADS = (
    *CELL,
    "consistency",
    "fastest",
    "us per update",
    "relative to best plain mutex",
    "next best",
    "relative to next best",
)

FRESH = """\
A fresh gradient is written before every update. The times are those of the update alone: the time of writing and
updating minus the time of writing alone in the same round. Other threads may update while one writes."""

ONE_THREAD = """\
Wall time per update with several threads, relative to the same variant with one thread: 0.5 is twice the throughput."""
ONE_THREAD_HEADS = (*CELL, "variant", "time relative to one thread")

ATTEMPTS = f"""\
The time of an attempt is the difference in time between the two largest budgets, divided by their difference in
attempts. Without its attempts, an update with a smaller budget should cost as much as one under the mutex: at
most {LIMIT} times `lock`."""
ATTEMPT_HEADS = (
    *CELL,
    "variant",
    "us per attempt",
    "budgets",
    "without attempts, relative to `lock`",
    f"at most {LIMIT}",
)


def report_updates(benchmark: Saved, pictures: Sequence[tuple[str, str]] = ()) -> str:
    """Format the targets, the best of each guarantee, a table per size and number of threads, and what is missing.

    References are in parentheses. `pictures` are titles and file names relative to the Markdown file.
    """
    has_mutex = any(row.name == MUTEX_LOOP for row in benchmark.rows)
    with_mutexes = relative_to(benchmark, BEST_MUTEX) if has_mutex else benchmark
    best = best_of_equal_consistency(with_mutexes)
    lines = [
        *_opening("What an update costs", benchmark),
        *_section("Targets", TARGETS, TARGET_HEADS, starmap(_target, check_targets(benchmark))),
        *_section("The fastest at each level of consistency", BEST, BEST_HEADS, map(_best, best)),
    ]
    if pictures:
        lines += ["", "### Plots", *(line for title, file in pictures for line in ("", f"![{title}]({file})"))]
    if "fresh" in text.gradients(benchmark):
        lines += ["", FRESH]
    for block in text.blocks(benchmark):
        lines += ["", f"### {block.heading}", "", *markdown_table(block.heads, block.texts)]
    several = [
        [*_cell(row), row.name, text.with_bounds(ratio, "{:.2f}")] for row, ratio in against_one_thread(benchmark)
    ]
    lines += _section("Compared with one thread", ONE_THREAD, ONE_THREAD_HEADS, several)
    lines += _section("Where every attempt aborts", ATTEMPTS, ATTEMPT_HEADS, map(_attempt, rests(benchmark)))
    return "\n".join([*lines, *text.not_measured(benchmark)])


def _section(title: str, words: str, heads: Sequence[str], rows: Iterable[list[str]]) -> list[str]:
    """A section with a table; empty if the table has no rows."""
    table = list(rows)
    return ["", f"### {title}", "", words, "", *markdown_table(heads, table)] if table else []


def _cell(row: Timed | Cell) -> list[str]:
    return [f"{row.elements:,}", f"{row.threads}", row.gradient]


def _target(cell: Cell, one: CheckedTarget) -> list[str]:
    return [*_cell(cell), one.what, one.of, f"{one.limit:g}", text.with_bounds(one.measured, "{:.2f}"), one.verdict]


def _best(best: Best) -> list[str]:
    row = best.row
    _, us, of_mutex, *_ = text.texts(row, row.rounds)
    of_next = "" if best.over_next is None else text.with_bounds(best.over_next, "{:.2f}")
    return [*_cell(row), row.consistency, row.name, us, of_mutex, best.next.name if best.next else "", of_next]


def _attempt(rest: Rest) -> list[str]:
    return [
        *(*_cell(rest.row), rest.row.name, text.with_bounds(rest.attempt_us, "{:.3f}")),
        f"{rest.longer.parameters['budget']} and {rest.longest.parameters['budget']}",
        *(text.with_bounds(rest.ratio, "{:.2f}"), rest.verdict),
    ]


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    for row in (heads, ["---"] * len(heads), *rows):
        yield f"| {' | '.join(row)} |"


def report_reads(benchmark: SavedReads) -> str:
    lines = _opening("What a read costs next to concurrent updates", benchmark)
    for block in text.blocks(benchmark):
        lines += ["", f"### {block.heading}", "", *markdown_table(block.heads, block.texts)]
    return "\n".join([*lines, *text.not_measured(benchmark)])


STEP_TARGETS = "Met or missed only if the whole 95 % interval lies on one side of the limit."


def report_steps(steps: SavedSteps) -> str:
    lines = _opening("What a training step costs", steps)
    lines += _section("Targets", STEP_TARGETS, text.STEP_TARGET_HEADS, text.step_target_lines(steps))
    table = markdown_table(text.STEP_HEADS, [text.step_line(row, steps.rounds) for row in steps.rows])
    lines += ["", "### Configurations", "", *table, ""]
    for row in steps.rows:
        factors = ", ".join(f"{name} {value}" for name, value in sorted(row.factors.items()) if value is not None)
        lines.append(f"- {row.name}: {factors}")
    return "\n".join([*lines, *text.not_measured(steps)])
