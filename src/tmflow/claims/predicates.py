"""The predicates of claims.yaml: each turns curves of a measure into the statements that a claim requires."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from tmflow.analysis.stats import joint_confidence, mean_interval
from tmflow.base.text import workers
from tmflow.claims.decision import Curve, Statement
from tmflow.spec.abort_codes import Family

Share = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Workers = Annotated[int, Field(ge=1, le=1024)]
Several = Annotated[list[str], Field(min_length=2)]
Causes = Annotated[list[Family], Field(min_length=1)]


Factors = dict[str, str | int | float]


class Measure(NamedTuple):
    """A measure of a run; `causes` are the abort causes that it counts."""

    name: Literal["speed", "accuracy", "commits", "commits of attempts", "share of aborts", "share of attempts"]
    causes: tuple[Family, ...] = ()

    @property
    def is_time(self) -> bool:
        return self.name == "speed"

    def __str__(self) -> str:
        """The measure in words."""
        if self.causes:
            return f"{self.name} for {' or '.join(self.causes)}"
        return IN_WORDS.get(self.name, self.name)


# The words of the study allow two readings of its share of commits.
IN_WORDS = {
    "commits": "share of updates that committed as a transaction",
    "commits of attempts": "share of committed attempts",
}
SPEED, ACCURACY = Measure("speed"), Measure("accuracy")
SHARES = {
    "commits": Measure("commits"), "commits_of_attempts": Measure("commits of attempts"), "accuracy": ACCURACY
}  # fmt: skip


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Predicate(Closed, ABC):
    """A condition on curves; `of` names their configurations."""

    of: list[str] = Field(min_length=1)
    least: Workers = Field(1, description="fewest workers that it is about")
    most: Workers = Field(1024, description="most workers that it is about")
    reach: Workers = Field(2, description="workers, not oversubscribed, that a machine must take to show that it holds")

    everywhere: ClassVar[bool] = True
    """Whether it must hold at each number of workers, so that any can contradict it, or over all together."""
    of_speedup: ClassVar[bool] = False
    """Whether it compares with one worker."""
    paired: ClassVar[bool] = True
    """Whether it compares values within a round; otherwise the curves may have different rounds."""

    @property
    def measure(self) -> Measure:
        return SPEED

    @property
    def diverged_agrees(self) -> bool:
        """Whether a diverged run (non-finite weights or scores) satisfies the predicate although it has no value."""
        return False

    @abstractmethod
    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        """The statements that must hold for the curves, given in the order of `of`."""


class Equivalent(Predicate):
    """Each pair's ratio lies between 1/(1+bound) and 1+bound."""

    of: Several
    bound: Share = 0.05

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        low, high = 1 / (1 + self.bound), 1 + self.bound
        return [
            Statement(f"{a.name} / {b.name}, {workers(w)}", "ratio", a.at(w) / b.at(w), low, high)
            for a, b in combinations(curves, 2)
            for w in a.threads
        ]


class EquallyAccurate(Predicate):
    """Each pair's accuracies differ by less than `bound`, a fraction."""

    of: Several
    bound: Share

    @property
    def measure(self) -> Measure:
        return ACCURACY

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        return [
            Statement(
                f"accuracy of {a.name} - {b.name}, {workers(w)}", "fraction", a.at(w) - b.at(w), -self.bound, self.bound
            )
            for a, b in combinations(curves, 2)
            for w in a.threads
        ]


class Order(Predicate):
    """Each curve is more than `bound` faster than the previous one, so equivalent curves are not in order."""

    of: Several = Field(description="the slowest first")
    least: Workers = 2  # a single worker has no contention
    bound: Share = 0.05
    everywhere = False

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        return [_average_ratio(b, a, low=1 + self.bound) for a, b in pairwise(curves)]


class RatioWithin(Predicate):
    """The ratio of the first curve to each other lies between the bounds; None is no bound."""

    of: Several = Field(description="the first over each of the others")
    least: Workers = 2
    low: Positive | None = None
    high: Positive | None = None
    everywhere = False

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.low is None and self.high is None:
            raise ValueError("a ratio needs low, high or both")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ValueError(f"low {self.low} is not below high {self.high}")
        return self

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        first, *others = curves
        high = math.inf if self.high is None else self.high
        return [_average_ratio(first, other, self.low or 0, high) for other in others]


class _Bounded(Predicate):
    """A share of each curve is above the threshold (or below it) at each number of workers."""

    threshold: Share
    paired = False
    above: ClassVar[bool]

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        low, high = (self.threshold, math.inf) if self.above else (-math.inf, self.threshold)
        return [
            Statement(f"{self.measure} of {curve.name}, {workers(w)}", "fraction", curve.at(w), low, high)
            for curve in curves
            for w in curve.threads
        ]


