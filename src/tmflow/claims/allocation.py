"""Which claim gets the next rounds of a study that has time left: the one that can be decided soonest.

The rule sees the spreads of the statements, never where their estimates lie, neither to choose nor to stop. A claim
gets more rounds while it has fewer than the number that gives 80 % power at the measured spreads (`power`). So it may
get rounds after its verdict is clear, and it may stop while its verdict is open.

Only rounds that the next ones are pooled with count: those of the current definition and the current software. With
fewer than six of them, the spreads are those of the version that stands for the claim, if that has six.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from tmflow.analysis.stats import MANY_ROUNDS, POWER
from tmflow.analysis.versions import LEAST_ROUNDS
from tmflow.claims.measured_runs import MeasuredRuns, reason_barred
from tmflow.claims.power import rounds_for
from tmflow.claims.schema import Check, Claim, Claims
from tmflow.claims.selection import Missing, Selected
from tmflow.study.plan import Plan

ENOUGH = f"enough for {POWER:.0%} power"
NOT_REQUESTED = "an experiment that was not requested"
TOO_MANY = f"more than {MANY_ROUNDS} rounds needed"
NOT_HERE = "not to be decided here (too small a machine, or missing or failed runs)"


class Wish(NamedTuple):
    """A claim that gets more rounds."""

    claim: str
    rounds: dict[str, int]
    """The number of further rounds of each experiment that needs any."""
    remaining_s: float
    """Estimated seconds of all of these rounds."""
    next_s: float
    """Estimated seconds of one round of each of these experiments."""
    few: bool = False
    """Whether the rounds are only those to six, fewer of which give no verdict."""


class Wishes(NamedTuple):
    """The claims that get more rounds, and why the others get none."""

    wanting: list[Wish]
    """The claim that can be decided soonest first."""
    without: Counter[str]
    """The number of claims by the reason."""


class _NoRounds(Exception):
    """A claim gets no further round; the message is the reason, one of those above."""


def wishes(
    claims: Claims, plan: Plan, runs: MeasuredRuns, uids_joined: Collection[str], experiments: Container[str]
) -> Wishes:
    """The claims that get more rounds, of these experiments only.

    Restatements of a finding are left out, because they would count it twice. So are claims that further rounds do not
    decide: on too small a machine, without runs of a curve, with failed runs, or if a thousand rounds are too few.

    uids_joined: the runs that the next rounds are pooled with.
    """

    @cache
    def round_s(experiment: str) -> float:
        return plan.costs.round_s(plan.points(experiment, "mnist"), plan.repeats(experiment))

    joined = runs.only(uids_joined)
    wanting, without = [], Counter[str]()
    for name, claim in claims.claims.items():
        if not claim.checks or claim.restates is not None or "measured" not in claim.evidence:
            continue
        try:
            rounds, few = _further_rounds(claim, plan, runs, joined, experiments)
        except _NoRounds as reason:
            without[str(reason)] += 1
            continue
        remaining_s = sum(number * round_s(experiment) for experiment, number in rounds.items())
        wanting.append(Wish(name, rounds, remaining_s, sum(map(round_s, rounds)), few))
    return Wishes(sorted(wanting, key=lambda wish: wish.remaining_s), without)


def next_wish(wanting: Iterable[Wish], left_s: float) -> Wish | None:
    """The first claim whose next rounds fit in the seconds that are left, by their estimated time."""
    return next((wish for wish in wanting if wish.next_s <= left_s), None)


class _Basis(NamedTuple):
    """A check, and the runs that say how many rounds it needs."""

    check: Check
    counted: int
    """The rounds that the next ones are pooled with."""
    runs: MeasuredRuns
    selected: Selected
    """The curves of these runs."""


def _further_rounds(
    claim: Claim, plan: Plan, runs: MeasuredRuns, joined: MeasuredRuns, experiments: Container[str]
) -> tuple[dict[str, int], bool]:
    """The further rounds of each experiment that needs any, and whether they are only those to six.

    Raises _NoRounds if the claim gets none.
    """
    bases = [_basis(check, claim, runs, joined) for check in claim.checks]
    if not all(experiment in experiments for experiment in claim.experiments()):
        raise _NoRounds(NOT_REQUESTED)
    needed = zip(bases, _rounds_needed(claim, plan, bases), strict=True)
    wanting = [(basis, rounds) for basis, rounds in needed if basis.selected.rounds[0] < rounds]
    further = dict[str, int]()
    for basis, rounds in wanting:
        experiment, more = basis.check.experiment, rounds - basis.counted
        if plan.rounds(experiment) + more > MANY_ROUNDS:
            raise _NoRounds(TOO_MANY)
        further[experiment] = max(more, further.get(experiment, 0))
    if not further:
        raise _NoRounds(ENOUGH)
    return further, all(rounds == LEAST_ROUNDS for _, rounds in wanting)


def _basis(check: Check, claim: Claim, runs: MeasuredRuns, joined: MeasuredRuns) -> _Basis:
    """The basis of a check. Raises _NoRounds if further rounds cannot show that it holds."""
    current, standing = (_select(check, claim, part) for part in (joined, runs))
    if current and reason_barred(check, current):
        raise _NoRounds(NOT_HERE)
    counted = current.rounds[0] if current else 0
    selected = current if current and (counted >= LEAST_ROUNDS or not standing) else standing
    if selected is None or max([*selected.curves[0].threads, *selected.agreeing]) < claim.reach:
        raise _NoRounds(NOT_HERE)
    return _Basis(check, counted, joined if selected is current else runs, selected)


def _rounds_needed(claim: Claim, plan: Plan, bases: Sequence[_Basis]) -> list[int]:
    """The rounds that each check needs, six or more. Raises _NoRounds if a thousand are too few."""
    # Fewer than six rounds give no verdict, and say little of the spread.
    if min(basis.selected.rounds[0] for basis in bases) < LEAST_ROUNDS:
        return [LEAST_ROUNDS for _ in bases]
    spreads = [basis.runs.spreads(basis.check, basis.selected, claim.hardware) for basis in bases]
    among, needed = sum(map(len, spreads)), []
    for basis, of_check in zip(bases, spreads, strict=True):
        rounds = rounds_for(of_check, among, POWER, plan.repeats(basis.check.experiment))
        if rounds is None:
            raise _NoRounds(TOO_MANY)
        needed.append(rounds)
    return needed


def _select(check: Check, claim: Claim, runs: MeasuredRuns) -> Selected | None:
    """The curves of a check; None if runs are missing."""
    try:
        return runs.select(check, claim.hardware)
    except Missing:
        return None
