"""The predicates of claims.yaml that compare configurations; `speedups` has those about the shape of one curve.

A predicate turns the curves of a measure into the statements that a claim requires.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from tmflow.base.text import workers
from tmflow.claims.decision import Curve, Statement
from tmflow.claims.measures import COUNTED, SPEED, SPEED_OF_OTHERS, Closed, Measure, Positive, Share, ShareOf, Workers
from tmflow.spec.abort_codes import Family

MARGIN = 0.10
"""Speeds within 10 % of each other count as equal, here as in the study's words (docs/protocol.md gives the reason)."""

Several = Annotated[list[str], Field(min_length=2)]
Contrast = Literal["average", "each"]
Metric = Literal["speedup", "time", "time_of_others"]


class Predicate(Closed, ABC):
    """A condition on curves; `of` names their configurations."""

    of: list[str] = Field(min_length=1)
    least: Workers = Field(1, description="fewest workers that it is about")
    most: Workers = Field(1024, description="most workers that it is about")

    @property
    def measure(self) -> Measure:
        return SPEED

    @property
    def largest(self) -> int:
        """The largest number of workers that it looks at."""
        return self.most

    @property
    def of_speedup(self) -> bool:
        """Whether it compares each curve with its value at one worker."""
        return False

    @property
    def paired(self) -> bool:
        """Whether it compares values within a round; otherwise the curves may have different rounds."""
        return True

    @property
    def diverged_agrees(self) -> bool:
        """Whether a diverged run (non-finite weights or scores) satisfies the predicate although it has no value."""
        return False

    @abstractmethod
    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        """The statements that must hold for the curves, given in the order of `of`."""


class _Contrasted(Predicate, ABC):
    """A predicate that is decided either on average over the numbers of workers, or at each of them."""

    contrast: Contrast = Field(description="what decides: the average over the numbers of workers, or each number")


class _OfSpeeds(_Contrasted, ABC):
    """A comparison of speedups, each against one worker of its own configuration, or of times."""

    least: Workers = 2  # a single worker has no contention
    metric: Metric = Field(
        "speedup",
        description="speedup: against one worker of the same configuration; time: as is; time_of_others: the time of a "
        "step by the own clocks of the workers other than the last",
    )

    @property
    def measure(self) -> Measure:
        return SPEED_OF_OTHERS if self.metric == "time_of_others" else SPEED

    @property
    def of_speedup(self) -> bool:
        return self.metric == "speedup"

    def _ratios(self, above: Curve, below: Curve, low: float, high: float) -> Iterator[Statement]:
        """State that the ratio of two curves' speedups, or speeds, lies between the bounds."""
        curves = [curve.speedup() if self.of_speedup else curve for curve in (above, below)]
        first, second = (curve.between(self.least, self.most) for curve in curves)
        of = "speedup of " if self.of_speedup else f"{self.measure} of "
        what = f"{of}{above.name} / {below.name}"
        if not first.threads:
            return
        if self.contrast == "average":
            values = np.exp((np.log(first.values) - np.log(second.values)).mean(axis=0))
            yield Statement(f"{what} on average", "ratio", values, low, high)
            return
        for w in first.threads:
            yield Statement(f"{what}, {workers(w)}", "ratio", first.at(w) / second.at(w), low, high)


class Equivalent(_OfSpeeds):
    """The ratio of each other curve to the first lies between 1/(1+bound) and 1+bound."""

    of: Several = Field(description="the first is compared with each of the others")
    bound: Share = MARGIN

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        first, *others = curves
        low, high = 1 / (1 + self.bound), 1 + self.bound
        return [one for other in others for one in self._ratios(other, first, low, high)]


class Order(_OfSpeeds):
    """Each curve is more than `bound` faster than the previous one, so equivalent curves are not in order."""

    of: Several = Field(description="the slowest first")
    bound: Share = MARGIN

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        return [one for a, b in pairwise(curves) for one in self._ratios(b, a, 1 + self.bound, math.inf)]


class RatioWithin(_OfSpeeds):
    """The ratio of the first curve to each other lies between the bounds; None is no bound."""

    of: Several = Field(description="the first over each of the others")
    low: Positive | None = None
    high: Positive | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.low is None and self.high is None:
            raise ValueError("a ratio needs low, high or both")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ValueError(f"low {self.low} is not below high {self.high}")
        return self

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        first, *others = curves
        low, high = self.low or 0, math.inf if self.high is None else self.high
        return [one for other in others for one in self._ratios(first, other, low, high)]


