"""A benchmark as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from tmflow.benchmark import text as columns
from tmflow.benchmark.saved import Saved


def table(benchmark: Saved) -> str:
    """A block per size and number of threads, from the fastest variant on; references in parentheses."""
    heads, shown = columns.heads(benchmark), list(columns.blocks(benchmark))
    lines = [columns.machine(benchmark), columns.protocol(benchmark)]
    grid = [heads, *(row for block in shown for row in block.texts)]
    for block in shown:
        lines += ["", block.heading, *aligned([heads, *block.texts], grid)]
    if benchmark.left_out:
        lines += ["", *columns.left_out(benchmark)]
    return "\n".join(lines)


def aligned(rows: Sequence[Sequence[str]], widest: Sequence[Sequence[str]] | None = None) -> list[str]:
    """The rows in columns as wide as those of `widest`, or of themselves; the last one to the right."""
    widths = [max(map(len, column)) for column in zip(*(widest or rows), strict=True)]
    lines = []
    for row in rows:
        texts = [text.ljust(width) for text, width in zip(row[:-1], widths[:-1], strict=True)]
        lines.append("  " + "  ".join([*texts, row[-1].rjust(widths[-1])]))
    return lines
