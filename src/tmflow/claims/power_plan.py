"""The rounds and repeats that decide each claim on this machine with a given power, and the time that they take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import URL

from tmflow.analysis.stats import MANY_ROUNDS
from tmflow.base.text import listed, several
from tmflow.claims.measured_runs import MeasuredRuns, load_measured_runs, reason_barred
from tmflow.claims.measures import Factors
from tmflow.claims.next_run import Machine, could_decide, machine_of
from tmflow.claims.origins import NEEDS
from tmflow.claims.power import Spread, guessed_spreads, rounds_for
from tmflow.claims.schema import Check, Claim, Claims, load_claims
from tmflow.claims.selection import CAPABILITY, Missing, Selected
from tmflow.native import registry
from tmflow.platform.facts import platform_facts
from tmflow.store import engine, schema
from tmflow.study.plan import Plan

REPEATS = (1, 2, 3, 4)  # that a plan may choose

Guess = tuple[float, float]
"""The standard deviations of the log time of a point: what a round does to it alone, and between its trials."""


class CannotPlan(Exception):
    """The rounds of a claim cannot be planned; the message is the reason in one phrase."""


class Rounds(NamedTuple):
    """What an experiment needs, and the estimated seconds of all of its rounds."""

    experiment: str
    rounds: int
    repeats: int
    seconds: float


@dataclass(frozen=True)
class PlannedClaim:
    """The rounds that decide a claim, or the reason why they cannot be planned."""

    name: str
    restates: str | None
    statements: int = 0
    rounds: list[Rounds] = field(default_factory=list)
    """Of each experiment of the claim."""
    reason: str | None = None
    noise_rounds: int | None = None
    """The fewest measured rounds of which a spread is that of the noise; None if all noise is a guess."""

    @property
    def seconds(self) -> float:
        return sum(of_experiment.seconds for of_experiment in self.rounds)

    def as_json(self) -> dict[str, Any]:
        noise = None if self.reason else "guess" if self.noise_rounds is None else "measured"
        rounds = [
            {"experiment": of.experiment, "rounds": of.rounds, "repeats": of.repeats, "minutes": _minutes(of.seconds)}
            for of in self.rounds
        ]
        return {
            "claim": self.name,
            "restates": self.restates,
            "statements": self.statements or None,
            "experiments": rounds,
            "minutes": None if self.reason else _minutes(self.seconds),
            "noise": noise,
            "noise_rounds": self.noise_rounds,
            "reason": self.reason,
        }


class _Demand(NamedTuple):
    """The statements of a check, with their noise."""

    experiment: str
    spreads: list[Spread]
    rounds: int | None
    """The measured rounds of which they are the spreads; None for a guess."""


def plan_here(plan: Plan, database: URL, power: float, guess: Guess | None) -> list[PlannedClaim]:
    """Plan every claim for this machine, by its measured runs in the database, which may be absent, or by a guess."""
    claims, probe = load_claims(), registry.tm_probe()
    machine = machine_of(platform_facts(), probe["committed"] if probe else None)
    machine = machine._replace(threads=plan.processors)
    if schema.exists(database):
        runs = load_measured_runs(engine.open_reader(database), claims, plan.processors)
    else:
        runs = MeasuredRuns({}, claims.configurations, plan.processors)
    return plan_claims(claims, plan, machine, runs, power, guess)


def plan_claims(
    claims: Claims, plan: Plan, machine: Machine, runs: MeasuredRuns, power: float, guess: Guess | None
) -> list[PlannedClaim]:
    """Plan every claim for this machine. guess: the noise of the logs of times, in place of the measured one."""
    planner = _Planner(claims.configurations, plan, machine, runs, power, guess)
    return [planner.plan_claim(name, claim) for name, claim in claims.claims.items()]


@dataclass(frozen=True)
class _Planner:
    """Plans claims one after another; many share an experiment and its costs."""

    configurations: Mapping[str, Factors]
    plan: Plan
    machine: Machine
    runs: MeasuredRuns
    power: float
    guess: Guess | None
    _round_s: dict[tuple[str, int], float] = field(default_factory=dict)

    def plan_claim(self, name: str, claim: Claim) -> PlannedClaim:
        try:
            _require_testable(claim, self.machine)
            demands = [self._demand(check, claim) for check in claim.checks]
            among = sum(len(demand.spreads) for demand in demands)
            rounds = [
                self._cheapest([demand for demand in demands if demand.experiment == experiment], among)
                for experiment in claim.experiments()
            ]
        except CannotPlan as error:
            return PlannedClaim(name, claim.restates, reason=str(error))
        noise_rounds = min((demand.rounds for demand in demands if demand.rounds is not None), default=None)
        return PlannedClaim(name, claim.restates, among, rounds, noise_rounds=noise_rounds)

    def _demand(self, check: Check, claim: Claim) -> _Demand:
        """Raises CannotPlan without noise of the check's measure, and if no number of rounds shows that it holds."""
        threads = self._threads(check, claim)
        selected = self._selected(check, claim)
        if selected and (reason := reason_barred(check, selected)):
            raise CannotPlan(reason)
        if guess := self._guess(check):
            demand = _Demand(check.experiment, guessed_spreads(check.predicate, threads, *guess), None)
        else:
            demand = self._measured(check, claim, selected)
        if not demand.spreads:
            raise CannotPlan(f"{check.place} has no number of workers that it is about")
        return demand

    def _guess(self, check: Check) -> Guess | None:
        """The guessed noise of a check of speeds; None for other measures, and without a guess."""
        return self.guess if check.predicate.measure.is_speed else None

    def _measured(self, check: Check, claim: Claim, selected: Selected | None) -> _Demand:
        if selected is None or selected.rounds[0] < 2 or max(selected.curves[0].threads) < claim.reach:
            measure = check.predicate.measure.name.replace("_", " ")
            why = f"too few measured runs of {check.experiment}"
            raise CannotPlan(f"no noise of its measure ({measure}) is known: {why}")
        spreads = self.runs.spreads(check, selected, claim.hardware)
        return _Demand(check.experiment, spreads, selected.rounds[0])

    def _selected(self, check: Check, claim: Claim) -> Selected | None:
        """The curves of the measured runs; None if runs are missing."""
        try:
            return self.runs.select(check, claim.hardware)
        except Missing:
            return None

    def _threads(self, check: Check, claim: Claim) -> list[int]:
        """The numbers of workers at which this machine runs every curve of the check."""
        if check.experiment not in self.plan.experiments:
            raise CannotPlan(f"config.yaml has no experiment {check.experiment}")
        points = [
            point
            for point in self.plan.points(check.experiment, "mnist")
            if point.evidence == "measured"
            and point.threads <= self.plan.processors
            and (claim.hardware == "any" or point.provider in (None, claim.hardware))
        ]
        predicate = check.predicate
        curves = [
            [point.threads for point in points if check.chooses(point, self.configurations[name])]
            for name in predicate.of
        ]
        for name, threads in zip(predicate.of, curves, strict=True):
            if len(set(threads)) < len(threads):
                raise CannotPlan(f"{check.place} has several variants of {name}")
        least = 1 if predicate.of_speedup else predicate.least
        common = sorted(w for w in set.intersection(*map(set, curves)) if least <= w <= predicate.largest)
        if not common or max(common) < claim.reach:
            raise CannotPlan(f"the study runs {check.place} with too few workers")
        if predicate.of_speedup and 1 not in common:
            raise CannotPlan(f"the study does not run {check.place} with one worker")
        return common

    def _cheapest(self, demands: Sequence[_Demand], among: int) -> Rounds:
        """The rounds and repeats of one experiment that take the least time. Raises CannotPlan if none suffice."""
        experiment, spreads = demands[0].experiment, [one for demand in demands for one in demand.spreads]
        options = []
        for repeats in REPEATS:
            if (rounds := rounds_for(spreads, among, self.power, repeats)) is not None:
                options.append(Rounds(experiment, rounds, repeats, rounds * self._seconds(experiment, repeats)))
        if not options:
            raise CannotPlan(f"{MANY_ROUNDS} rounds of {experiment} are too few")
        return min(options, key=lambda option: option.seconds)

    def _seconds(self, experiment: str, repeats: int) -> float:
        """Estimated seconds of a round."""
        key = (experiment, repeats)
        if key not in self._round_s:
            self._round_s[key] = self.plan.costs.round_s(self.plan.points(experiment, "mnist"), repeats)
        return self._round_s[key]


