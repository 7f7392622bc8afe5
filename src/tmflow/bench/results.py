"""What the measurements say: one object per subject and cell, with intervals over the rounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tmflow import stats
from tmflow.aborts import raw_code
from tmflow.bench.compared import with_ratios
from tmflow.bench.measure import Answer, Measured, Outcome
from tmflow.bench.plan import Cell, Plan
from tmflow.bench.rows import Copied, Row, Timed, TimedReference, TimedVariant
from tmflow.bench.subject import MEMCPY, Subject

BYTES_PER_ELEMENT = 12  # an update reads variable and gradient and writes the variable, 4 bytes each

Bounded = tuple[float, float | None, float | None]


def rows(plan: Plan, outcome: Outcome) -> list[Row]:
    """The objects of all that was measured: cell after cell, the copy first, then from the fastest on."""
    found: list[Row] = []
    for cell in plan.cells:
        its = {s.name: (s, outcome.measured[s.name, cell]) for s in outcome.subjects if _has(outcome, s, cell)}
        if (copies := its.pop(MEMCPY, None)) is not None:
            found.append(_copied(plan, cell, copies[1]))
        found += _fastest_first(_timed(plan, cell, *one) for one in its.values())
    return with_ratios(found, plan.reference)


def _has(outcome: Outcome, subject: Subject, cell: Cell) -> bool:
    return (subject.name, cell) in outcome.measured and outcome.measured[subject.name, cell].rounds > 0


def _fastest_first(timed: Iterable[Timed]) -> list[Timed]:
    return sorted(timed, key=lambda row: row.us_per_update)


def _copied(plan: Plan, cell: Cell, measured: Measured) -> Copied:
    us, low, high = geometric_mean(_times(measured))
    of_cell = _of_cell(plan, cell, measured, us)
    return Copied(**of_cell, memcpy_us=us, memcpy_low=low, memcpy_high=high, us_by_round=_by_round(measured))


def _timed(plan: Plan, cell: Cell, subject: Subject, measured: Measured) -> Timed:
    """Without ratios: they are the comparison's."""
    us, us_low, us_high = geometric_mean(_times(measured))
    fields: dict[str, Any] = {
        **_of_cell(plan, cell, measured, us),
        **{"parameters": dict(subject.parameters), "us_by_round": _by_round(measured)},
        **{"us_per_update": us, "us_low": us_low, "us_high": us_high},
        **dict.fromkeys(("ratio_to", "ratio", "ratio_low", "ratio_high")),
        **counted([answer for answer in measured.by_round if answer is not None]),
    }
    promise = subject.promise_over(cell.elements)
    if promise is None:
        return TimedReference(reference=subject.name, **fields)
    return TimedVariant(variant=subject.name, strategy=subject.strategy, promise=promise, **fields)


def _of_cell(plan: Plan, cell: Cell, measured: Measured, us: float) -> dict[str, Any]:
    return {
        "elements": cell.elements,
        "threads": cell.threads,
        "oversubscribed": cell.threads > plan.cpus,
        "rounds": measured.rounds,
        "gb_per_s": BYTES_PER_ELEMENT * cell.elements / us / 1e3,
    }


def counted(answers: Sequence[Answer]) -> dict[str, Any]:
    """The counts of all rounds together, and the shares that follow from them."""

    def total(name: str) -> int:
        return sum(answer[name] for answer in answers)

    aborts: Counter[str] = Counter()
    for answer in answers:
        aborts.update({raw_code(int(status)): n for status, n in answer["aborts"].items()})
    aborted, updates = aborts.total(), total("updates")
    commits, sections = total("commits"), total("commits") + total("fallbacks")
    known = all(answer["attempts_known"] for answer in answers)
    return {
        "updates": updates,
        "lost_fraction": total("lost") / total("expected"),
        "doubled": total("doubled"),
        "corrupt_elements": total("corrupt_elements"),
        "commits": commits,
        "fallbacks": total("fallbacks"),
        "aborts": dict(sorted(aborts.items())),
        "attempts_known": known,
        "commit_fraction": commits / sections if sections else None,
        "aborts_per_commit": aborted / commits if commits and known else None,
        "aborts_per_update": aborted / updates if sections and known else None,
    }


def geometric_mean(values: Sequence[float]) -> Bounded:
    """With its 95 % interval on the log scale; bounds None for a single value."""
    return stats.bounded(stats.ratio_interval(values, [1.0] * len(values)))


def _by_round(measured: Measured) -> list[float | None]:
    """us per update."""
    return [None if one is None else 1e6 * one["seconds"] / one["updates"] for one in measured.by_round]


def _times(measured: Measured) -> list[float]:
    return [us for us in _by_round(measured) if us is not None]
