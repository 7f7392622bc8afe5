"""Compares rows of a benchmark within rounds, and checks them against the project's targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from tmflow.analysis import stats
from tmflow.analysis.stats import Interval
from tmflow.base.errors import unknown
from tmflow.benchmark.rows import ByteRate, Copied, Row, Timed, TimedReference, TimedVariant
from tmflow.benchmark.storage import Saved
from tmflow.benchmark.subjects import BEST_MUTEX, MUTEX_LOOP, Gradient
from tmflow.benchmark.updates import Cell

Times = Sequence[float | None]


def relative_to(benchmark: Saved, name: str) -> Saved:
    """Recompute the ratios of a benchmark relative to `name`: a variant, a reference, or BEST_MUTEX.

    Raises BadInput if it was not measured.
    """
    timed = [row for row in benchmark.rows if not isinstance(row, ByteRate)]
    measured = {row.name for row in timed}
    if any(best_mutex(timed, cell) for cell in cells(timed)):
        measured.add(BEST_MUTEX)
    if name not in measured:
        raise unknown("variant in the benchmark:", name, measured)
    return benchmark.model_copy(update={"rows": with_ratios(benchmark.rows, name)})


def with_ratios(rows: Sequence[Row], name: str) -> list[Row]:
    """Add the ratios to `name` and to the copy, within each cell."""
    return [row if isinstance(row, ByteRate) else _with_ratios(row, rows, name) for row in rows]


def _with_ratios(row: Timed, rows: Sequence[Row], name: str) -> Timed:
    cell = cell_of(row)
    cell_rows = [one for one in rows if cell_of(one) == cell]
    best = best_mutex(cell_rows, cell)
    base = best if name == BEST_MUTEX else next((one for one in cell_rows if one.name == name), None)
    copy = next((one for one in cell_rows if isinstance(one, Copied)), None)
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
    """The ratio of the row's time to that of `base` in the same cell; None if no rounds pair."""
    if base is None or base.us_by_round is None:
        return None
    return stats.paired_ratio(row.us_by_round, base.us_by_round)


def cell_of(row: Row) -> Cell:
    return Cell(row.elements, row.threads, row.gradient)


def cells(rows: Iterable[Row]) -> list[Cell]:
    """The distinct cells (size, threads, kind of gradient), in order."""
    return list(dict.fromkeys(map(cell_of, rows)))


def best_mutex(rows: Iterable[Row], cell: Cell) -> TimedReference | None:
    """The plain mutex with the shortest mean time over all rounds of a cell; None if none was measured.

    It is chosen once and then paired round by round. As the best of several it is slightly optimistic: ratios to it
    tend to be too large rather than too small.
    """
    loops = [
        row
        for row in rows
        if isinstance(row, TimedReference) and row.name.partition(":")[0] == MUTEX_LOOP and cell_of(row) == cell
    ]
    return min(loops, key=lambda row: row.us_per_update, default=None)


class Best(NamedTuple):
    """The fastest and the second fastest variant of a cell with the same guarantee."""

    row: TimedVariant
    next: TimedVariant | None
    over_next: stats.Interval | None


def best_of_equal_promise(benchmark: Saved) -> Iterator[Best]:
    """Yield the best of every cell and guarantee; variants that violated their guarantee are left out."""
    kept = [row for row in benchmark.rows if isinstance(row, TimedVariant) and row.kept]
    for cell in cells(kept):
        cell_rows = [row for row in kept if cell_of(row) == cell]
        for promise in dict.fromkeys(row.promise for row in cell_rows):
            sorted_rows = sorted(
                (row for row in cell_rows if row.promise == promise), key=lambda row: row.us_per_update
            )
            second = sorted_rows[1] if len(sorted_rows) > 1 else None
            yield Best(sorted_rows[0], second, over(sorted_rows[0], second))


def against_one_thread(benchmark: Saved) -> Iterator[tuple[Timed, stats.Interval]]:
    """Yield rows of several threads with the ratio of their time to that of one thread in the same configuration."""
    timed = [row for row in benchmark.rows if not isinstance(row, ByteRate)]
    one_thread = {(row.name, row.elements, row.gradient): row for row in timed if row.threads == 1}
    for row in timed:
        base = one_thread.get((row.name, row.elements, row.gradient))
        if base is None or row.threads == 1:
            continue
        ratio = stats.paired_ratio(row.us_by_round, base.us_by_round)
        if ratio is not None:
            yield row, ratio


