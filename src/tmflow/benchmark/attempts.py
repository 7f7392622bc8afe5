"""What an aborted attempt costs, where every attempt of a variant aborts: from the same variant with other budgets.

With every attempt aborted, an update is as many attempts as the budget has, and then the mutex. The time of an attempt
is that by which the two largest budgets differ, over the attempts by which they differ. What is left of an update of a
smaller budget, without its attempts, is compared with `lock`: it should be an update under the mutex and little else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tmflow.analysis import stats
from tmflow.benchmark.comparison import cell_of, cells
from tmflow.benchmark.rows import Beside, Timed
from tmflow.benchmark.saved import Saved

LIMIT = 1.1  # of the mutex: the elision's own share is to be at most a tenth


@dataclass(frozen=True)
class Rest:
    """An update without its attempts, over an update of `lock`: the mean over the rounds with its 95 % interval.

    `attempt_us` is the time of an attempt, likewise, by the rows `longer` and `longest`.
    """

    row: Timed
    longer: Timed
    longest: Timed
    attempt_us: stats.Interval
    ratio: stats.Interval

    @property
    def verdict(self) -> str:
        """Whether the whole interval is on one side of LIMIT."""
        if self.ratio.high <= LIMIT:
            return "yes"
        return "no" if self.ratio.low > LIMIT else "undecided"


def rests(benchmark: Saved) -> Iterator[Rest]:
    """Of every row all of whose attempts aborted, where two larger budgets of the same variant were measured as well.

    Rows that did not have a turn in every round are left out.
    """
    complete = [row for row in benchmark.rows if not isinstance(row, Beside) and None not in row.us_by_round]
    for cell in cells(complete):
        rows = [row for row in complete if cell_of(row) == cell]
        lock = next((row for row in rows if row.name == "lock"), None)
        refused = [row for row in rows if "budget" in row.parameters and row.commits == 0]
        for family in dict.fromkeys(_family(row) for row in refused):
            budgets = sorted((row for row in refused if _family(row) == family), key=_attempts)
            if lock is not None and len(budgets) > 2 and _attempts(budgets[-2]) < _attempts(budgets[-1]):
                yield from (_rest(row, budgets[-2], budgets[-1], lock) for row in budgets[:-2])


def _family(row: Timed) -> tuple[object, ...]:
    """The same for variants that differ in nothing but their budget."""
    others = sorted((name, value) for name, value in row.parameters.items() if name != "budget")
    return (row.name.partition(":")[0], *others)


def _attempts(row: Timed) -> float:
    """Per update."""
    return row.aborts_per_update or 0.0


def _rest(row: Timed, longer: Timed, longest: Timed, lock: Timed) -> Rest:
    more = _attempts(longest) - _attempts(longer)
    by_round = zip(*(_us(one) for one in (row, longer, longest, lock)), strict=True)
    attempts_us, ratios = [], []
    for own, long, longer_still, under_lock in by_round:
        attempts_us.append((longer_still - long) / more)
        ratios.append((own - _attempts(row) * attempts_us[-1]) / under_lock)
    return Rest(row, longer, longest, stats.mean_interval(attempts_us), stats.mean_interval(ratios))


def _us(row: Timed) -> list[float]:
    return [us for us in row.us_by_round if us is not None]
