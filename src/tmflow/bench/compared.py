"""Rows of a saved benchmark against each other, paired within rounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tmflow import stats
from tmflow.bench.rows import Copied, Row, Timed
from tmflow.bench.saved import Saved
from tmflow.errors import unknown


def relative_to(benchmark: Saved, name: str) -> Saved:
    """The same benchmark, with ratios to the variant or reference `name`. Raises BadInput if it was not measured."""
    timed = [row for row in benchmark.rows if not isinstance(row, Copied)]
    bases = {(row.elements, row.threads): row for row in timed if row.name == name}
    if not bases:
        raise unknown("variant in the benchmark:", name, dict.fromkeys(row.name for row in timed))
    return benchmark.model_copy(update={"rows": [_relative(row, bases, name) for row in benchmark.rows]})


def _relative(row: Row, bases: dict[tuple[int, int], Timed], name: str) -> Row:
    if isinstance(row, Copied):
        return row
    base = bases.get((row.elements, row.threads))
    ratio = stats.paired_ratio(row.us_by_round, base.us_by_round) if base else None
    fields: dict[str, Any] = {"ratio": None, "ratio_low": None, "ratio_high": None}
    if ratio is not None:
        fields = dict(zip(fields, stats.bounded(ratio), strict=True))
    return row.model_copy(update={"ratio_to": name, **fields})


def against_one_thread(benchmark: Saved) -> Iterator[tuple[Timed, stats.Interval]]:
    """Every row of several threads, and its time over that of the same variant and size with one thread."""
    timed = [row for row in benchmark.rows if not isinstance(row, Copied)]
    alone = {(row.name, row.elements): row for row in timed if row.threads == 1}
    for row in timed:
        base = alone.get((row.name, row.elements))
        if base is None or row.threads == 1:
            continue
        ratio = stats.paired_ratio(row.us_by_round, base.us_by_round)
        if ratio is not None:
            yield row, ratio
