"""Closed schema of data/claims.yaml: the findings of the study as checks on runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import Field, model_validator

from tmflow.base.documents import document, kept, read_yaml
from tmflow.base.errors import BadInput, unknown
from tmflow.base.paths import project_root
from tmflow.claims.measures import Closed, Factors, Workers
from tmflow.claims.predicates import (
    Equivalent,
    LargerGain,
    Order,
    Predicate,
    RatioWithin,
    ShareAbove,
    ShareBelow,
    ShareDifference,
    ShareRise,
    ShareWithin,
)
from tmflow.claims.speedups import NearLinear, Peak, Plateau, RisingPeaks, Spikes, Sublinear
from tmflow.native import registry
from tmflow.spec.trial import Evidence, TrialSpec

Hardware = Literal["rtm", "power", "any"]
Report = Literal["2017 study", "distributed study", "HPX study", "our question"]
WITHOUT_WORKERS: tuple[Report, ...] = ("HPX study", "our question")  # they name no number of workers
CANNOT_BE_TESTED: Literal["cannot be tested"] = "cannot be tested"


_CHOOSING = ("experiment", "where", "steps_per_worker")  # the keys of a check that choose its runs


class Check(Closed):
    """An experiment and the predicate that its runs must satisfy."""

    experiment: str
    where: Factors = Field({}, description="factors that choose among the experiment's runs")
    steps_per_worker: int | None = Field(
        None, ge=1, description="chooses the runs with this many steps for each worker, instead of a number in all"
    )
    equivalent: Equivalent | None = None
    order: Order | None = None
    ratio_within: RatioWithin | None = None
    larger_gain: LargerGain | None = None
    share_above: ShareAbove | None = None
    share_below: ShareBelow | None = None
    share_within: ShareWithin | None = None
    share_difference: ShareDifference | None = None
    share_rise: ShareRise | None = None
    near_linear: NearLinear | None = None
    sublinear: Sublinear | None = None
    plateau: Plateau | None = None
    spikes: Spikes | None = None
    peak: Peak | None = None
    rising_peaks: RisingPeaks | None = None

    @model_validator(mode="after")
    def _one_predicate(self) -> Self:
        if len(self._predicates()) != 1:
            names = [name for name in type(self).model_fields if name not in _CHOOSING]
            raise ValueError(f"a check has one predicate, not {len(self._predicates())}; valid: {', '.join(names)}")
        return self

    @property
    def place(self) -> str:
        """The experiment, by its id, and the factors that select its runs."""
        return self.place_in(self.experiment)

    def place_in(self, experiment: str) -> str:
        """The place with another name of the experiment, such as its title."""
        factors = [f"{factor} {value}" for factor, value in self.where.items()]
        steps = [] if self.steps_per_worker is None else [f"{self.steps_per_worker} steps per worker"]
        return ", ".join([experiment, *factors, *steps])

    def chooses(self, point: TrialSpec, configuration: Factors) -> bool:
        """Whether the curve of this configuration has the point, which is one of the experiment's."""
        fits = all(getattr(point, name) == value for name, value in {**self.where, **configuration}.items())
        return fits and self.steps_per_worker in (None, point.iterations / point.threads)

    @property
    def predicate(self) -> Predicate:
        (predicate,) = self._predicates().values()
        return predicate

    def read_as(self, reading: Reading) -> Check | None:
        """The same check in another reading of the study's words; None if it has no such reading."""
        ((name, predicate),) = self._predicates().items()
        if getattr(predicate, reading.field, None) != reading.primary:
            return None
        return self.model_copy(update={name: predicate.model_copy(update={reading.field: reading.other})})

    def _predicates(self) -> dict[str, Predicate]:
        return {name: value for name, value in dict(self).items() if isinstance(value, Predicate)}


class Reading(Closed):
    """Another reading of the study's words, tested separately: a predicate's field takes another value."""

    field: str
    primary: str
    other: str
    suffix: str
    """Of the claim's name."""
    words: str
    """At the end of the claim's statement."""


READINGS = (
    Reading(
        field="metric",
        primary="speedup",
        other="time",
        suffix="in-time",
        words="(In times at equal numbers of workers.)",
    ),
    Reading(
        field="share_of",
        primary="commits",
        other="commits_of_attempts",
        suffix="of-attempts",
        words="(Of the attempts: each retry counts.)",
    ),
)


