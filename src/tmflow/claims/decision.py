"""Statements that a mean over rounds lies in a range, to which every predicate reduces, and how they are decided.

A claim holds if all its statements hold, and fails if one fails. A statement is shown to hold by one-sided tests of its
bounds at 5 % each (TOST for a range around no difference; for several statements the intersection-union test, which
needs no correction). It is shown to fail if its interval, corrected for all statements (Bonferroni), is outside the
range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tmflow.analysis.stats import (
    CONFIDENCE,
    POWER,
    TOST_CONFIDENCE,
    Interval,
    mean_interval,
    of_logs,
    rounds_to_decide,
    within_differences,
    within_shares,
)

Unit = Literal["ratio", "fraction"]
Decided = Literal["holds here", "does not hold here", "inconclusive"]


@dataclass(frozen=True, eq=False)
class Statement:
    """The mean of `values`, one per round, lies in (low, high); for ratios the geometric mean.

    `chosen_of` is the number of candidates from which it was selected by its values; intervals account for it.
    `difference`: the fractions are differences of shares, in [-1, 1]; otherwise they are shares, in [0, 1].
    """

    what: str
    unit: Unit
    values: Values
    low: float = -math.inf
    high: float = math.inf
    chosen_of: int = 1
    difference: bool = False

    def interval(self, confidence: float = CONFIDENCE) -> Interval:
        """The interval of the mean, in the unit of the values and within their range."""
        mean = mean_interval(self.scaled(), confidence)
        if self.unit == "fraction":
            return within_differences(mean) if self.difference else within_shares(mean)
        return of_logs(mean)

    def holds(self) -> bool:
        """Whether the mean is significantly inside the range."""
        interval = self.interval(self.confidence_to_hold())
        return self.low < interval.low and interval.high < self.high

    def fails(self, among: int = 1) -> bool:
        """Whether the mean is significantly outside the range, with a correction for this number of statements."""
        interval = self.interval(self._to_fail(among))
        return interval.high < self.low or self.high < interval.low

    def rounds_to_decide(self, among: int = 1, power: float = POWER) -> int | None:
        """The total number of rounds that decide it with this probability at the present mean and spread.

        None if above a thousand.
        """
        confidence = self.confidence_to_hold() if self.margin() > 0 else self._to_fail(among)
        return rounds_to_decide(self.scaled(), *self.limits(), confidence, power)

    def range(self) -> tuple[float | None, float | None]:
        """The claimed range; None for a missing bound."""
        low, high = self.limits()
        return (None if math.isinf(low) else self.low), (None if math.isinf(high) else self.high)

    def margin(self) -> float:
        """The distance of the mean inside the range, on the scale of the test; negative outside."""
        mean = float(self.scaled().mean())
        low, high = self.limits()
        return min(mean - low, high - mean)

    def limits(self) -> tuple[float, float]:
        """The claimed range on the scale of the test: the logs of a ratio's bounds; infinite for a missing bound."""
        return self._scale(self.low), self._scale(self.high)

    def scaled(self) -> Values:
        """The values on the scale of the test: the logs of ratios."""
        return np.log(self.values) if self.unit == "ratio" else self.values

    def confidence_to_hold(self) -> float:
        """The confidence of the interval that must lie in the range."""
        return 1 - (1 - TOST_CONFIDENCE) / self.chosen_of

    def _to_fail(self, among: int) -> float:
        return 1 - (1 - CONFIDENCE) / (self.chosen_of * among)

    def _scale(self, bound: float) -> float:
        if self.unit == "fraction" or math.isinf(bound):
            return bound
        return math.log(bound) if bound > 0 else -math.inf


def decide(statements: Sequence[Statement], among: int) -> Decided:
    """Decide whether all statements hold, with Bonferroni over the claim's `among` statements."""
    if all(statement.holds() for statement in statements):
        return "holds here"
    return "does not hold here" if any(statement.fails(among) for statement in statements) else "inconclusive"


def rounds_needed(statements: Sequence[Statement], among: int) -> int | None:
    """The total number of rounds that decide an open check with a power of 80 % at the present means and spreads.

    One failing statement is enough; otherwise all must hold, so each gets its share of the chance to miss. None if a
    thousand rounds would not suffice.
    """
    failing = [s.rounds_to_decide(among) for s in statements if s.margin() <= 0]
    if failing:
        return min((rounds for rounds in failing if rounds is not None), default=None)
    undecided = [statement for statement in statements if not statement.holds()]
    needed = [one.rounds_to_decide(power=1 - (1 - POWER) / len(undecided)) for one in undecided]
    return None if None in needed else max((rounds for rounds in needed if rounds is not None), default=None)


Values = NDArray[np.float64]


class Curve(NamedTuple):
    """Values of shape (points, rounds): point i has `threads[i]` workers; column j is the same round in all curves.

    A missing value is NaN; predicates that compare values within rounds get no NaN.
    """

    name: str
    threads: tuple[int, ...]
    values: Values

    def at(self, threads: int) -> Values:
        """The values at a number of workers, one for each round that has one."""
        values: Values = self.values[self.threads.index(threads)]
        return values[~np.isnan(values)]

    def between(self, least: int, most: int) -> Self:
        """The part of the curve with at least, and at most, so many workers."""
        kept = [place for place, w in enumerate(self.threads) if least <= w <= most]
        return self._replace(threads=tuple(self.threads[place] for place in kept), values=self.values[kept])

    def speedup(self) -> Self:
        """Divide each speed by that of one worker in the same round."""
        return self._replace(values=self.values / self.at(1))
