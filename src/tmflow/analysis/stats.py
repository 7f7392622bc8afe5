"""Interval estimates and equivalence tests over arrays with one item per round.

A single round gives no interval: its bounds are NaN, never 0. docs/protocol.md explains where each estimate is used.
The t intervals are computed here in 14 us. `scipy.stats.ttest_1samp` and `ttest_ind` would take 420 us, and a page has
thousands of points; the tests compare the results.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, nctdtr, stdtrit

CONFIDENCE = 0.95
BOUND = 0.05  # default bound of equivalence: a ratio within 5 % of 1
TOST_CONFIDENCE = 0.90  # two one-sided tests at 5 % each
BEYOND = 1e300  # the largest ratio of an interval: real times never reach it, and it is near the largest float
POWER = 0.8  # the chance to decide that a number of rounds is stated for
MANY_ROUNDS = 1000  # more rounds than a study can afford for one question


class Interval(NamedTuple):
    """An estimate and its confidence bounds, in the unit of the values; the bounds are NaN if n is 1."""

    estimate: float
    low: float
    high: float
    n: int


class Bounds(NamedTuple):
    """The range of ratios, or differences, that are too small to matter."""

    low: float
    high: float


SAME = Bounds(1 / (1 + BOUND), 1 + BOUND)
"""The ratios that count as the same."""


Between = Callable[[ArrayLike, ArrayLike, float], Interval]
"""A function that computes the interval of a ratio or difference of two samples at a given confidence."""


def bounded(interval: Interval) -> tuple[float, float | None, float | None]:
    """The estimate and the bounds for JSON, with None for a NaN bound."""
    low, high = (None if math.isnan(bound) else bound for bound in (interval.low, interval.high))
    return interval.estimate, low, high


def mean_interval(values: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """The mean of independent values and its two-sided t interval.

    Raises ValueError if there is no value, or a value that is not finite.
    """
    sample = _sample(values)
    mean, n = float(sample.mean()), sample.size
    if n == 1:
        return Interval(mean, math.nan, math.nan, 1)
    half = float(stdtrit(n - 1, (1 + confidence) / 2) * sample.std(ddof=1) / math.sqrt(n))
    return Interval(mean, mean - half, mean + half, n)


def share_interval(values: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """The mean of independent shares in [0, 1] with an interval in [0, 1].

    If the rounds differ, this is the t interval of `mean_interval`, clipped to [0, 1]. If all are 0, or all are 1, the
    t interval has width 0, which few rounds cannot justify. Then it is the Clopper-Pearson interval of the share of
    rounds that have any event. A share is at most 1, so its mean is at most that share of rounds, however the events
    within a round depend on each other.
    Source: Clopper and Pearson, Biometrika 26 (1934) 404. Raises ValueError as `mean_interval` does.
    """
    mean, low, high, n = mean_interval(values, confidence)
    if n > 1 and mean in (0, 1) and low == high:
        least = ((1 - confidence) / 2) ** (1 / n)  # the share of which n events in n rounds are the lower tail
        return Interval(1.0, least, 1.0, n) if mean else Interval(0.0, 0.0, 1 - least, n)
    return within_shares(Interval(mean, low, high, n))


def median_interval(values: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """The median of independent values, with the interval between two of them that has at least this confidence.

    Nothing is assumed about the distribution: the number of values below its median is binomial, with a probability of
    1/2 each. The bounds are the k-th smallest and the k-th largest value, with the largest k for which P(fewer than k
    values below the median) is at most half the error. With 5 values or fewer, even the smallest and the largest have
    less than 95 %: the bounds are NaN. Source: Thompson, Annals of Mathematical Statistics 7 (1936) 122. Raises
    ValueError as `mean_interval` does.
    """
    ordered = np.sort(_sample(values))
    n, median = ordered.size, float(np.median(ordered))
    tails = bdtr(np.arange(n), n, 0.5)  # P(at most i of n values are below the median)
    k = int((tails <= (1 - confidence) / 2).sum())
    if k == 0:
        return Interval(median, math.nan, math.nan, n)
    return Interval(median, float(ordered[k - 1]), float(ordered[n - k]), n)


def median_of_logs(logs: ArrayLike, confidence: float = CONFIDENCE) -> tuple[Interval, float]:
    """The `median_interval` of times or ratios, given by their logs, and the largest factor between it and a value.

    Between two middle values the median is their geometric mean. Raises ValueError as `mean_interval` does.
    """
    sample = _sample(logs)
    median = median_interval(sample, confidence)
    farthest = float(np.abs(sample - median.estimate).max())
    return of_logs(median), math.exp(min(farthest, math.log(BEYOND)))


def within_shares(interval: Interval) -> Interval:
    """Clip the bounds of an interval to [0, 1]; NaN stays NaN."""
    return _clipped(interval, 0.0, 1.0)


def within_differences(interval: Interval) -> Interval:
    """Clip the bounds of an interval to [-1, 1], the range of a difference of shares; NaN stays NaN."""
    return _clipped(interval, -1.0, 1.0)


def difference_interval(a: ArrayLike, b: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """The mean of a[i] - b[i] and its t interval, clipped to [-1, 1]: for accuracies and shares, as fractions.

    Item i of both must come from the same round. Raises ValueError if the lengths differ, or as `mean_interval` does.
    """
    first, second = _paired(a, b)
    return within_differences(mean_interval(first - second, confidence))


def ratio_interval(numerator: ArrayLike, denominator: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """The geometric mean of numerator[i] / denominator[i], with the t interval of the mean log ratio.

    Item i of both must come from the same round, so that an effect of the round on both cancels out.
    Raises ValueError if the lengths differ, or if a value is not finite and above 0.
    """
    logs = mean_interval(log_ratios(numerator, denominator), confidence)
    return of_logs(logs)


def independent_difference_interval(a: ArrayLike, b: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """mean(a) - mean(b) of two independent samples of accuracies or shares: `_welch_interval`, clipped to [-1, 1].

    For values that share no round: nothing cancels out, so the interval includes the noise of both. Raises ValueError
    as `mean_interval` does.
    """
    return within_differences(_welch_interval(a, b, confidence))


def _welch_interval(a: ArrayLike, b: ArrayLike, confidence: float) -> Interval:
    """mean(a) - mean(b) of two independent samples with Welch's t interval; their variances may differ.

    `n` is the size of the smaller sample; a sample of one value gives no bounds. Source: Welch, Biometrika 34 (1947)
    28, with Satterthwaite's degrees of freedom.
    """
    first, second = _sample(a), _sample(b)
    difference, n = float(first.mean() - second.mean()), min(first.size, second.size)
    if n == 1:
        return Interval(difference, math.nan, math.nan, n)
    shares = np.array([sample.var(ddof=1) / sample.size for sample in (first, second)])
    if not shares.any():
        return Interval(difference, difference, difference, n)
    freedom = shares.sum() ** 2 / (shares**2 / (first.size - 1, second.size - 1)).sum()
    half = float(stdtrit(freedom, (1 + confidence) / 2) * math.sqrt(shares.sum()))
    return Interval(difference, difference - half, difference + half, n)


def independent_ratio_interval(
    numerator: ArrayLike, denominator: ArrayLike, confidence: float = CONFIDENCE
) -> Interval:
    """The ratio of the geometric means of two independent samples, with Welch's t interval of the logs.

    Raises ValueError if a value is not finite and above 0.
    """
    logs = _welch_interval(_logs(numerator), _logs(denominator), confidence)
    return of_logs(logs)


def paired_ratio(above: Sequence[float | None], below: Sequence[float | None]) -> Interval | None:
    """The ratio interval over the rounds with both values, or None without such a round; item i is round i."""
    pairs = [(upper, lower) for upper, lower in zip(above, below, strict=False) if None not in (upper, lower)]
    if not pairs:
        return None
    numerator, denominator = zip(*pairs, strict=True)
    return ratio_interval(numerator, denominator)


def joint_ratio_intervals(
    numerators: Iterable[ArrayLike], denominators: Iterable[ArrayLike], confidence: float = CONFIDENCE
) -> list[Interval]:
    """The ratio intervals of several points, such as a curve, that hold jointly with `confidence`.

    Takes arrays of shape (points, rounds), or a sequence per point if the numbers of rounds differ. The Bonferroni
    correction divides the error among the intervals. It is valid however the points depend on each other: the points
    of a curve share their rounds, and often their baseline. Raises ValueError as `ratio_interval` does.
    """
    pairs = list(zip(numerators, denominators, strict=True))
    return [ratio_interval(above, below, joint_confidence(len(pairs), confidence)) for above, below in pairs]


def joint_confidence(points: int, confidence: float = CONFIDENCE) -> float:
    """The confidence of each of `points` intervals that hold jointly with `confidence` (Bonferroni)."""
    return 1 - (1 - confidence) / points


def equivalent(
    numerator: ArrayLike, denominator: ArrayLike, bound: float = BOUND, between: Between = ratio_interval
) -> bool:
    """Test whether the ratio is between 1/(1+bound) and 1+bound: two one-sided paired t tests (TOST) at 5 % each.

    Both reject exactly if the 90 % interval lies within the bounds. False does not mean different: with few rounds or
    much noise, neither can be shown. Source: Schuirmann, J. Pharmacokin. Biopharm. 15 (1987) 657. `between` is
    `independent_ratio_interval` for values that share no round. Raises ValueError as `ratio_interval` does, or for a
    bound that is not above 0.
    """
    if not bound > 0:
        raise ValueError(f"a bound of equivalence is above 0, not {bound:g}")
    interval = between(numerator, denominator, TOST_CONFIDENCE)
    return 1 / (1 + bound) < interval.low and interval.high < 1 + bound


def rounds_to_decide(
    values: ArrayLike,
    low: float,
    high: float,
    confidence: float = CONFIDENCE,
    power: float = POWER,
    at_most: int = MANY_ROUNDS,
) -> int | None:
    """The total number of rounds whose interval of the mean is inside (low, high), or outside, with this probability.

    For a ratio, pass its `log_ratios` and the logarithms of low and high; for a single threshold, one bound is
    infinite. The true mean and spread are assumed to be those of the values, so the result is rough if there are few.
    The values themselves are not counted as rounds that are already known. Returns None if more than `at_most` rounds
    are needed, or for a single value, which has no spread; the number of values if these decide already.
    Source: the power of the t test is a noncentral t distribution (Cohen, Statistical Power Analysis, 1988); the chance
    of two one-sided tests is at least 1 less the sum of their chances to fail.
    """
    mean, below, above, n = mean_interval(values, confidence)
    if n == 1:
        return None
    if (low < below and above < high) or above < low or high < below:
        return n
    spread = float(_sample(values).std(ddof=1))
    if spread == 0:
        return None  # on a bound
    rounds = np.arange(n, at_most + 1)
    if low < mean < high:
        chance = _chance_inside(mean, spread, low, high, rounds, confidence)
    else:
        chance = 1 - _chance_to_miss((low if mean <= low else high) - mean, spread, rounds, confidence)
    decided = rounds[chance >= power]
    return int(decided[0]) if decided.size else None


def rounds_to_be_inside(
    mean: float,
    spread: float,
    low: float,
    high: float,
    confidence: float,
    power: float,
    *,
    least: int = 2,
    at_most: int = MANY_ROUNDS,
) -> int | None:
    """The fewest rounds, at least `least`, whose interval of the mean is inside (low, high) with this probability.

    `mean`, inside the range, and `spread`, the standard deviation of a round's value, are assumed to be true; all are
    in the unit of the test (logs for ratios). None if more than `at_most` rounds are needed. Source: that of
    `rounds_to_decide`.
    """
    if spread == 0:
        return least
    allowed = range(least, at_most + 1)

    def suffices(rounds: int) -> bool:
        return bool(_chance_inside(mean, spread, low, high, np.array([rounds]), confidence)[0] >= power)

    place = bisect_left(allowed, True, key=suffices)  # the chance grows with the rounds
    return allowed[place] if place < len(allowed) else None


def _chance_inside(
    mean: float, spread: float, low: float, high: float, rounds: NDArray[np.int64], confidence: float
) -> NDArray[np.float64]:
    """The least probability that the interval of so many rounds is inside (low, high), where the mean is."""
    low_missed, high_missed = (_chance_to_miss(bound - mean, spread, rounds, confidence) for bound in (low, high))
    return 1 - low_missed - high_missed


def _chance_to_miss(
    distance: float, spread: float, rounds: NDArray[np.int64], confidence: float
) -> NDArray[np.float64]:
    """The probability that the interval of the mean of so many rounds reaches a bound at this distance."""
    if math.isinf(distance):
        return np.zeros(len(rounds))
    quantile = stdtrit(rounds - 1, (1 + confidence) / 2)
    chance: NDArray[np.float64] = nctdtr(rounds - 1, abs(distance) / spread * np.sqrt(rounds), quantile)
    return np.where(np.isnan(chance), 0.0, chance)  # SciPy gives NaN for some chances below 1e-60


def log_ratios(numerator: ArrayLike, denominator: ArrayLike) -> NDArray[np.float64]:
    """log(numerator[i] / denominator[i]). Raises ValueError if the lengths differ, or a value is not above 0."""
    above, below = _paired(numerator, denominator)
    return _logs(above) - _logs(below)


def _clipped(interval: Interval, least: float, most: float) -> Interval:
    low, high = (min(max(bound, least), most) for bound in (interval.low, interval.high))  # in this order NaN stays NaN
    return interval._replace(low=low, high=high)


def of_logs(logs: Interval) -> Interval:
    """Convert the interval of a log ratio to that of the ratio, clipped to [1 / `BEYOND`, `BEYOND`]."""
    most = math.log(BEYOND)
    estimate, low, high = (math.exp(max(-most, min(most, log))) if not math.isnan(log) else log for log in logs[:3])
    return Interval(estimate, low, high, logs.n)


def _logs(values: ArrayLike) -> NDArray[np.float64]:
    positive: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    if not (positive > 0).all():
        raise ValueError("a ratio interval needs values above 0")
    logs: NDArray[np.float64] = np.log(positive)
    return logs


def _sample(values: ArrayLike) -> NDArray[np.float64]:
    sample = np.asarray(values, dtype=float)
    if sample.ndim != 1 or sample.size == 0 or not np.isfinite(sample).all():
        raise ValueError("an interval needs one or more finite values in one dimension")
    return sample


def _paired(a: ArrayLike, b: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first, second = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if first.shape != second.shape:
        raise ValueError(f"paired values must come in pairs, not {first.shape} against {second.shape}")
    return first, second
