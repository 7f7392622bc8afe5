"""Which claim gets the next rounds of a study that has time left: the one that can be decided soonest.

The rule sees the spreads of the statements, never where their estimates lie, neither to choose nor to stop. A claim
wants more rounds as long as the rounds that show it at the measured spreads (`power`) exceed those that it has. So it
may get rounds after its verdict is clear, and it may stop while its verdict is open.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from tmflow.analysis.stats import MANY_ROUNDS, POWER
from tmflow.analysis.versions import LEAST_ROUNDS
from tmflow.claims.measured_runs import MeasuredRuns
from tmflow.claims.power import Spread, rounds_for
from tmflow.claims.schema import Check, Claim, Claims
from tmflow.claims.selection import Missing, Selected
from tmflow.study.plan import Plan


class Wish(NamedTuple):
    """A claim that wants more rounds."""

    claim: str
    rounds: dict[str, int]
    """The number of further rounds of each experiment that needs any."""
    remaining_s: float
    """Estimated seconds of all of these rounds."""
    next_s: float
    """Estimated seconds of one round of each of these experiments."""


def wishes(claims: Claims, plan: Plan, runs: MeasuredRuns, experiments: Container[str]) -> list[Wish]:
    """The claims that want more rounds, of these experiments only, the one that can be decided soonest first.

    Restatements of a finding are left out, because they would count it twice. So are claims that further rounds do not
    decide: on too small a machine, without runs of a curve, with failed runs, or if a thousand rounds are too few.
    """

    @cache
    def round_s(experiment: str) -> float:
        return plan.costs.round_s(plan.points(experiment, "mnist"), plan.repeats(experiment))

    wanting = []
    for name, claim in claims.claims.items():
        if not claim.checks or claim.restates is not None or "measured" not in claim.evidence:
            continue
        if not all(experiment in experiments for experiment in claim.experiments()):
            continue
        if rounds := _further_rounds(claim, plan, runs):
            remaining_s = sum(number * round_s(experiment) for experiment, number in rounds.items())
            wanting.append(Wish(name, rounds, remaining_s, sum(map(round_s, rounds))))
    return sorted(wanting, key=lambda wish: wish.remaining_s)


def next_wish(wanting: Iterable[Wish], left_s: float) -> Wish | None:
    """The first claim whose next rounds fit in the seconds that are left, by their estimated time."""
    return next((wish for wish in wanting if wish.next_s <= left_s), None)


def further_rounds(spreads: Sequence[Spread], among: int, rounds: int) -> int | None:
    """How many more rounds show these statements, of the claim's `among`, after so many; None if too many."""
    needed = rounds_for(spreads, among, POWER)
    return None if needed is None else max(needed - rounds, 0)


def _further_rounds(claim: Claim, plan: Plan, runs: MeasuredRuns) -> dict[str, int]:
    """The further rounds of each experiment that needs any; empty if the claim wants none, or if none decide it."""
    try:
        selections = [(check, runs.select(check, claim.hardware)) for check in claim.checks]
    except Missing:
        return {}
    if not all(_is_decidable(claim, check, selected) for check, selected in selections):
        return {}
    # Fewer than six rounds give no verdict, and say little of the spread.
    few = {check.experiment: selected.rounds[0] for check, selected in selections if selected.rounds[0] < LEAST_ROUNDS}
    if few:
        return {experiment: LEAST_ROUNDS - rounds for experiment, rounds in few.items()}
    spreads = [runs.spreads(check, selected, claim.hardware) for check, selected in selections]
    among, further = sum(map(len, spreads)), dict[str, int]()
    for (check, selected), of_check in zip(selections, spreads, strict=True):
        more = further_rounds(of_check, among, selected.rounds[0])
        if more is None or plan.rounds(check.experiment) + more > MANY_ROUNDS:
            return {}
        further[check.experiment] = max(more, further.get(check.experiment, 0))
    return {experiment: more for experiment, more in further.items() if more}


def _is_decidable(claim: Claim, check: Check, selected: Selected) -> bool:
    """Whether further rounds may show that the check holds."""
    threads = [*selected.curves[0].threads, *selected.agreeing]
    barred = len(selected.failed) or (len(selected.diverged) and not check.predicate.diverged_agrees)
    return max(threads) >= claim.reach and not barred
