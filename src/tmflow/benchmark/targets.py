"""What updates were to cost, and what they do: targets as ratios inside one interleaved run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tmflow.analysis.stats import Interval
from tmflow.benchmark.comparison import best_mutex, cell_of, cells, over
from tmflow.benchmark.plan import Cell
from tmflow.benchmark.rows import Beside, Row, TimedVariant
from tmflow.benchmark.saved import Saved
from tmflow.benchmark.subjects import Gradient

SMALL, LARGE = 7850, 3_211_264  # W of mnist_softmax with b, and the dense layer of mnist_deep
TENTH = 1.1  # "within 10 %"

Pick = Callable[[list[Row], Cell], Row | None]


class Target(NamedTuple):
    """With that size and number of threads, one's time over another's is to be at most `limit`."""

    elements: int
    threads: int
    what: str
    pick: Pick
    of: str
    base: Pick
    limit: float


class Checked(NamedTuple):
    """A target, the rows that were compared, and what was found."""

    elements: int
    threads: int
    gradient: Gradient
    what: str
    of: str
    limit: float
    found: Interval

    @property
    def verdict(self) -> str:
        return verdict(self.found, self.limit)


def verdict(found: Interval, limit: float) -> str:
    """Met or missed only if the whole interval lies on one side of the limit."""
    if math.isnan(found.low):
        return "undecided"
    if found.high <= limit:
        return "met"
    return "missed" if found.low > limit else "undecided"


def checked(benchmark: Saved) -> Iterator[Checked]:
    """Every target of which both sides were measured."""
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
    if row is None or base is None or isinstance(row, Beside) or (found := over(row, base)) is None:
        return
    one, other = (
        name if name.startswith(its.name) else f"{name}: {its.name}" for name, its in ((what, row), (of, base))
    )
    yield Checked(row.elements, row.threads, row.gradient, one, other, limit, found)


def _variants(rows: Sequence[Row]) -> list[TimedVariant]:
    """Those that kept their promise."""
    return [row for row in rows if isinstance(row, TimedVariant) and row.kept]


def _fastest(rows: list[TimedVariant]) -> TimedVariant | None:
    return min(rows, key=lambda row: row.us_per_update, default=None)


def _best_block(rows: list[Row], cell: Cell) -> Row | None:
    """The fastest that promises `block`, no less and no more, and lost nothing."""
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
