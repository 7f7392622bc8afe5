"""Compares rows of a benchmark within rounds, and checks them against the project's targets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tmflow.analysis import stats
from tmflow.analysis.stats import Interval
from tmflow.base.errors import unknown
from tmflow.benchmark.plan import BEST_MUTEX, MEMCPY, MUTEX_LOOP, Cell
from tmflow.benchmark.storage import ByteRate, Row, Saved, SavedSteps, Step, Timed, TimedReference, TimedVariant
from tmflow.spec.strategies import DELAYED

AnyRow = TypeVar("AnyRow", bound=Row)


def geometric_mean(us_by_round: Sequence[float | None]) -> Interval:
    """The geometric mean over the rounds that were measured, with its 95 % interval."""
    times = [us for us in us_by_round if us is not None]
    return stats.ratio_interval(times, [1.0] * len(times))


def interval_fields(estimate: str, interval: Interval | None, name: str | None = None) -> dict[str, Any]:
    """The fields of a row that hold an interval: `estimate`, and the bounds NAME_low and NAME_high; None if unknown."""
    values = stats.bounded(interval) if interval else (None, None, None)
    return dict(zip((estimate, f"{name or estimate}_low", f"{name or estimate}_high"), values, strict=True))


def relative_to(benchmark: Saved, name: str) -> Saved:
    """Recompute the ratios of a benchmark relative to `name`: a variant, a reference, or BEST_MUTEX.

    Raises BadInput if it was not measured.
    """
    timed = timed_rows(benchmark.rows)
    measured = {row.name for row in timed}
    if any(map(best_mutex, by_cell(timed))):
        measured.add(BEST_MUTEX)
    if name not in measured:
        raise unknown("variant in the benchmark:", name, measured)
    return benchmark.model_copy(update={"rows": with_ratios(benchmark.rows, name)})


def with_ratios(rows: Sequence[Row], name: str) -> list[Row]:
    """Add the ratios to `name` and to the copy, within each cell."""
    cells = {cell_of(cell_rows[0]): cell_rows for cell_rows in by_cell(rows)}
    result: list[Row] = []
    for row in rows:
        if isinstance(row, ByteRate):
            result.append(row)
            continue
        best, copy = best_mutex(cells[cell_of(row)]), _named(cells[cell_of(row)], MEMCPY)
        base = best if name == BEST_MUTEX else _named(cells[cell_of(row)], name)
        ratios = {**interval_fields("ratio", over(row, base)), **interval_fields("memcpy_ratio", over(row, copy))}
        best_name = best.name if best else None
        result.append(row.model_copy(update={"ratio_to": name, **ratios, "best_mutex": best_name}))
    return result


def _named(rows: Iterable[AnyRow], name: str) -> AnyRow | None:
    return next((row for row in rows if row.name == name), None)


def over(row: Timed, base: Row | None) -> stats.Interval | None:
    """The ratio of the row's time to that of `base` in the same cell; None if no rounds pair."""
    if base is None or base.us_by_round is None:
        return None
    return stats.paired_ratio(row.us_by_round, base.us_by_round)


def cell_of(row: Row) -> Cell:
    return Cell(row.elements, row.threads, row.gradient)


def by_cell(rows: Iterable[AnyRow]) -> list[list[AnyRow]]:
    """Group rows by their cell (size, threads, kind of gradient); cells and rows keep their order."""
    cells: dict[Cell, list[AnyRow]] = {}
    for row in rows:
        cells.setdefault(cell_of(row), []).append(row)
    return list(cells.values())


def timed_rows(rows: Iterable[Row]) -> list[Timed]:
    return [row for row in rows if not isinstance(row, ByteRate)]


def best_mutex(cell_rows: Iterable[Row]) -> TimedReference | None:
    """The plain mutex with the shortest mean time over all rounds of a cell; None if none was measured.

    It is chosen once and then paired round by round. As the best of several it is slightly optimistic: ratios to it
    tend to be too large rather than too small.
    """
    mutexes = [row for row in cell_rows if isinstance(row, TimedReference)]
    loops = [row for row in mutexes if row.name.partition(":")[0] == MUTEX_LOOP]
    return min(loops, key=lambda row: row.us_per_update, default=None)


class Best(NamedTuple):
    """The fastest and the second fastest variant of a cell with the same guarantee."""

    row: TimedVariant
    next: TimedVariant | None
    over_next: stats.Interval | None


