"""The predicates: each turns curves into the statements that a claim requires."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np

from tmflow.analysis.stats import CONFIDENCE, mean_interval
from tmflow.base.text import workers
from tmflow.claims.statements import Curve, Statement, Values


def over_threads(curve: Curve) -> Values:
    """The geometric mean over all numbers of workers, one value per round."""
    means: Values = np.exp(np.log(curve.values).mean(axis=0))
    return means


def ratio_within(curves: Sequence[Curve], low: float | None, high: float | None) -> list[Statement]:
    """The ratio of the first curve to each other lies between the bounds; None is no bound."""
    first, *others = curves
    return [
        Statement(
            f"{first.name} / {other.name} on average",
            "ratio",
            over_threads(first) / over_threads(other),
            0 if low is None else low,
            math.inf if high is None else high,
        )
        for other in others
    ]


def order(curves: Sequence[Curve], bound: float) -> list[Statement]:
    """Each curve is more than `bound` faster than the previous one, so equivalent curves are not in order."""
    return [
        Statement(f"{b.name} / {a.name} on average", "ratio", over_threads(b) / over_threads(a), low=1 + bound)
        for a, b in pairwise(curves)
    ]


def equivalent(curves: Sequence[Curve], bound: float) -> list[Statement]:
    """Each pair's ratio lies between 1/(1+bound) and 1+bound."""
    return [
        Statement(f"{a.name} / {b.name}, {workers(w)}", "ratio", a.at(w) / b.at(w), 1 / (1 + bound), 1 + bound)
        for a, b in combinations(curves, 2)
        for w in a.threads
    ]


def equally_accurate(curves: Sequence[Curve], bound: float) -> list[Statement]:
    """Each pair's accuracies differ by less than `bound`, a fraction."""
    return [
        Statement(f"accuracy of {a.name} - {b.name}, {workers(w)}", "fraction", a.at(w) - b.at(w), -bound, bound)
        for a, b in combinations(curves, 2)
        for w in a.threads
    ]


def knee(curves: Sequence[Curve], at: int, efficiency: float, then_sublinear: bool) -> list[Statement]:
    """Speedup over workers exceeds `efficiency` up to `at` workers; `then_sublinear`: and is below it at the most."""
    statements = []
    for curve in curves:
        speedup = curve.speedup()
        for w in speedup.threads:
            what, share = f"speedup / workers of {curve.name}, {workers(w)}", speedup.at(w) / w
            if 1 < w <= at:
                statements.append(Statement(what, "ratio", share, low=efficiency))
            elif then_sublinear and w > at and w == max(speedup.threads):
                statements.append(Statement(what, "ratio", share, 0, efficiency))
    return statements


def share_above(curves: Sequence[Curve], threshold: float, of_what: str) -> list[Statement]:
    return [
        Statement(f"{of_what} of {curve.name}, {workers(w)}", "fraction", curve.at(w), low=threshold)
        for curve in curves
        for w in curve.threads
    ]


def share_below(curves: Sequence[Curve], threshold: float, of_what: str) -> list[Statement]:
    return [
        Statement(f"{of_what} of {curve.name}, {workers(w)}", "fraction", curve.at(w), high=threshold)
        for curve in curves
        for w in curve.threads
    ]


def rising_share(curves: Sequence[Curve], of_what: str) -> list[Statement]:
    """On average over the workers, each curve's share exceeds that of the previous one."""
    return [
        Statement(f"{of_what}: {b.name} - {a.name} on average", "fraction", (b.values - a.values).mean(axis=0), low=0)
        for a, b in pairwise(curves)
    ]


def peak(curves: Sequence[Curve], low: float, high: float) -> list[Statement]:
    """The largest geometric mean of the speedup lies between the bounds; its interval accounts for the selection.

    The number of workers with the largest upper confidence bound is used: if that bound is below a limit, all are,
    even those with few or noisy rounds.
    """
    statements = []
    for curve in curves:
        speedup = curve.speedup()
        n = len(speedup.threads)
        intervals = [mean_interval(rounds, 1 - (1 - CONFIDENCE) / n) for rounds in np.log(speedup.values)]
        best = max(
            range(n),
            key=lambda point: intervals[point].high if speedup.values.shape[1] > 1 else intervals[point].estimate,
        )
        w = speedup.threads[best]
        what = f"best speedup of {curve.name}, {workers(w)}"
        statements.append(Statement(what, "ratio", speedup.at(w), low, high, chosen_of=n))
    return statements
