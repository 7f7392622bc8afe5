"""What every predicate comes down to: statements that a mean over rounds lies in a range. How they are decided.

A claim holds if each of its statements does, and fails if one fails. So each is shown to hold by one-sided tests of its
bounds, at 5 % each (for a range around no difference this is TOST, and for several statements the intersection-union
test, which needs no correction); and one is shown to fail by an interval that is joint with those of all others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tmflow.analysis.stats import CONFIDENCE, TOST_CONFIDENCE, Interval, mean_interval, rounds_to_decide

Unit = Literal["ratio", "fraction"]
Decided = Literal["reproduced", "contradicted", "inconclusive"]


@dataclass(frozen=True, eq=False)
class Statement:
    """The mean of `values`, one for each round, lies in (low, high); of ratios the geometric mean.

    `chosen_of` is how many it was chosen from for what its values are, which an interval must allow for.
    """

    what: str
    unit: Unit
    values: Values
    low: float = -math.inf
    high: float = math.inf
    chosen_of: int = 1

    def interval(self, confidence: float = CONFIDENCE) -> Interval:
        """The interval of the mean, in the unit of the values."""
        mean = mean_interval(self._scaled(), confidence)
        if self.unit == "fraction":
            return mean
        return Interval(math.exp(mean.estimate), math.exp(mean.low), math.exp(mean.high), mean.n)

    def holds(self) -> bool:
        """Whether the mean surely lies in the range."""
        interval = self.interval(self._to_hold())
        return self.low < interval.low and interval.high < self.high

    def fails(self, among: int = 1) -> bool:
        """Whether the mean surely lies outside the range, told jointly with so many statements, this one included."""
        interval = self.interval(self._to_fail(among))
        return interval.high < self.low or self.high < interval.low

    def rounds_to_decide(self, among: int = 1) -> int | None:
        """How many rounds in all would decide it if mean and spread stay; None if not even a thousand would."""
        confidence = self._to_hold() if self.margin() > 0 else self._to_fail(among)
        return rounds_to_decide(self._scaled(), self._scale(self.low), self._scale(self.high), confidence)

    def range(self) -> tuple[float | None, float | None]:
        """The range that is claimed; None where it has no bound."""
        low, high = self._scale(self.low), self._scale(self.high)
        return (None if math.isinf(low) else self.low), (None if math.isinf(high) else self.high)

    def margin(self) -> float:
        """How far the mean is inside the range, on the scale on which it is tested; below 0 outside."""
        mean = float(self._scaled().mean())
        return min(mean - self._scale(self.low), self._scale(self.high) - mean)

    def _to_hold(self) -> float:
        return 1 - (1 - TOST_CONFIDENCE) / self.chosen_of

    def _to_fail(self, among: int) -> float:
        return 1 - (1 - CONFIDENCE) / (self.chosen_of * among)

    def _scaled(self) -> Values:
        return np.log(self.values) if self.unit == "ratio" else self.values

    def _scale(self, bound: float) -> float:
        if self.unit == "fraction" or math.isinf(bound):
            return bound
        return math.log(bound) if bound > 0 else -math.inf


def decide(statements: Sequence[Statement], among: int) -> Decided:
    """What rounds say of a check that all these statements hold, which are among so many of the claim."""
    if all(statement.holds() for statement in statements):
        return "reproduced"
    return "contradicted" if any(statement.fails(among) for statement in statements) else "inconclusive"


def rounds_needed(statements: Sequence[Statement], among: int) -> int | None:
    """How many rounds in all would decide a check that is still open, if means and spreads stay.

    One that fails is enough; else all must hold. None if not even a thousand rounds would do.
    """
    against = [s.rounds_to_decide(among) for s in statements if s.margin() <= 0]
    if against:
        return min((rounds for rounds in against if rounds is not None), default=None)
    needed = [s.rounds_to_decide() for s in statements if not s.holds()]
    return None if None in needed else max((rounds for rounds in needed if rounds is not None), default=None)


Values = NDArray[np.float64]


class Curve(NamedTuple):
    """Values of shape (points, rounds): point i has `threads[i]` workers; item j of all curves is the same round.

    NaN where a round has no such value; a predicate that compares values gets none.
    """

    name: str
    threads: tuple[int, ...]
    values: Values

    def at(self, threads: int) -> Values:
        """The values of that number of workers, one for each round that has it."""
        values: Values = self.values[self.threads.index(threads)]
        return values[~np.isnan(values)]

    def speedup(self) -> Self:
        """Of a curve of speeds: each value over that of one worker in the same round."""
        return self._replace(values=self.values / self.at(1))