def best_of_equal_consistency(benchmark: Saved) -> Iterator[Best]:
    """Yield the best of every cell and guarantee.

    Variants that violated their guarantee, and those under which updates are seen late, are left out.
    """
    for cell_rows in by_cell(row for row in _kept(benchmark.rows) if row.strategy not in DELAYED):
        for consistency in dict.fromkeys(row.consistency for row in cell_rows):
            equals = [row for row in cell_rows if row.consistency == consistency]
            best, *others = sorted(equals, key=lambda row: row.us_per_update)
            second = others[0] if others else None
            yield Best(best, second, over(best, second))


def against_one_thread(benchmark: Saved) -> Iterator[tuple[Timed, stats.Interval]]:
    """Yield rows of several threads with the ratio of their time to that of one thread in the same configuration."""
    timed = timed_rows(benchmark.rows)
    one_thread = {(row.name, row.elements, row.gradient): row for row in timed if row.threads == 1}
    for row in timed:
        base = one_thread.get((row.name, row.elements, row.gradient))
        if row.threads > 1 and (ratio := over(row, base)) is not None:
            yield row, ratio


def verdict(ratio: Interval, limit: float, met: str = "met", missed: str = "missed") -> str:
    """Met or missed only if the entire interval lies on one side of the limit; bounds may be NaN."""
    if ratio.high <= limit:
        return met
    return missed if ratio.low > limit else "undecided"


@dataclass(frozen=True)
class CheckedTarget:
    """A checked target: a measured ratio of two times, or a time in microseconds if `of` is empty."""

    what: str
    of: str
    limit: float
    measured: Interval

    @property
    def verdict(self) -> str:
        return verdict(self.measured, self.limit)


SMALL, LARGE = 7850, 3_211_264  # W of mnist_softmax with b, and the dense layer of mnist_deep
BEST_BLOCK, BEST_PLAIN = "best with block consistency", "best plain mutex"
TENTH = 1.1  # "within 10 %"

# Elements, threads, and two rows, by name or as the best of a kind: the ratio of their times is at most the last item.
TARGETS = (
    (SMALL, 2, BEST_BLOCK, BEST_PLAIN, 0.55),
    (SMALL, 2, BEST_BLOCK, "nolock", 0.2),
    (LARGE, 2, BEST_BLOCK, BEST_PLAIN, 0.65),
    (LARGE, 2, BEST_BLOCK, "nolock", 0.8),
    (LARGE, 2, BEST_BLOCK, MEMCPY, TENTH),
    (SMALL, 1, "block_stm", BEST_PLAIN, 1.3),
    (SMALL, 2, "block_stm", BEST_PLAIN, 1.0),
)


def check_targets(benchmark: Saved) -> Iterator[tuple[Cell, CheckedTarget]]:
    """Check every target whose two sides were measured."""
    cells = by_cell(benchmark.rows)
    for elements, threads, what, of, limit in TARGETS:
        for rows in cells:
            if (rows[0].elements, rows[0].threads) == (elements, threads):
                yield from _compared(what, _pick(rows, what), of, _pick(rows, of), limit)
    for rows in cells:
        variants = _kept(rows)
        for row in (row for row in variants if row.strategy == "adaptive"):
            others = [
                one
                for one in variants
                if one.strategy not in ("adaptive", *DELAYED) and one.consistency == row.consistency
            ]
            what = f"adaptive with {row.consistency} consistency"
            yield from _compared(what, row, "best of the same consistency", _fastest(others), TENTH)


def _pick(rows: Sequence[Row], name: str) -> Row | None:
    """The row of a cell that a target names; BEST_BLOCK has exactly this guarantee and kept it."""
    if name == BEST_BLOCK:
        return _fastest([row for row in _kept(rows) if row.consistency == "block"])
    return best_mutex(rows) if name == BEST_PLAIN else _named(rows, name)


def _compared(
    what: str, row: Row | None, of: str, base: Row | None, limit: float
) -> Iterator[tuple[Cell, CheckedTarget]]:
    if row is None or base is None or isinstance(row, ByteRate) or (ratio := over(row, base)) is None:
        return
    one, other = (
        name if name.startswith(compared_row.name) else f"{name}: {compared_row.name}"
        for name, compared_row in ((what, row), (of, base))
    )
    yield cell_of(row), CheckedTarget(one, other, limit, ratio)