SMALL, LARGE = 7850, 3_211_264  # W of mnist_softmax with b, and the dense layer of mnist_deep
TENTH = 1.1  # "within 10 %"

Pick = Callable[[list[Row], Cell], Row | None]


class Target(NamedTuple):
    """A target: at this size and number of threads, the ratio of two times is at most `limit`."""

    elements: int
    threads: int
    what: str
    pick: Pick
    of: str
    base: Pick
    limit: float


class Checked(NamedTuple):
    """A checked target: the compared rows and the measured ratio."""

    elements: int
    threads: int
    gradient: Gradient
    what: str
    of: str
    limit: float
    ratio: Interval

    @property
    def verdict(self) -> str:
        return verdict(self.ratio, self.limit)


def verdict(ratio: Interval, limit: float) -> str:
    """Met or missed only if the entire interval lies on one side of the limit."""
    if math.isnan(ratio.low):
        return "undecided"
    if ratio.high <= limit:
        return "met"
    return "missed" if ratio.low > limit else "undecided"


def check_targets(benchmark: Saved) -> Iterator[Checked]:
    """Check every target whose two sides were measured."""
    for target in TARGETS:
        for cell in (one for one in cells(benchmark.rows) if one[:2] == (target.elements, target.threads)):
            rows = [row for row in benchmark.rows if cell_of(row) == cell]
            yield from _compared(target.what, target.pick(rows, cell), target.of, target.base(rows, cell), target.limit)
    for cell in cells(benchmark.rows):
        variants = [row for row in _variants(benchmark.rows) if cell_of(row) == cell]
        for row in (row for row in variants if row.strategy == "adaptive"):
            others = [one for one in variants if one.strategy != "adaptive" and one.promise == row.promise]
            what = f"adaptive, promising {row.promise}"
            yield from _compared(what, row, "best of its promise", _fastest(others), TENTH)


def _compared(what: str, row: Row | None, of: str, base: Row | None, limit: float) -> Iterator[Checked]:
    if row is None or base is None or isinstance(row, ByteRate) or (ratio := over(row, base)) is None:
        return
    one, other = (
        name if name.startswith(compared_row.name) else f"{name}: {compared_row.name}"
        for name, compared_row in ((what, row), (of, base))
    )
    yield Checked(row.elements, row.threads, row.gradient, one, other, limit, ratio)


def _variants(rows: Sequence[Row]) -> list[TimedVariant]:
    """The variants that kept their guarantee."""
    return [row for row in rows if isinstance(row, TimedVariant) and row.kept]


def _fastest(rows: list[TimedVariant]) -> TimedVariant | None:
    return min(rows, key=lambda row: row.us_per_update, default=None)


def _best_block(rows: list[Row], cell: Cell) -> Row | None:
    """The fastest variant with exactly the guarantee `block` that lost nothing."""
    return _fastest([row for row in _variants(rows) if row.promise == "block"])


def _named(name: str) -> Pick:
    return lambda rows, cell: next((row for row in rows if row.name == name), None)


_BLOCK = "best that promises block"
_MUTEX: tuple[str, Pick] = ("best plain mutex", best_mutex)
_NOLOCK, _COPY = ("nolock", _named("nolock")), ("memcpy", _named("memcpy"))

TARGETS = (
    Target(SMALL, 2, _BLOCK, _best_block, *_MUTEX, 0.55),
    Target(SMALL, 2, _BLOCK, _best_block, *_NOLOCK, 0.2),
    Target(LARGE, 2, _BLOCK, _best_block, *_MUTEX, 0.65),
    Target(LARGE, 2, _BLOCK, _best_block, *_NOLOCK, 0.8),
    Target(LARGE, 2, _BLOCK, _best_block, *_COPY, 1.1),
    Target(SMALL, 1, "block_stm", _named("block_stm"), *_MUTEX, 1.3),
    Target(SMALL, 2, "block_stm", _named("block_stm"), *_MUTEX, 1.0),
)
