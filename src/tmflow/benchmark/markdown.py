"""Formats a saved benchmark as Markdown, deterministically."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tmflow.analysis.stats import Interval
from tmflow.benchmark import comparison, text
from tmflow.benchmark.comparison import Best, against_one_thread, best_of_equal_promise, relative_to
from tmflow.benchmark.results import LIMIT, rests
from tmflow.benchmark.rows import Timed
from tmflow.benchmark.storage import Saved
from tmflow.benchmark.subjects import BEST_MUTEX, MUTEX_LOOP

ATTEMPTS = f"""\
The time of an attempt is that by which the two largest budgets differ, over the attempts by which they differ. Without
its attempts, an update of a smaller budget should be an update under the mutex: at most {LIMIT} times `lock`."""

TARGETS = """\
Time over time, paired within rounds; met or missed only if the whole 95 % interval lies on one side of the limit."""
HEADS_OF_TARGETS = ["elements", "threads", "gradient", "what", "over", "at most", "found", "verdict"]

BEST = """\
For each promise the fastest variant that kept it, and its time over that of the next. Only equal promises compare."""
HEADS_OF_BEST = [
    "elements",
    "threads",
    "gradient",
    "promise",
    "fastest",
    "us per update",
    "of the best plain mutex",
    "next",
    "of it",
]

FRESH = """\
A fresh gradient is written anew before every update. Its times are what the update adds: the time of writing and
updating, less the time of writing alone in the same round. Other threads may update while one writes."""

AGAINST_ONE = """\
Wall time over all updates with several threads, over that of the same variant with one: 0.5 is twice the throughput."""
HEADS_AGAINST_ONE = ["elements", "threads", "gradient", "variant", "time over that of one thread"]

HEADS_OF_ATTEMPTS = [
    *("elements", "threads", "gradient", "variant", "us per attempt", "by budgets"),
    *("without its attempts, of `lock`", f"at most {LIMIT}"),
]


def markdown(benchmark: Saved, pictures: Sequence[tuple[str, str]] = ()) -> str:
    """Format the targets, the best of each guarantee, a table per size and number of threads, and what is missing.

    References are in parentheses. `pictures` are titles and file names relative to the Markdown file.
    """
    lines = ["# What an update costs", "", f"{text.machine(benchmark)}.", "", f"{text.protocol(benchmark)}."]
    if checked := [_target(one) for one in comparison.check_targets(benchmark)]:
        lines += ["", "### Targets", "", TARGETS, "", *table(HEADS_OF_TARGETS, checked)]
    with_mutexes = (
        relative_to(benchmark, BEST_MUTEX) if any(r.name == MUTEX_LOOP for r in benchmark.rows) else benchmark
    )
    if best := [_best(one) for one in best_of_equal_promise(with_mutexes)]:
        lines += ["", "### The best of equal promises", "", BEST, "", *table(HEADS_OF_BEST, best)]
    if pictures:
        lines += ["", "### Pictures", *(line for title, file in pictures for line in ("", f"![{title}]({file})"))]
    if "fresh" in text.gradients(benchmark):
        lines += ["", FRESH]
    for block in text.blocks(benchmark):
        lines += ["", f"### {block.heading}", "", *table(text.heads(benchmark), block.texts)]
    if several := [_against_one(row, ratio) for row, ratio in against_one_thread(benchmark)]:
        lines += ["", "### Against one thread", "", AGAINST_ONE, "", *table(HEADS_AGAINST_ONE, several)]
    if attempts := list(_attempts(benchmark)):
        lines += ["", "### Where every attempt aborts", "", ATTEMPTS, "", *table(HEADS_OF_ATTEMPTS, attempts)]
    return "\n".join([*lines, *text.not_measured(benchmark)])


def _target(one: comparison.Checked) -> list[str]:
    return [
        *(f"{one.elements:,}", f"{one.threads}", one.gradient, one.what, one.of),
        *(f"{one.limit:g}", with_bounds(one.ratio, "{:.2f}"), one.verdict),
    ]


def _best(best: Best) -> list[str]:
    row = best.row
    texts = text.texts(row, row.rounds)
    of_next = "" if best.over_next is None else with_bounds(best.over_next, "{:.2f}")
    return [
        *(f"{row.elements:,}", f"{row.threads}", row.gradient, row.promise, row.name, *texts[1:3]),
        *(best.next.name if best.next else "", of_next),
    ]


def _against_one(row: Timed, ratio: Interval) -> list[str]:
    return [f"{row.elements:,}", f"{row.threads}", row.gradient, row.name, with_bounds(ratio, "{:.2f}")]


def _attempts(benchmark: Saved) -> Iterator[list[str]]:
    for rest in rests(benchmark):
        yield [
            f"{rest.row.elements:,}",
            f"{rest.row.threads}",
            rest.row.gradient,
            rest.row.name,
            with_bounds(rest.attempt_us, "{:.3f}"),
            f"{rest.longer.parameters['budget']} and {rest.longest.parameters['budget']}",
            with_bounds(rest.ratio, "{:.2f}"),
            rest.verdict,
        ]


def with_bounds(interval: Interval, form: str) -> str:
    bounds = "" if math.isnan(interval.low) else f" [{form.format(interval.low)}, {form.format(interval.high)}]"
    return form.format(interval.estimate) + bounds


def table(heads: list[str], rows: list[list[str]]) -> Iterator[str]:
    for row in (heads, ["---"] * len(heads), *rows):
        yield f"| {' | '.join(row)} |"
