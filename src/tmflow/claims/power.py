"""The rounds that decide a claim with a given power, whatever its estimates are.

The number of rounds depends on the claimed ranges, an assumed truth and the spread of a round's value. The truth is
assumed inside every claimed range: at the centre of a range with two bounds, or at a fixed distance inside a single
bound. The distance is what the claims call a difference: 10 % of a speed, 10 points of a share, 2 points of a
difference of accuracies, the bound itself for a spread of accuracies (half of an upper bound), and at most half the
distance from the bound to 0 or 1 (for differences, to -1 or 1). No estimated effect is used, only spreads, so neither a
plan nor a stopping rule that follows from it can favour an outcome.

All statements of a claim must hold. Each gets an equal part of the chance to miss, so the claim is decided with at
least the power if the noise is the assumed one, however its statements depend on each other. If the spread was measured
in few rounds, the power is less on average (docs/protocol.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tmflow.analysis.stats import rounds_to_be_inside
from tmflow.analysis.versions import LEAST_ROUNDS
from tmflow.claims.decision import Curve, Statement
from tmflow.claims.measures import Measure
from tmflow.claims.predicates import MARGIN, Predicate

ACCURACY_INSIDE = 0.02  # of a difference
SHARE_INSIDE = 0.10
STEP = 0.01  # by which a point differs to find its weight in a statement
MIDDLE = 0.5  # the value of all shares whose position is removed


@dataclass(frozen=True)
class Target:
    """What a statement claims, and the assumed truth, on the scale of the test: logs for ratios."""

    low: float
    high: float
    truth: float
    confidence: float
    """The confidence of the interval that must lie in the range."""

    def rounds(self, spread: float, power: float) -> int | None:
        """The rounds, six or more, that show it with this probability; None if a thousand are too few.

        spread: the standard deviation of a round's value, on the scale of the test.
        """
        return rounds_to_be_inside(self.truth, spread, self.low, self.high, self.confidence, power, least=LEAST_ROUNDS)


def target(statement: Statement, measure: Measure) -> Target:
    """The target of a statement; its values are not used."""
    low, high = statement.limits()
    return Target(low, high, _assumed_truth(statement, measure, low, high), statement.confidence_to_hold())


def _assumed_truth(statement: Statement, measure: Measure, low: float, high: float) -> float:
    if not (math.isinf(low) or math.isinf(high)):
        return (low + high) / 2
    if statement.unit == "ratio":
        distance = math.log1p(MARGIN)
        return high - distance if math.isinf(low) else low + distance
    inside = ACCURACY_INSIDE if measure.name == "accuracy" and statement.difference else SHARE_INSIDE
    if measure.is_spread:
        inside = low if math.isinf(high) else high / 2
    least = -1.0 if statement.difference else 0.0
    if math.isinf(low):
        return high - min(inside, (high - least) / 2)
    return low + min(inside, (1.0 - low) / 2)


@dataclass(frozen=True)
class Spread:
    """A target, and the standard deviation of a round's value of its statement, in two parts."""

    target: Target
    lasting: float
    """The part that repeats do not reduce."""
    trial: float = 0.0
    """The part of the trials, for one trial of each point in a round."""

    def of_round(self, repeats: int) -> float:
        """The standard deviation of a round's value with so many repeats of each point."""
        return math.hypot(self.lasting, self.trial / math.sqrt(repeats))


def guessed_spreads(predicate: Predicate, threads: Sequence[int], point: float, trials: float) -> list[Spread]:
    """The spreads of a predicate of speeds with these numbers of workers, in increasing order.

    point, trials: standard deviations of the log time of a point, of what a round does to this point alone and
    between its trials. Both are independent between points. What a round does to all points cancels out.
    """
    return [
        Spread(one, norm * point, norm * trials)
        for one, norm in zip(*_targets_and_norms(predicate, threads), strict=True)
    ]


def measured_spreads(
    predicate: Predicate, curves: Sequence[Curve], trial: float = 0.0, mean_inverse_repeats: float = 1.0
) -> list[Spread]:
    """The spreads of a predicate's statements in these curves, of two rounds or more.

    The mean of every point is removed before the predicate sees the curves, so nothing depends on it. trial: the
    standard deviation between the trials of a point in a round, 0 if unknown; then repeats are taken to gain nothing.
    """
    centred = [_centred(curve, on_log=_is_log(predicate)) for curve in curves]
    _, norms = _targets_and_norms(predicate, curves[0].threads)
    spreads = []
    for statement, norm in zip(predicate.statements(centred), norms, strict=True):
        measured, of_trials = float(statement.scaled().std(ddof=1)), norm * trial
        lasting = math.sqrt(max(measured**2 - of_trials**2 * mean_inverse_repeats, 0.0))
        spreads.append(Spread(target(statement, predicate.measure), lasting, of_trials))
    return spreads


def rounds_for(spreads: Iterable[Spread], among: int, power: float, repeats: int = 1) -> int | None:
    """The rounds that show all of these statements, of the claim's `among`; None if a thousand are too few."""
    share = 1 - (1 - power) / among
    needed = [one.target.rounds(one.of_round(repeats), share) for one in spreads]
    return None if None in needed else max((rounds for rounds in needed if rounds is not None), default=LEAST_ROUNDS)


def _targets_and_norms(predicate: Predicate, threads: Sequence[int]) -> tuple[list[Target], list[float]]:
    """The targets of a predicate, and the norms of the points' weights in its statements.

    Every statement is linear in the points (in their logs for speeds). So the weights are the differences between a
    round in which all points are equal and rounds in each of which one point differs. Independent noise of the points
    has the norm of the weights (the root of the sum of squares) as its factor.
    """
    points = len(predicate.of) * len(threads)
    steps = STEP * np.eye(points, points + 1, 1)  # in the first round no point differs
    values = np.exp(steps) if _is_log(predicate) else MIDDLE + steps
    curves = [
        Curve(name, tuple(threads), part)
        for name, part in zip(predicate.of, np.split(values, len(predicate.of)), strict=True)
    ]
    targets, norms = [], []
    for statement in predicate.statements(curves):
        scaled = statement.scaled()
        targets.append(target(statement, predicate.measure))
        norms.append(float(np.linalg.norm(scaled[1:] - scaled[0]) / STEP))
    return targets, norms


def _centred(curve: Curve, *, on_log: bool) -> Curve:
    values = np.log(curve.values) if on_log else curve.values
    residuals = values - np.nanmean(values, axis=1, keepdims=True)
    return curve._replace(values=np.exp(residuals) if on_log else MIDDLE + residuals)


def _is_log(predicate: Predicate) -> bool:
    return predicate.measure.is_speed
