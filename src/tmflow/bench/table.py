"""A benchmark as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from tmflow.bench import columns
from tmflow.bench.saved import Saved


def table(benchmark: Saved) -> str:
    """A block per size and number of threads, from the fastest variant on; references in parentheses."""
    shown = [
        (heading, [columns.texts(row, benchmark.rounds) for row in rows]) for heading, rows in columns.blocks(benchmark)
    ]
    lines = [columns.machine(benchmark), columns.protocol(benchmark)]
    grid = [list(columns.HEADS), *(row for _, rows in shown for row in rows)]
    for heading, rows in shown:
        lines += ["", heading, *aligned([list(columns.HEADS), *rows], grid)]
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
