"""Rows of a benchmark against each other, paired within rounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tmflow.analysis import stats
from tmflow.base.errors import unknown
from tmflow.benchmark.plan import Cell
from tmflow.benchmark.rows import Beside, Copied, Row, Timed, TimedReference, TimedVariant
from tmflow.benchmark.saved import Saved
from tmflow.benchmark.subjects import BEST_MUTEX, MUTEX_LOOP

Times = Sequence[float | None]


def relative_to(benchmark: Saved, name: str) -> Saved:
    """The same benchmark, with ratios to `name`: a variant, a reference, or BEST_MUTEX.

    Raises BadInput if it was not measured.
    """
    timed = [row for row in benchmark.rows if not isinstance(row, Beside)]
    measured = {row.name for row in timed}
    if any(best_mutex(timed, cell) for cell in cells(timed)):
        measured.add(BEST_MUTEX)
    if name not in measured:
        raise unknown("variant in the benchmark:", name, measured)
    return benchmark.model_copy(update={"rows": with_ratios(benchmark.rows, name)})


def with_ratios(rows: Sequence[Row], name: str) -> list[Row]:
    """The rows with their ratios to `name`, and to the copy, each in its own cell."""
    return [row if isinstance(row, Beside) else _with_ratios(row, rows, name) for row in rows]


def _with_ratios(row: Timed, rows: Sequence[Row], name: str) -> Timed:
    cell = cell_of(row)
    alike = [one for one in rows if cell_of(one) == cell]
    best = best_mutex(alike, cell)
    base = best if name == BEST_MUTEX else next((one for one in alike if one.name == name), None)
    copy = next((one for one in alike if isinstance(one, Copied)), None)
    ratio, ratio_low, ratio_high = _bounds(row, base)
    copied, copied_low, copied_high = _bounds(row, copy)
    return row.model_copy(
        update={
            **{"ratio_to": name, "ratio": ratio, "ratio_low": ratio_low, "ratio_high": ratio_high},
            **{"memcpy_ratio": copied, "memcpy_ratio_low": copied_low, "memcpy_ratio_high": copied_high},
            "best_mutex": best.name if best else None,
        }
    )


def _bounds(row: Timed, base: Row | None) -> tuple[float | None, float | None, float | None]:
    ratio = over(row, base)
    return stats.bounded(ratio) if ratio else (None, None, None)


def over(row: Timed, base: Row | None) -> stats.Interval | None:
    """The row's time over that of `base`, of the same cell; None where there is nothing to pair."""
    if base is None or base.us_by_round is None:
        return None
    return stats.paired_ratio(row.us_by_round, base.us_by_round)


def cell_of(row: Row) -> Cell:
    return Cell(row.elements, row.threads, row.gradient)


def cells(rows: Iterable[Row]) -> list[Cell]:
    """The sizes, numbers of threads and kinds of gradient, in their order."""
    return list(dict.fromkeys(map(cell_of, rows)))


def best_mutex(rows: Iterable[Row], cell: Cell) -> TimedReference | None:
    """The plain mutex with the shortest mean time over all rounds of a cell; None where none was measured.

    Chosen once and then paired round by round. As the best of several it is, if anything, lucky: ratios to it are
    rather too large than too small.
    """
    loops = [
        row
        for row in rows
        if isinstance(row, TimedReference) and row.name.partition(":")[0] == MUTEX_LOOP and cell_of(row) == cell
    ]
    return min(loops, key=lambda row: row.us_per_update, default=None)


class Best(NamedTuple):
    """The fastest variant of a cell among those of the same promise, and the next."""

    row: TimedVariant
    next: TimedVariant | None
    over_next: stats.Interval | None


def best_of_equal_promise(benchmark: Saved) -> Iterator[Best]:
    """For every cell and promise. One that lost an update against its promise is not among them."""
    kept = [row for row in benchmark.rows if isinstance(row, TimedVariant) and row.kept]
    for cell in cells(kept):
        alike = [row for row in kept if cell_of(row) == cell]
        for promise in dict.fromkeys(row.promise for row in alike):
            ranked = sorted((row for row in alike if row.promise == promise), key=lambda row: row.us_per_update)
            second = ranked[1] if len(ranked) > 1 else None
            yield Best(ranked[0], second, over(ranked[0], second))


def against_one_thread(benchmark: Saved) -> Iterator[tuple[Timed, stats.Interval]]:
    """Every row of several threads, and its time over that of the same variant, size and gradient with one thread."""
    timed = [row for row in benchmark.rows if not isinstance(row, Beside)]
    alone = {(row.name, row.elements, row.gradient): row for row in timed if row.threads == 1}
    for row in timed:
        base = alone.get((row.name, row.elements, row.gradient))
        if base is None or row.threads == 1:
            continue
        ratio = stats.paired_ratio(row.us_by_round, base.us_by_round)
        if ratio is not None:
            yield row, ratio
