"""A saved benchmark as Markdown, for a report; the same file always gives the same text."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tmflow.bench import columns
from tmflow.bench.attempts import LIMIT, rests
from tmflow.bench.saved import Saved

ATTEMPTS = f"""\
The time of an attempt is that by which the two largest budgets differ, over the attempts by which they differ. Without
its attempts, an update of a smaller budget should be an update under the mutex: at most {LIMIT} times `lock`."""


def markdown(benchmark: Saved) -> str:
    """A table per size and number of threads; references in parentheses; and what was not measured."""
    lines = [f"{columns.machine(benchmark)}.", "", f"{columns.protocol(benchmark)}."]
    for heading, rows in columns.blocks(benchmark):
        texts = [columns.texts(row, benchmark.rounds) for row in rows]
        lines += ["", f"### {heading}", "", *_table(list(columns.HEADS), texts)]
    if attempts := list(_attempts(benchmark)):
        heads = ["elements", "threads", "variant", "us per attempt", "without its attempts, of `lock`", f"<= {LIMIT}"]
        lines += ["", "### Where every attempt aborts", "", ATTEMPTS, "", *_table(heads, attempts)]
    if benchmark.left_out:
        lines += ["", "### Not measured", "", *(f"- {columns.left_out(one)}" for one in benchmark.left_out)]
    return "\n".join(lines)


def _attempts(benchmark: Saved) -> Iterator[list[str]]:
    for rest in rests(benchmark):
        ratio = rest.ratio
        bounds = "" if math.isnan(ratio.low) else f" [{ratio.low:.2f}, {ratio.high:.2f}]"
        yield [
            f"{rest.row.elements:,}",
            f"{rest.row.threads}",
            rest.row.name,
            f"{rest.attempt_us:.3g} (from `{rest.longer}`, `{rest.longest}`)",
            f"{ratio.estimate:.2f}{bounds}",
            rest.verdict,
        ]


def _table(heads: list[str], rows: list[list[str]]) -> Iterator[str]:
    for row in (heads, ["---"] * len(heads), *rows):
        yield f"| {' | '.join(row)} |"