class _Share(_Bounded):
    share_of: Literal["commits", "commits_of_attempts", "accuracy"]

    @property
    def measure(self) -> Measure:
        return SHARES[self.share_of]


class ShareAbove(_Share):
    above = True


class ShareBelow(_Share):
    above = False

    @property
    def diverged_agrees(self) -> bool:
        return self.measure == ACCURACY  # a model that diverged has no meaningful accuracy


class _Causes(_Bounded):
    causes: Causes

    @property
    def measure(self) -> Measure:
        return Measure("share of aborts", tuple(self.causes))


class MostlyFor(_Causes):
    """These causes together account for most aborts."""

    threshold: Share = 0.5
    above = True


class SeldomFor(_Causes):
    """These causes together account for few aborts."""

    above = False


class RisingFailures(Predicate):
    """The share of attempts that abort for these causes, averaged over the workers, rises from curve to curve."""

    of: Several
    causes: Causes
    everywhere = False

    @property
    def measure(self) -> Measure:
        return Measure("share of attempts", tuple(self.causes))

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        return [
            Statement(
                f"{self.measure}: {b.name} - {a.name} on average", "fraction", (b.values - a.values).mean(axis=0), low=0
            )
            for a, b in pairwise(curves)
        ]


class Knee(Predicate):
    """Speedup / workers is above `efficiency` up to `at` workers; if `then_sublinear`, below it at the most workers."""

    at: Workers = Field(description="workers up to which speedup is near linear")
    efficiency: Share = Field(0.8, description="speedup over workers that still counts as near linear")
    then_sublinear: bool = False
    of_speedup = True

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        statements = []
        for curve in curves:
            speedup = curve.speedup()
            for w in speedup.threads:
                what, share = f"speedup / workers of {curve.name}, {workers(w)}", speedup.at(w) / w
                if 1 < w <= self.at:
                    statements.append(Statement(what, "ratio", share, low=self.efficiency))
                elif self.then_sublinear and w > self.at and w == max(speedup.threads):
                    statements.append(Statement(what, "ratio", share, 0, self.efficiency))
        return statements


class Peak(Predicate):
    """The largest geometric mean of the speedup lies between the bounds; its interval accounts for the selection.

    The number of workers with the largest upper confidence bound is used: if that bound is below a limit, so are the
    bounds of all others, even those with few or noisy rounds.
    """

    low: Positive
    high: Positive
    everywhere = False
    of_speedup = True

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        statements = []
        for curve in curves:
            speedup = curve.speedup()
            n = len(speedup.threads)
            intervals = [mean_interval(rounds, joint_confidence(n)) for rounds in np.log(speedup.values)]
            bounds = [one.estimate if one.n == 1 else one.high for one in intervals]
            w = speedup.threads[int(np.argmax(bounds))]
            what = f"best speedup of {curve.name}, {workers(w)}"
            statements.append(Statement(what, "ratio", speedup.at(w), self.low, self.high, chosen_of=n))
        return statements


def _average_ratio(curve: Curve, base: Curve, low: float = -math.inf, high: float = math.inf) -> Statement:
    """State that the ratio of two curves, averaged per round over numbers of workers, lies between the bounds."""
    values = np.exp(np.log(curve.values).mean(axis=0)) / np.exp(np.log(base.values).mean(axis=0))
    return Statement(f"{curve.name} / {base.name} on average", "ratio", values, low, high)


class Check(Closed):
    """An experiment and the predicate that its runs must satisfy."""

    experiment: str
    where: Factors = Field({}, description="factors that choose among the experiment's runs")
    equivalent: Equivalent | None = None
    equally_accurate: EquallyAccurate | None = None
    order: Order | None = None
    ratio_within: RatioWithin | None = None
    share_above: ShareAbove | None = None
    share_below: ShareBelow | None = None
    mostly_for: MostlyFor | None = None
    seldom_for: SeldomFor | None = None
    rising_failures: RisingFailures | None = None
    knee: Knee | None = None
    peak: Peak | None = None

    @model_validator(mode="after")
    def _one_predicate(self) -> Self:
        if len(self._predicates()) != 1:
            names = [name for name in type(self).model_fields if name not in ("experiment", "where")]
            raise ValueError(f"a check has one predicate, not {len(self._predicates())}; valid: {', '.join(names)}")
        return self

    @property
    def place(self) -> str:
        """The experiment and the factors that select its runs."""
        return ", ".join([self.experiment, *(f"{factor} {value}" for factor, value in self.where.items())])

    @property
    def predicate(self) -> Predicate:
        return self._predicates()[0]

    def _predicates(self) -> list[Predicate]:
        return [value for value in dict(self).values() if isinstance(value, Predicate)]
