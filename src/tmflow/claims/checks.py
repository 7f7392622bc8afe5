"""The predicates of claims.yaml: the curves that each compares, the measure, and the tolerances."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tmflow.claims.predicates import (
    equally_accurate,
    equivalent,
    knee,
    order,
    peak,
    ratio_within,
    rising_share,
    share_above,
    share_below,
)
from tmflow.claims.statements import Curve, Statement
from tmflow.spec.abort_codes import Family

Share = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Workers = Annotated[int, Field(ge=1, le=1024)]
Several = Annotated[list[str], Field(min_length=2)]
Causes = Annotated[list[Family], Field(min_length=1)]


Factors = dict[str, str | int | float]


class Measure(NamedTuple):
    """A measure of a run; `causes` are the abort causes that it counts."""

    name: Literal["speed", "accuracy", "commits", "share of aborts", "share of attempts"]
    causes: tuple[Family, ...] = ()

    @property
    def is_time(self) -> bool:
        return self.name == "speed"

    def __str__(self) -> str:
        """In words."""
        if self.causes:
            return f"{self.name} for {' or '.join(self.causes)}"
        return {"commits": "share of transactions that committed"}.get(self.name, self.name)


SPEED, ACCURACY, COMMITS = Measure("speed"), Measure("accuracy"), Measure("commits")


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Predicate(Closed, ABC):
    """A condition on curves; `of` names their configurations."""

    of: list[str] = Field(min_length=1)
    least: Workers = Field(1, description="fewest workers that it is about")
    most: Workers = Field(1024, description="most workers that it is about")
    reach: Workers = Field(2, description="workers, not oversubscribed, that a machine must take to show that it holds")

    everywhere: ClassVar[bool] = True
    """Whether it applies to every number of workers, so that any can contradict it, or to all together."""
    of_speedup: ClassVar[bool] = False
    """Whether it compares with one worker."""
    paired: ClassVar[bool] = True
    """Whether it compares values within a round; otherwise the curves may have different rounds."""

    @property
    def measure(self) -> Measure:
        return SPEED

    @property
    def diverged_agrees(self) -> bool:
        """Whether a diverged run (weights or scores not finite) satisfies the predicate without a value."""
        return False

    @abstractmethod
    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        """The statements that must hold for the curves, given in the order of `of`."""


class Equivalent(Predicate):
    of: Several
    bound: Share = 0.05

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        return equivalent(curves, self.bound)


class EquallyAccurate(Predicate):
    of: Several
    bound: Share

    @property
    def measure(self) -> Measure:
        return ACCURACY

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        return equally_accurate(curves, self.bound)


class Order(Predicate):
    of: Several = Field(description="the slowest first")
    least: Workers = 2  # with one worker nothing is contended
    bound: Share = 0.05
    everywhere = False

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        return order(curves, self.bound)


class RatioWithin(Predicate):
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
        return ratio_within(curves, self.low, self.high)


class _Share(Predicate):
    share_of: Literal["commits", "accuracy"]
    threshold: Share
    paired = False

    @property
    def measure(self) -> Measure:
        return ACCURACY if self.share_of == "accuracy" else COMMITS


class ShareAbove(_Share):
    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        return share_above(curves, self.threshold, str(self.measure))


class ShareBelow(_Share):
    @property
    def diverged_agrees(self) -> bool:
        return self.measure == ACCURACY  # a model that diverged gives no right answers

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        return share_below(curves, self.threshold, str(self.measure))


class _Causes(Predicate):
    causes: Causes
    threshold: Share
    paired = False

    @property
    def measure(self) -> Measure:
        return Measure("share of aborts", tuple(self.causes))


class MostlyFor(_Causes):
    """These causes together account for most aborts."""

    threshold: Share = 0.5

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        return share_above(curves, self.threshold, str(self.measure))


class SeldomFor(_Causes):
    """These causes together account for few aborts."""

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        return share_below(curves, self.threshold, str(self.measure))


class RisingFailures(Predicate):
    """The share of attempts that abort for these causes rises from curve to curve."""

    of: Several
    causes: Causes
    everywhere = False

    @property
    def measure(self) -> Measure:
        return Measure("share of attempts", tuple(self.causes))

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        return rising_share(curves, str(self.measure))


class Knee(Predicate):
    at: Workers = Field(description="workers up to which speedup is near linear")
    efficiency: Share = Field(0.8, description="speedup over workers that still counts as near linear")
    then_sublinear: bool = False
    of_speedup = True

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        return knee(curves, self.at, self.efficiency, self.then_sublinear)


class Peak(Predicate):
    low: Positive
    high: Positive
    everywhere = False
    of_speedup = True

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        return peak(curves, self.low, self.high)


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