def _kept(rows: Sequence[Row]) -> list[TimedVariant]:
    """The variants that kept their guarantee."""
    return [row for row in rows if isinstance(row, TimedVariant) and row.kept]


def _fastest(rows: list[TimedVariant]) -> TimedVariant | None:
    return min(rows, key=lambda row: row.us_per_update, default=None)


SOFTMAX_US, MLP_US = 0.8, 150.0


def check_step_targets(steps: SavedSteps) -> Iterator[CheckedTarget]:
    """Check the targets whose configurations were all measured (see `steps.OF_THE_TARGETS`)."""
    rows = {row.name: row for row in steps.rows}

    def fastest(*names: str) -> Step | None:
        matching = [row for row in steps.rows if row.name.startswith(names)]
        return min(matching, key=lambda row: row.us_per_step, default=None)

    def ratio(row: Step | None, base: Step | None, limit: float) -> Iterator[CheckedTarget]:
        if row and base and (measured := stats.paired_ratio(row.us_by_round, base.us_by_round)):
            yield CheckedTarget(row.name, base.name, limit, measured)

    stock = rows.get("deep, stock")
    yield from ratio(rows.get("softmax, native"), rows.get("softmax, session"), 1 / 20)
    for name, limit_us in (("softmax, fused native", SOFTMAX_US), ("MLP, native", MLP_US)):
        if row := rows.get(name):
            yield CheckedTarget(row.name, "", limit_us, geometric_mean(row.us_by_round))
    one_worker = rows.get("softmax, fused native")
    yield from ratio(rows.get("softmax, fused native, 2 workers"), one_worker, 1.0)
    yield from ratio(rows.get("softmax, fused local steps, 2 workers"), one_worker, 1.0)
    yield from ratio(rows.get("MLP of one image, fused native"), rows.get("MLP of one image, native"), 1 / 2)
    lossless = ("MLP, fused striped, 2 workers", "MLP, fused combining, 2 workers")
    yield from ratio(fastest(*lossless), rows.get("MLP, fused native"), 0.6)
    yield from ratio(rows.get("MLP, fused local steps, 2 workers"), rows.get("MLP, fused native"), 0.6)
    yield from ratio(fastest("deep, fused"), stock, 1 / 2)
    yield from ratio(fastest("deep, striped", "deep, lock"), stock, 1 / 1.3)


LIMIT = 1.1  # relative to the mutex: elision may add at most a tenth


@dataclass(frozen=True)
class Rest:
    """The time of an update without its attempts, divided by that of `lock`: mean over the rounds, 95 % interval.

    `attempt_us` is the time of an attempt, computed from the rows `longer` and `longest`, with its interval.
    """

    row: Timed
    longer: Timed
    longest: Timed
    attempt_us: Interval
    ratio: Interval

    @property
    def verdict(self) -> str:
        """Whether the entire interval is on one side of LIMIT."""
        return verdict(self.ratio, LIMIT, "yes", "no")


def rests(benchmark: Saved) -> Iterator[Rest]:
    """Yield a Rest for each row whose attempts all aborted, if two larger budgets of its variant were measured.

    Rows that were not measured in every round are left out.
    """
    for rows in by_cell(row for row in timed_rows(benchmark.rows) if None not in row.us_by_round):
        lock = _named(rows, "lock")
        refused = [row for row in rows if "budget" in row.parameters and row.commits == 0]
        for family in dict.fromkeys(map(_family, refused)):
            budgets = sorted((row for row in refused if _family(row) == family), key=_attempts)
            if lock is None or len(budgets) < 3 or _attempts(budgets[-2]) == _attempts(budgets[-1]):
                continue
            *smaller, longer, longest = budgets
            attempts_us = (_us(longest) - _us(longer)) / (_attempts(longest) - _attempts(longer))
            for row in smaller:
                ratios = (_us(row) - _attempts(row) * attempts_us) / _us(lock)
                yield Rest(row, longer, longest, stats.mean_interval(attempts_us), stats.mean_interval(ratios))


def _family(row: Timed) -> tuple[object, ...]:
    """The key of variants that differ only in their budget."""
    others = sorted((name, value) for name, value in row.parameters.items() if name != "budget")
    return (row.name.partition(":")[0], *others)


def _attempts(row: Timed) -> float:
    """Aborted attempts per update."""
    return row.aborts_per_update or 0.0


def _us(row: Timed) -> NDArray[np.float64]:
    return np.array(row.us_by_round, dtype=float)
