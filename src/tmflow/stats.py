"""Interval estimates over rounds. A single round gives no interval: its bounds are NaN, never 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

CONFIDENCE = 0.95


class Interval(NamedTuple):
    """An estimate with its confidence bounds, in the unit of the values; the bounds are NaN where n is 1."""

    estimate: float
    low: float
    high: float
    n: int


def bounded(interval: Interval) -> tuple[float, float | None, float | None]:
    """Estimate and bounds as JSON has them: None where there is no interval."""
    low, high = (None if math.isnan(bound) else bound for bound in (interval.low, interval.high))
    return interval.estimate, low, high


def mean_interval(values: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """The mean of independent values and its two-sided t interval.

    Raises ValueError when there is no value, or one that is not finite.
    """
    sample = np.asarray(values, dtype=float)
    if sample.ndim != 1 or sample.size == 0 or not np.isfinite(sample).all():
        raise ValueError("an interval needs one or more finite values in one dimension")
    mean, n = float(sample.mean()), sample.size
    if n == 1:
        return Interval(mean, math.nan, math.nan, 1)
    half = float(stdtrit(n - 1, (1 + confidence) / 2) * sample.std(ddof=1) / math.sqrt(n))
    return Interval(mean, mean - half, mean + half, n)


def ratio_interval(numerator: ArrayLike, denominator: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """The geometric mean of numerator[i] / denominator[i], with the t interval of the mean log ratio.

    Item i of both must come from the same round: what a round does to both then cancels out.
    Raises ValueError when the lengths differ, or when a value is not finite and above 0.
    """
    above, below = np.asarray(numerator, dtype=float), np.asarray(denominator, dtype=float)
    if above.shape != below.shape:
        raise ValueError(f"paired values must come in pairs, not {above.shape} against {below.shape}")
    if not ((above > 0).all() and (below > 0).all()):
        raise ValueError("a ratio interval needs values above 0")
    logs = mean_interval(np.log(above) - np.log(below), confidence)
    return Interval(math.exp(logs.estimate), math.exp(logs.low), math.exp(logs.high), logs.n)


def paired_ratio(above: Sequence[float | None], below: Sequence[float | None]) -> Interval | None:
    """The ratio interval of the rounds that both have a value of, item i of both being round i; None if none has."""
    pairs = [(own, other) for own, other in zip(above, below, strict=False) if own is not None and other is not None]
    if not pairs:
        return None
    own_values, other_values = zip(*pairs, strict=True)
    return ratio_interval(own_values, other_values)
