"""The predicates of claims.yaml about the shape of a speedup curve: its knee, its plateau, its best value, a spike."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
from pydantic import Field

from tmflow.analysis.stats import joint_confidence, mean_interval
from tmflow.base.text import workers
from tmflow.claims.decision import Curve, Statement, Values
from tmflow.claims.measures import Positive, Share, Workers
from tmflow.claims.predicates import MARGIN, Predicate, Several


class _OfSpeedup(Predicate, ABC):
    """A predicate about speedups, each against one worker of the same configuration."""

    @property
    def of_speedup(self) -> bool:
        return True


class NearLinear(_OfSpeedup):
    """Speedup / workers is at least `efficiency` at each number of workers up to `to`."""

    to: Workers
    efficiency: Share = Field(0.8, description="speedup over workers that still counts as near linear")

    @property
    def largest(self) -> int:
        return self.to

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        return [
            Statement(_efficiency_of(curve, w), "ratio", speedup.at(w) / w, low=self.efficiency)
            for curve in curves
            for speedup in [curve.speedup()]
            for w in speedup.between(2, self.to).threads
        ]


class Sublinear(_OfSpeedup):
    """Speedup / workers is below `efficiency` at the largest number of workers, which is more than `beyond`."""

    beyond: Workers
    efficiency: Share = Field(0.8, description="speedup over workers that would count as near linear")

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        return [
            Statement(_efficiency_of(curve, w), "ratio", speedup.at(w) / w, 0, self.efficiency)
            for curve in curves
            for speedup in [curve.speedup()]
            for w in speedup.between(self.beyond + 1, self.most).threads[-1:]
        ]


def _efficiency_of(curve: Curve, w: int) -> str:
    return f"speedup / workers of {curve.name}, {workers(w)}"


class Plateau(_OfSpeedup):
    """The speedup at each later number of workers is within `bound` of that at the first number from `after` on."""

    after: Workers
    ignoring: list[Workers] = Field([], description="numbers of workers at which it may differ")
    bound: Share = Field(0.2, description="by how much the speedup may still differ")

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        statements = []
        for curve in curves:
            speedup = curve.speedup()
            late = [w for w in speedup.between(self.after, self.most).threads if w not in self.ignoring]
            for start, w in product(late[:1], late[1:]):
                what = f"speedup of {curve.name}, {workers(w)} / {workers(start)}"
                ratio = speedup.at(w) / speedup.at(start)
                statements.append(Statement(what, "ratio", ratio, 1 / (1 + self.bound), 1 + self.bound))
        return statements


class Spikes(_OfSpeedup):
    """At each of these numbers of workers the speedup is above the geometric mean of its neighbours on the curve.

    There is no statement unless all of them are on the curve with both neighbours.
    """

    at: list[Workers] = Field(min_length=1)
    bound: Share = Field(MARGIN, description="by how much it is above")

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        statements = []
        for curve in curves:
            speedup = curve.speedup()
            for w in self.at:
                below, above = speedup.between(1, w - 1).threads, speedup.between(w + 1, self.most).threads
                if w not in speedup.threads or not below or not above:
                    return []
                neighbours = np.sqrt(speedup.at(below[-1]) * speedup.at(above[0]))
                what = f"speedup of {curve.name}, {workers(w)} / {below[-1]} and {above[0]}"
                statements.append(Statement(what, "ratio", speedup.at(w) / neighbours, low=1 + self.bound))
        return statements


class _Best(NamedTuple):
    """The best speedup of a curve: at which of how many numbers of workers, and its value in each round."""

    threads: int
    candidates: int
    values: Values


def _best(curve: Curve) -> _Best:
    """Find the best speedup by its largest upper confidence bound.

    If that bound is below a limit, so are the bounds of all others, even those with few or noisy rounds.
    """
    speedup = curve.speedup()
    n = len(speedup.threads)
    intervals = [mean_interval(rounds, joint_confidence(n)) for rounds in np.log(speedup.values)]
    bounds = [one.estimate if one.n == 1 else one.high for one in intervals]
    w = speedup.threads[int(np.argmax(bounds))]
    return _Best(w, n, speedup.at(w))


class Peak(_OfSpeedup):
    """The largest geometric mean of the speedup lies between the bounds; its interval accounts for the selection."""

    low: Positive
    high: Positive

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        statements = []
        for curve in curves:
            best = _best(curve)
            what = f"best speedup of {curve.name}, {workers(best.threads)}"
            statements.append(Statement(what, "ratio", best.values, self.low, self.high, chosen_of=best.candidates))
        return statements


class RisingPeaks(_OfSpeedup):
    """The best speedup of each curve is above every speedup of the curve before it by more than `bound`.

    The intervals account for the selection of the best.
    """

    of: Several = Field(description="the lowest first")
    bound: Share = MARGIN

    def statements(self, curves: Sequence[Curve]) -> list[Statement]:
        statements = []
        for lower, higher in pairwise(curves):
            best, below = _best(higher), lower.speedup()
            for w in below.threads:  # above the best of the lower curve is above each of its values
                what = f"best speedup of {higher.name}, {workers(best.threads)} / speedup of {lower.name}, {workers(w)}"
                ratio = best.values / below.at(w)
                statements.append(Statement(what, "ratio", ratio, low=1 + self.bound, chosen_of=best.candidates))
        return statements
