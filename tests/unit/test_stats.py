"""Interval estimates against hand-computed values, scipy's own, and their promised coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as oracle

from tmflow.stats import Interval, mean_interval, paired_ratio, ratio_interval


def test_mean_interval_by_hand() -> None:
    # mean 2, sd 1, t(0.975, 2) = 4.30265: half-width 4.30265 / sqrt(3) = 2.48414
    estimate, low, high, n = mean_interval([1.0, 2.0, 3.0])
    assert (estimate, n) == (2.0, 3)
    assert low == pytest.approx(2 - 2.48414, abs=1e-5)
    assert high == pytest.approx(2 + 2.48414, abs=1e-5)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
def test_mean_interval_agrees_with_scipy(confidence: float) -> None:
    values = np.random.default_rng(1).normal(5, 2, size=17)
    expected = oracle.t.interval(confidence, 16, loc=values.mean(), scale=oracle.sem(values))
    assert mean_interval(values, confidence)[1:3] == pytest.approx(expected)


def test_one_round_has_no_bounds() -> None:
    for interval in (mean_interval([0.9]), ratio_interval([3.0], [2.0])):
        assert interval.n == 1
        assert math.isnan(interval.low)
        assert math.isnan(interval.high)
    assert ratio_interval([3.0], [2.0]).estimate == pytest.approx(1.5)


def test_equal_values_have_a_width_of_zero() -> None:
    assert mean_interval([0.25, 0.25]) == Interval(0.25, 0.25, 0.25, 2)
    assert ratio_interval([7.0, 3.0], [7.0, 3.0]) == Interval(1.0, 1.0, 1.0, 2)


def test_ratio_interval_by_hand() -> None:
    # log2 ratios 1 and 3: mean 2, standard error 1, t(0.975, 1) = 12.7062
    estimate, low, high, n = ratio_interval([2.0, 8.0], [1.0, 1.0])
    assert (estimate, n) == (pytest.approx(4.0), 2)
    assert low == pytest.approx(2 ** (2 - 12.7062), rel=1e-4)
    assert high == pytest.approx(2 ** (2 + 12.7062), rel=1e-4)


def test_ratio_interval_agrees_with_the_paired_t_test() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.lognormal(1.0, 0.3, 12), rng.lognormal(0.5, 0.3, 12)
    expected = oracle.ttest_rel(np.log(a), np.log(b)).confidence_interval(0.95)
    _, low, high, _ = ratio_interval(a, b)
    assert (low, high) == pytest.approx((math.exp(expected.low), math.exp(expected.high)))


def test_pairing_cancels_what_a_round_does_to_both() -> None:
    drift = np.array([1.0, 5.0, 25.0])
    assert ratio_interval(2 * drift, drift)[:3] == pytest.approx((2.0, 2.0, 2.0))


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(3)
    samples = rng.normal(10, 3, size=(2000, 6))
    hits = sum(low <= 10 <= high for _, low, high, _ in map(mean_interval, samples))
    assert 0.935 < hits / 2000 < 0.965  # 95 % give or take three standard errors


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf], [[1.0, 2.0]]])
def test_values_without_a_mean_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="finite values"):
        mean_interval(values)


def test_ratios_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="in pairs"):
        ratio_interval([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="above 0"):
        ratio_interval([1.0, 0.0], [1.0, 1.0])


def test_ratios_are_paired_in_rounds_that_both_have() -> None:
    ratio = paired_ratio([2.0, 20.0, 7.0, None], [1.0, 10.0, None, 9.0])
    assert ratio == pytest.approx((2, 2, 2, 2))
    assert paired_ratio([1.0, None], [None, 1.0]) is None