def _require_testable(claim: Claim, machine: Machine) -> None:
    """Raise CannotPlan if no run of this machine can decide the claim."""
    if not claim.checks:
        raise CannotPlan("no run can test it")
    if "measured" not in claim.evidence:
        raise CannotPlan("no measured run decides it")
    if could_decide(machine, claim):
        return
    needs = []
    if claim.hardware != "any" and machine.capability != CAPABILITY[claim.hardware]:
        needs.append(NEEDS[claim.hardware])
    if machine.threads is None or machine.threads < claim.reach:
        needs.append(several(claim.reach, "hardware thread"))
    raise CannotPlan(f"needs {listed(needs)}")


def as_text(planned: Sequence[PlannedClaim], power: float, guess: Guess | None) -> Iterator[str]:
    """The lines of the plan: a table of the claims, then those that cannot be planned with the reasons."""
    yield f"Rounds that decide each claim with a power of {power:g}, if the truth lies clearly inside the claimed range"
    yield "and the noise is as assumed (docs/protocol.md). All statements of a claim must hold. Rounds are totals: they"
    yield "include those that are measured. Claims share rounds, so times do not add up."
    if guess:
        yield f"The noise of times is a guess: {guess[0]:.1%} by a round, of this point alone, not the noise between"
        yield f"rounds of `study noise`, which includes what a round does to all points; {guess[1]:.1%} between trials."
    else:
        yield "The noise is that of this machine's measured runs. If they have no repeats, their gain is unknown, and"
        yield "the plan is for single trials. Six rounds give rough spreads (standard error 30%), so power is less."
    rows = [one for one in planned if one.reason is None]
    if rows:
        numbers = f"{'statements':>10}{'rounds':>9}{'repeats':>9}{'minutes':>9}{'noise from':>12}"
        yield f"{'claim':<41}{'experiments':<20}{numbers}"
    for one in rows:
        columns = zip(*(map(str, of[:3]) for of in one.rounds), strict=True)
        experiments, rounds, repeats = (", ".join(column) for column in columns)
        noise = "a guess" if one.noise_rounds is None else several(one.noise_rounds, "round")
        minutes = f"{one.seconds / 60:.0f}" if one.seconds >= 600 else f"{one.seconds / 60:.1f}"
        numbers = f"{one.statements:>10}{rounds:>9}{repeats:>9}{minutes:>9}{noise:>12}"
        yield f"{one.name:<41}{experiments:<20}{numbers}"
    if len(rows) < len(planned):
        yield "Cannot be planned here:"
    for one in planned:
        if one.reason is not None:
            yield f"{one.name:<41}{one.reason}"


def _minutes(seconds: float) -> float:
    return round(seconds / 60, 1)