class LargerGain(_OfSpeeds):
    """The first curve gains more over the second than the third over the fourth, by more than `bound`."""

    of: list[str] = Field(
        min_length=4, max_length=4, description="the ratio of the first two over that of the last two"
    )
    bound: Share = MARGIN

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        of_first, of_last = (list(self._ratios(above, below, 0, math.inf)) for above, below in (curves[:2], curves[2:]))
        return [
            Statement(f"({a.what}) / ({b.what})", "ratio", a.values / b.values, low=1 + self.bound)
            for a, b in zip(of_first, of_last, strict=True)
        ]


class _OfShares(_Contrasted, ABC):
    """A predicate about a share, in [0, 1], of what happened in a run."""

    share_of: ShareOf
    causes: list[Family] = Field([], description="for aborts and attempts: the causes that are counted")

    @model_validator(mode="after")
    def _of_causes(self) -> Self:
        if (self.share_of in COUNTED) != bool(self.causes):
            raise ValueError(f"causes belong to a share of {' or '.join(COUNTED)}, which need them")
        return self

    @property
    def measure(self) -> Measure:
        return Measure(self.share_of, tuple(self.causes))

    def _statements(
        self, what: str, curve: Curve, low: float, high: float, *, difference: bool = False
    ) -> Iterator[Statement]:
        """State that a curve of shares, or of differences of shares, lies between the bounds, as `contrast` says."""
        curve = curve.between(self.least, self.most)
        if not curve.threads:
            return
        if self.contrast == "average":
            averages = curve.values.mean(axis=0)
            yield Statement(f"{what} on average", "fraction", averages, low, high, difference=difference)
            return
        for w in curve.threads:
            yield Statement(f"{what}, {workers(w)}", "fraction", curve.at(w), low, high, difference=difference)


class _Bounded(_OfShares):
    """A share of each curve is above the threshold (or below it)."""

    threshold: Share
    above: ClassVar[bool]

    @property
    def paired(self) -> bool:
        return self.contrast == "average"  # an average needs all numbers of workers of a round

    @property
    def diverged_agrees(self) -> bool:
        return self.share_of == "accuracy" and not self.above  # a model that diverged has no meaningful accuracy

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        low, high = (self.threshold, math.inf) if self.above else (-math.inf, self.threshold)
        return [one for curve in curves for one in self._statements(f"{curve.name}: {self.measure}", curve, low, high)]


class ShareAbove(_Bounded):
    above = True


class ShareBelow(_Bounded):
    above = False


class ShareWithin(_OfShares):
    """A share of each curve lies between two bounds."""

    low: Share
    high: Share

    @property
    def paired(self) -> bool:
        return self.contrast == "average"

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low {self.low} is not below high {self.high}")
        return self

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        return [
            one
            for curve in curves
            for one in self._statements(f"{curve.name}: {self.measure}", curve, self.low, self.high)
        ]


class _OfDifferences(_OfShares):
    """A difference of shares lies between the bounds; None is no bound."""

    low: float | None = Field(None, ge=-1, le=1)
    high: float | None = Field(None, ge=-1, le=1)

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.low is None and self.high is None:
            raise ValueError("a difference needs low, high or both")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ValueError(f"low {self.low} is not below high {self.high}")
        return self

    def _within(self, what: str, differences: Curve) -> Iterator[Statement]:
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        return self._statements(f"{self.measure}: {what}", differences, low, high, difference=True)


class ShareDifference(_OfDifferences):
    """The share of the first curve minus that of each other lies between the bounds."""

    of: Several = Field(description="the first minus each of the others")

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        first, *others = curves
        return [
            one
            for other in others
            for one in self._within(f"{first.name} - {other.name}", first._replace(values=first.values - other.values))
        ]


class ShareRise(_OfDifferences):
    """The share of each curve at a number of workers minus that at the next smaller one lies between the bounds."""

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        return [one for curve in curves for one in self._within(f"{curve.name}, rise", self._rises(curve))]

    def _rises(self, curve: Curve) -> Curve:
        curve = curve.between(self.least, self.most)
        return curve._replace(threads=curve.threads[1:], values=np.diff(curve.values, axis=0))
