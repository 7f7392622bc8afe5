"""Formats a benchmark of reads for the terminal and as Markdown, deterministically."""

from __future__ import annotations

from collections.abc import Iterator

from tmflow.benchmark import text
from tmflow.benchmark.markdown import table as markdown_table
from tmflow.benchmark.storage import Read, SavedReads
from tmflow.benchmark.text import align

HEADS = ["variant, read", "us per read", "of a plain copy", "promise", "torn", "reads per s", "updates per s"]


def table(benchmark: SavedReads) -> str:
    """Format a block per size and number of readers and writers, the fastest read first."""
    lines = [text.machine(benchmark), _protocol(benchmark)]
    for heading, rows in _blocks(benchmark):
        lines += ["", heading, *align([HEADS, *rows])]
    return "\n".join([*lines, *(["", *text.left_out(benchmark)] if benchmark.left_out else [])])


def markdown(benchmark: SavedReads) -> str:
    lines = ["# What a read costs beside updates", "", f"{text.machine(benchmark)}.", "", f"{_protocol(benchmark)}."]
    for heading, rows in _blocks(benchmark):
        lines += ["", f"### {heading}", "", *markdown_table(HEADS, rows)]
    return "\n".join([*lines, *text.not_measured(benchmark)])


def _blocks(benchmark: SavedReads) -> Iterator[tuple[str, list[list[str]]]]:
    for cell in dict.fromkeys((row.elements, row.readers, row.writers) for row in benchmark.rows):
        rows = [row for row in benchmark.rows if (row.elements, row.readers, row.writers) == cell]
        elements, readers, writers = cell
        heading = f"{text.size(elements)}, {readers} reading, {writers} updating"
        if rows[0].oversubscribed:
            heading += f" (oversubscribed: {benchmark.cpus_allowed} CPUs)"
        yield heading, [_texts(row) for row in rows]


def _texts(row: Read) -> list[str]:
    return [
        row.name,
        text.with_interval(row.us_per_read, row.us_low, row.us_high),
        "" if row.ratio is None else text.with_interval(row.ratio, row.ratio_low, row.ratio_high, "{:.2f}"),
        row.promise,
        "0" if row.torn_fraction == 0 else f"{100 * row.torn_fraction:.3g} %",
        f"{row.reads_per_s:,.0f}",
        f"{row.updates_per_s:,.0f}",
    ]


def _protocol(benchmark: SavedReads) -> str:
    return (
        f"{text.rounds(benchmark.rounds)} in turns, seed {benchmark.seed}; [95 % interval]; "
        f"{benchmark.measured_at_utc}; {text.state(benchmark.machine)}"
    )
