"""Turns measurements of updates into rows with intervals over rounds and counts of outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tmflow.analysis import stats
from tmflow.benchmark.comparison import cell_of, cells, with_ratios
from tmflow.benchmark.rows import ByteRate, Copied, LeftOut, Row, Timed, TimedReference, TimedVariant, Written
from tmflow.benchmark.storage import Saved
from tmflow.benchmark.subjects import MEMCPY, WRITING, Subject
from tmflow.benchmark.updates import Answer, Cell, Measured, NotMeasurable, Outcome, Plan, times_by_round, update_times
from tmflow.spec.abort_codes import raw_code

BYTES_PER_ELEMENT = 12  # an update reads variable and gradient and writes the variable, 4 bytes each
WRITTEN_BYTES_PER_ELEMENT = 4  # of a gradient

Bounded = tuple[float, float | None, float | None]


def rows(plan: Plan, outcome: Outcome) -> list[Row]:
    """The rows of all measurements: cell by cell, copy and writing first, then the fastest first.

    What took no longer than the writing of its gradient is added to the outcome's `left_out`.
    """
    result: list[Row] = []
    for cell in plan.cells:
        by_name = {s.name: (s, outcome.measured[s.name, cell]) for s in outcome.subjects if _has(outcome, s, cell)}
        if (copies := by_name.pop(MEMCPY, None)) is not None:
            result.append(_copied(plan, cell, copies[1]))
        if (written := by_name.pop(WRITING, None)) is not None:
            result.append(_written(plan, cell, written[1]))
        timed = []
        for subject, measured in by_name.values():
            try:
                us = update_times(cell, measured, written[1] if written else None)
            except NotMeasurable as reason:
                outcome.left_out.append(LeftOut(name=subject.name, reason=str(reason), failed=False, **cell._asdict()))
            else:
                timed.append(_timed(plan, cell, subject, measured, us))
        result += _fastest_first(timed)
    return with_ratios(result, plan.reference)


def _has(outcome: Outcome, subject: Subject, cell: Cell) -> bool:
    return (subject.name, cell) in outcome.measured and outcome.measured[subject.name, cell].rounds > 0


def _fastest_first(timed: Iterable[Timed]) -> list[Timed]:
    return sorted(timed, key=lambda row: row.us_per_update)


def _copied(plan: Plan, cell: Cell, measured: Measured) -> Copied:
    by_round = times_by_round(measured)
    us, low, high = geometric_mean(_measured_values(by_round))
    of_cell = _of_cell(plan, cell, measured, BYTES_PER_ELEMENT, us)
    return Copied(**of_cell, memcpy_us=us, memcpy_low=low, memcpy_high=high, us_by_round=by_round)


def _written(plan: Plan, cell: Cell, measured: Measured) -> Written:
    by_round = times_by_round(measured)
    us, low, high = geometric_mean(_measured_values(by_round))
    of_cell = _of_cell(plan, cell, measured, WRITTEN_BYTES_PER_ELEMENT, us)
    return Written(**of_cell, writing_us=us, writing_low=low, writing_high=high, us_by_round=by_round)


def _timed(plan: Plan, cell: Cell, subject: Subject, measured: Measured, by_round: list[float | None]) -> Timed:
    """The row of a subject without ratios, which `comparison` adds."""
    us, us_low, us_high = geometric_mean(_measured_values(by_round))
    fields: dict[str, Any] = {
        **_of_cell(plan, cell, measured, BYTES_PER_ELEMENT, us),
        **{"parameters": dict(subject.parameters), "us_by_round": by_round},
        **{"us_with_writing_by_round": None if cell.gradient == "constant" else times_by_round(measured)},
        **{"turn_by_round": measured.turn_by_round},
        **{"us_per_update": us, "us_low": us_low, "us_high": us_high},
        **dict.fromkeys(("ratio_to", "ratio", "ratio_low", "ratio_high")),
        **count_outcomes([answer for answer in measured.by_round if answer is not None]),
    }
    promise = subject.promise_over(cell.elements)
    if promise is None:
        return TimedReference(reference=subject.name, **fields)
    return TimedVariant(variant=subject.name, strategy=subject.strategy, promise=promise, **fields)


def _of_cell(plan: Plan, cell: Cell, measured: Measured, bytes_per_element: int, us: float) -> dict[str, Any]:
    return {
        **cell._asdict(),
        "oversubscribed": cell.threads > plan.cpus,
        "rounds": measured.rounds,
        "gb_per_s": bytes_per_element * cell.elements / us / 1e3,
    }


def count_outcomes(answers: Sequence[Answer]) -> dict[str, Any]:
    """Sum the counts of all rounds and compute the shares."""

    def total(name: str) -> int:
        return sum(answer[name] for answer in answers)

    aborts: Counter[str] = Counter()
    for answer in answers:
        aborts.update({raw_code(int(status)): n for status, n in answer["aborts"].items()})
    aborted, updates = aborts.total(), total("updates")
    commits, sections = total("commits"), total("commits") + total("fallbacks")
    all_known = all(answer["attempts_known"] for answer in answers)
    return {
        "updates": updates,
        "lost_fraction": total("lost") / total("expected"),
        "doubled": total("doubled"),
        "corrupt_elements": total("corrupt_elements"),
        "commits": commits,
        "fallbacks": total("fallbacks"),
        "aborts": dict(sorted(aborts.items())),
        "attempts_known": all_known,
        "commit_fraction": commits / sections if sections else None,
        "aborts_per_commit": aborted / commits if commits and all_known else None,
        "aborts_per_update": aborted / updates if sections and all_known else None,
    }


def geometric_mean(values: Sequence[float]) -> Bounded:
    """The geometric mean with its 95 % interval; bounds are None for a single value."""
    return stats.bounded(stats.ratio_interval(values, [1.0] * len(values)))


def _measured_values(by_round: Sequence[float | None]) -> list[float]:
    return [us for us in by_round if us is not None]


LIMIT = 1.1  # relative to the mutex: elision may add at most a tenth


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
        """Whether the entire interval is on one side of LIMIT."""
        if self.ratio.high <= LIMIT:
            return "yes"
        return "no" if self.ratio.low > LIMIT else "undecided"


def rests(benchmark: Saved) -> Iterator[Rest]:
    """Yield a Rest for each row whose attempts all aborted, if two larger budgets of its variant were measured.

    Rows that did not have a turn in every round are left out.
    """
    complete = [row for row in benchmark.rows if not isinstance(row, ByteRate) and None not in row.us_by_round]
    for cell in cells(complete):
        rows = [row for row in complete if cell_of(row) == cell]
        lock = next((row for row in rows if row.name == "lock"), None)
        refused = [row for row in rows if "budget" in row.parameters and row.commits == 0]
        for family in dict.fromkeys(_family(row) for row in refused):
            budgets = sorted((row for row in refused if _family(row) == family), key=_attempts)
            if lock is not None and len(budgets) > 2 and _attempts(budgets[-2]) < _attempts(budgets[-1]):
                yield from (_rest(row, budgets[-2], budgets[-1], lock) for row in budgets[:-2])


def _family(row: Timed) -> tuple[object, ...]:
    """The key of variants that differ only in their budget."""
    others = sorted((name, value) for name, value in row.parameters.items() if name != "budget")
    return (row.name.partition(":")[0], *others)


def _attempts(row: Timed) -> float:
    """Aborted attempts per update."""
    return row.aborts_per_update or 0.0


def _rest(row: Timed, longer: Timed, longest: Timed, lock: Timed) -> Rest:
    more = _attempts(longest) - _attempts(longer)
    by_round = zip(*(_us(one) for one in (row, longer, longest, lock)), strict=True)
    attempts_us, ratios = [], []
    for row_us, long, longer_still, under_lock in by_round:
        attempts_us.append((longer_still - long) / more)
        ratios.append((row_us - _attempts(row) * attempts_us[-1]) / under_lock)
    return Rest(row, longer, longest, stats.mean_interval(attempts_us), stats.mean_interval(ratios))


def _us(row: Timed) -> list[float]:
    return [us for us in row.us_by_round if us is not None]
