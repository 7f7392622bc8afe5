"""A saved benchmark as Markdown, for a report; the same file always gives the same text."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tmflow.bench import columns
from tmflow.bench.attempts import LIMIT, rests
from tmflow.bench.compared import against_one_thread
from tmflow.bench.rows import Timed
from tmflow.bench.saved import Saved
from tmflow.stats import Interval

ATTEMPTS = f"""\
The time of an attempt is that by which the two largest budgets differ, over the attempts by which they differ. Without
its attempts, an update of a smaller budget should be an update under the mutex: at most {LIMIT} times `lock`."""

AGAINST_ONE = """\
Wall time over all updates with several threads, over that of the same variant with one: 0.5 is twice the throughput."""
HEADS_AGAINST_ONE = ["elements", "threads", "variant", "time over that of one thread"]

HEADS_OF_ATTEMPTS = [
    *("elements", "threads", "variant", "us per attempt", "by budgets"),
    *("without its attempts, of `lock`", f"at most {LIMIT}"),
]


def markdown(benchmark: Saved) -> str:
    """A table per size and number of threads; references in parentheses; and what was not measured."""
    lines = [f"{columns.machine(benchmark)}.", "", f"{columns.protocol(benchmark)}."]
    for heading, rows in columns.blocks(benchmark):
        texts = [columns.texts(row, benchmark.rounds) for row in rows]
        lines += ["", f"### {heading}", "", *_table(list(columns.HEADS), texts)]
    if several := [_against_one(row, ratio) for row, ratio in against_one_thread(benchmark)]:
        lines += ["", "### Against one thread", "", AGAINST_ONE, "", *_table(HEADS_AGAINST_ONE, several)]
    if attempts := list(_attempts(benchmark)):
        lines += ["", "### Where every attempt aborts", "", ATTEMPTS, "", *_table(HEADS_OF_ATTEMPTS, attempts)]
    if benchmark.left_out:
        lines += ["", "### Not measured", "", *(f"- {columns.left_out(one)}" for one in benchmark.left_out)]
    return "\n".join(lines)


def _against_one(row: Timed, ratio: Interval) -> list[str]:
    return [f"{row.elements:,}", f"{row.threads}", row.name, _with_bounds(ratio, "{:.2f}")]


def _attempts(benchmark: Saved) -> Iterator[list[str]]:
    for rest in rests(benchmark):
        yield [
            f"{rest.row.elements:,}",
            f"{rest.row.threads}",
            rest.row.name,
            _with_bounds(rest.attempt_us, "{:.3f}"),
            f"{rest.longer.parameters['budget']} and {rest.longest.parameters['budget']}",
            _with_bounds(rest.ratio, "{:.2f}"),
            rest.verdict,
        ]


def _with_bounds(interval: Interval, form: str) -> str:
    bounds = "" if math.isnan(interval.low) else f" [{form.format(interval.low)}, {form.format(interval.high)}]"
    return form.format(interval.estimate) + bounds


def _table(heads: list[str], rows: list[list[str]]) -> Iterator[str]:
    for row in (heads, ["---"] * len(heads), *rows):
        yield f"| {' | '.join(row)} |"
