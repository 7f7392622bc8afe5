"""A benchmark as text for a terminal."""

from __future__ import annotations

from tmflow.bench import columns
from tmflow.bench.saved import Saved


def table(benchmark: Saved) -> str:
    """A block per size and number of threads, from the fastest variant on; references in parentheses."""
    shown = [
        (heading, [columns.texts(row, benchmark.rounds) for row in rows]) for heading, rows in columns.blocks(benchmark)
    ]
    lines = [columns.machine(benchmark), columns.protocol(benchmark)]
    grid = [list(columns.HEADS), *(row for _, rows in shown for row in rows)]
    widths = [max(len(row[column]) for row in grid) for column in range(len(columns.HEADS))]
    for heading, rows in shown:
        lines += ["", heading, *(_line(row, widths) for row in [list(columns.HEADS), *rows])]
    if benchmark.left_out:
        lines += ["", *(columns.left_out(one) for one in benchmark.left_out)]
    return "\n".join(lines)


def _line(row: list[str], widths: list[int]) -> str:
    """The name to the left, GB/s to the right."""
    texts = [text.ljust(width) for text, width in zip(row[:-1], widths[:-1], strict=True)]
    return "  " + "  ".join([*texts, row[-1].rjust(widths[-1])])