class Claim(Closed):
    """A finding, and the checks that must all hold for it to be true."""

    report: Report = Field("2017 study", description="who states it, or our question, which nobody has answered")
    source: str = Field(min_length=3, description="where it was published")
    statement: str = Field(min_length=10, description="in our own words")
    hardware: Hardware = Field(description="whose transactions a machine must have to decide it")
    studied_to: int | None = Field(
        None, ge=1, le=1024, description="the most workers that its source measured; None if it names none"
    )
    reach: Workers = Field(description="the least number of hardware threads at which its words can be decided")
    evidence: list[Evidence] = Field(min_length=1, description="kinds of evidence that may decide it")
    checks: list[Check] = Field([], description="at least one, unless it cannot be tested")
    restates: str | None = Field(None, description="the claim that has the same finding, which tallies count once")
    explanation: str | None = Field(None, min_length=10, description="why it comes out as it does, where we know")
    verdict: Literal["cannot be tested"] | None = Field(None, description="a verdict that no run can change")
    reason: str | None = Field(None, min_length=10, description="why it cannot be tested, and what would be needed")

    @model_validator(mode="after")
    def _tested_or_not(self) -> Self:
        if (self.verdict is None) != (self.reason is None):
            raise ValueError(f"the verdict '{CANNOT_BE_TESTED}' and its reason belong together")
        if (self.verdict is None) != bool(self.checks):
            raise ValueError(f"a claim has checks, or the verdict '{CANNOT_BE_TESTED}'")
        return self

    @model_validator(mode="after")
    def _studied_or_asked(self) -> Self:
        if (self.studied_to is None) != (self.report in WITHOUT_WORKERS):
            names = " or ".join(report for report in get_args(Report) if report not in WITHOUT_WORKERS)
            raise ValueError(f"studied_to is of a claim of the {names}, and the report is {self.report}")
        return self

    def experiments(self) -> list[str]:
        """The distinct experiments of its checks."""
        return list(dict.fromkeys(check.experiment for check in self.checks))

    def is_about_time(self) -> bool:
        return any(check.predicate.measure.is_time for check in self.checks)

    def readings(self, name: str) -> Iterator[tuple[str, Claim]]:
        """The claim in the other readings of its words, by name; `name` is its own."""
        for reading in READINGS:
            checks = [check.read_as(reading) for check in self.checks]
            if any(checks):
                changed = {
                    "checks": [other or check for other, check in zip(checks, self.checks, strict=True)],
                    "statement": f"{self.statement} {reading.words}",
                    "restates": self.restates or name,
                }
                yield f"{name}-{reading.suffix}", self.model_copy(update=changed)


class Claims(Closed):
    """The content of claims.yaml."""

    configurations: dict[str, Factors] = Field(min_length=1, description="the names that claims give to variants")
    claims: dict[str, Claim] = Field(min_length=1)


def load_claims() -> Claims:
    """Load and check claims.yaml; the result is cached until the file changes."""
    return _load_claims(project_root() / "data" / "claims.yaml")


@kept
def _load_claims(path: Path) -> Claims:
    return check_claims(read_yaml(path))


def check_claims(raw: Any) -> Claims:
    """Check a parsed claims.yaml, and add to each claim the other readings of its words.

    Raises BadInput that names the fault, its place and what is allowed.
    """
    claims = document(Claims, raw, "claims.yaml")
    for name, factors in claims.configurations.items():
        where = f"claims.yaml: configurations.{name}"
        check_factors(factors, where)
        if "strategy" not in factors:
            raise BadInput(f"{where}: 'strategy' is missing.")
        if factors["strategy"] not in registry.names():
            raise unknown(f"strategy in {where}:", factors["strategy"], registry.names())
    for name, claim in claims.claims.items():
        _check_claim(f"claims.yaml: claims.{name}", claim, claims)
    return claims.model_copy(
        update={
            "claims": {
                each: one
                for name, claim in claims.claims.items()
                for each, one in [(name, claim), *claim.readings(name)]
            }
        }
    )


def _check_claim(where: str, claim: Claim, claims: Claims) -> None:
    for number, check in enumerate(claim.checks):
        place = f"{where}.checks.{number}"
        check_factors(check.where, f"{place}.where")
        for configuration in check.predicate.of:
            if configuration not in claims.configurations:
                raise unknown(f"configuration in {place}:", configuration, claims.configurations)
    if claim.is_about_time() and "emulated" in claim.evidence:
        raise BadInput(f"{where}: evidence emulated cannot decide a claim about time: an emulated run shows none.")
    if claim.restates is not None:
        if claim.restates not in claims.claims:
            raise unknown(f"claim in {where}.restates:", claim.restates, claims.claims)
        if claims.claims[claim.restates].restates is not None:
            raise BadInput(f"{where}: {claim.restates} itself restates a claim; name that one.")


def check_factors(factors: Iterable[str], where: str) -> None:
    """Raise BadInput for a name that is no factor; `where` is its place in the file."""
    for factor in factors:
        if factor not in TrialSpec.model_fields:
            raise unknown(f"factor in {where}:", factor, TrialSpec.model_fields)
