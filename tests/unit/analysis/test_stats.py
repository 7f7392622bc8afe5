"""Interval estimates against hand-computed values, scipy's own, and their nominal coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as oracle

from tmflow.analysis.stats import (
    Interval,
    difference_interval,
    equivalent,
    independent_difference_interval,
    independent_ratio_interval,
    joint_confidence,
    joint_ratio_intervals,
    log_ratios,
    mean_interval,
    median_interval,
    paired_ratio,
    ratio_interval,
    rounds_to_decide,
    share_interval,
)


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


def test_difference_interval_agrees_with_the_paired_t_test() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(0.92, 0.01, 8), rng.normal(0.91, 0.01, 8)
    expected = oracle.ttest_rel(a, b).confidence_interval(0.95)
    estimate, low, high, n = difference_interval(a, b)
    assert (estimate, low, high) == pytest.approx((a.mean() - b.mean(), expected.low, expected.high))
    assert n == 8
    with pytest.raises(ValueError, match="in pairs"):
        difference_interval(a, b[1:])


def test_equivalence_by_hand() -> None:
    # logs 0.01, 0.02, 0.03: mean 0.02, sd 0.01, t(0.95, 2) = 2.91999: half-width 2.91999 * 0.01 / sqrt(3) = 0.016859
    interval = ratio_interval(np.exp([0.01, 0.02, 0.03]), [1.0, 1.0, 1.0], 0.90)
    assert interval[:3] == pytest.approx((math.exp(0.02), math.exp(0.003141), math.exp(0.036859)), abs=1e-6)
    assert equivalent(np.exp([0.01, 0.02, 0.03]), [1.0, 1.0, 1.0])  # the upper end, 3.75 %, is below 5 %
    with pytest.raises(ValueError, match="above 0"):
        equivalent([1.0, 1.1], [1.0, 1.0], bound=0.0)
    assert not equivalent(np.exp([0.01, 0.02, 0.03]), [1.0, 1.0, 1.0], bound=0.037)  # 3.75 % is above 3.7 %
    assert not equivalent(np.exp([-0.05, -0.02, 0.01]), [1.0, 1.0, 1.0])  # -2 % give or take 5 %
    assert not equivalent([1.0], [1.0])  # one round decides nothing


def test_a_ratio_and_its_inverse_are_equivalent_alike() -> None:
    slower, same = [0.951, 0.951, 0.951], [1.0, 1.0, 1.0]  # 1 / 0.951 is 1.0515, and 0.951 is above 0.95
    assert not equivalent(slower, same)
    assert not equivalent(same, slower)


def test_equivalence_agrees_with_two_one_sided_tests() -> None:
    rng = np.random.default_rng(6)
    verdicts = []
    for spread in (0.005, 0.02, 0.03, 0.05, 0.1):
        logs = rng.normal(0.01, spread, 6)
        above = oracle.ttest_1samp(logs, -math.log(1.05), alternative="greater").pvalue
        below = oracle.ttest_1samp(logs, math.log(1.05), alternative="less").pvalue
        verdicts.append(max(above, below) < 0.05)
        assert equivalent(np.exp(logs), np.ones(6)) == verdicts[-1]
    assert set(verdicts) == {True, False}


def test_joint_intervals_share_the_error() -> None:
    rng = np.random.default_rng(7)
    numerators, denominators = rng.lognormal(0, 0.1, (2, 10, 6))
    joint = joint_ratio_intervals(numerators, denominators)
    assert joint == [ratio_interval(a, b, 0.995) for a, b in zip(numerators, denominators, strict=True)]
    assert joint_ratio_intervals([[2.0, 4.0], [1.0, 2.0, 3.0]], [[1.0, 1.0], [1.0, 1.0, 1.0]])[1].n == 3
    with pytest.raises(ValueError, match="shorter"):
        joint_ratio_intervals(numerators, denominators[1:])
    assert joint_ratio_intervals([], []) == []


def power_of_one_bound(n: int, distance: float, confidence: float = 0.95) -> float:
    """The chance that the interval of n values excludes a bound at so many spreads from the mean."""
    quantile = oracle.t.ppf((1 + confidence) / 2, n - 1)
    return float(oracle.nct.sf(quantile, n - 1, distance * math.sqrt(n)))


def test_rounds_to_decide() -> None:
    values = [-0.1, 0.0, 0.1, 0.2]  # mean 0.05, sd 0.1291
    distance = 0.05 / float(np.std(values, ddof=1))
    expected = next(n for n in range(4, 1000) if power_of_one_bound(n, distance) >= 0.8)
    assert rounds_to_decide(values, -math.inf, 0.0) == expected == 55  # above 0
    assert rounds_to_decide(np.negative(values), 0.0, math.inf) == expected  # below 0
    assert rounds_to_decide(values, 0.0, math.inf) == expected  # inside
    even = rounds_to_decide(values, -math.inf, 0.0, power=0.5)
    assert even is not None
    assert even < expected
    within = rounds_to_decide(values, -math.log(1.2), math.log(1.2), confidence=0.9)
    assert within is not None
    assert within < expected
    assert rounds_to_decide(values, -0.05, 0.0500001) is None  # too close to a bound for any number of rounds
    assert rounds_to_decide(values, -math.inf, 0.0, at_most=expected - 1) is None
    assert rounds_to_decide([0.2, 0.2, 0.2], -math.inf, 0.0) == 3  # decided already
    assert rounds_to_decide([0.2, 0.2], -math.inf, 0.2) is None  # on the bound for ever
    assert rounds_to_decide([0.2], -math.inf, 0.0) is None  # the spread is unknown


def test_log_ratios() -> None:
    assert log_ratios([2.0, 8.0], [1.0, 2.0]) == pytest.approx([math.log(2), math.log(4)])


def test_an_unpaired_difference_agrees_with_welch_s_test() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(0.5, 0.2, 7), rng.normal(0.4, 0.05, 12)
    for confidence in (0.9, 0.95):
        expected = oracle.ttest_ind(a, b, equal_var=False).confidence_interval(confidence)
        estimate, low, high, n = independent_difference_interval(a, b, confidence)
        assert (estimate, n) == (pytest.approx(a.mean() - b.mean()), 7)
        assert (low, high) == pytest.approx((expected.low, expected.high))


def test_an_unpaired_ratio_is_welch_s_test_of_the_logs() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.lognormal(1.0, 0.3, 6), rng.lognormal(0.5, 0.1, 9)
    expected = oracle.ttest_ind(np.log(a), np.log(b), equal_var=False).confidence_interval(0.95)
    assert independent_ratio_interval(a, b)[1:3] == pytest.approx((math.exp(expected.low), math.exp(expected.high)))
    assert not equivalent(a, b, between=independent_ratio_interval)


def test_an_unpaired_interval_needs_two_values_of_each() -> None:
    estimate, low, high, n = independent_ratio_interval([2.0], [1.0, 1.0])
    assert (estimate, n) == (2.0, 1)
    assert math.isnan(low)
    assert math.isnan(high)
    assert independent_difference_interval([0.75, 0.75], [0.25, 0.25, 0.25]) == Interval(0.5, 0.5, 0.5, 2)
    with pytest.raises(ValueError, match="above 0"):
        independent_ratio_interval([1.0, 0.0], [1.0, 1.0])


def test_the_confidence_of_each_of_several_points() -> None:
    assert joint_confidence(1) == pytest.approx(0.95)
    assert joint_confidence(5) == pytest.approx(0.99)


@pytest.mark.parametrize("shares", [[0.0, 0.04], [0.99, 1.0, 0.96], [0.0, 0.0, 1.0], [0.0, 0.0], [1.0, 1.0, 1.0]])
def test_the_interval_of_a_share_stays_within_shares(shares: list[float]) -> None:
    estimate, low, high, _ = share_interval(shares)
    assert 0 <= low <= estimate <= high <= 1
    _, widest_low, widest_high, _ = mean_interval(shares)
    if max(shares) > min(shares):
        assert widest_low < 0 or widest_high > 1  # what is shown without the limit
        assert low in (0, widest_low)
        assert high in (1, widest_high)


def test_the_interval_of_a_difference_of_shares_stays_within_its_range() -> None:
    a, b = [1.0, 0.1], [0.0, 0.9]
    for between in (difference_interval, independent_difference_interval):
        assert between(a, b)[1:3] == (-1.0, 1.0)
        assert between([1.0, 1.0, 0.9], [0.0, 0.05, 0.0]).high == 1.0
        assert between([0.0, 0.05, 0.0], [1.0, 1.0, 0.9]).low == -1.0
    assert independent_ratio_interval([1e9, 1.1e9], [1.0, 1.0]).estimate == pytest.approx(1.05e9, rel=1e-2)


@pytest.mark.parametrize(
    ("n", "low", "high"), [(6, 1, 6), (8, 1, 8), (9, 2, 8), (11, 2, 10), (12, 3, 10), (17, 5, 13), (20, 6, 15)]
)
def test_the_interval_of_a_median_is_between_the_ranks_of_published_tables(n: int, low: int, high: int) -> None:
    """Conover, Practical Nonparametric Statistics, confidence intervals of the median by the sign test."""
    values = np.random.default_rng(n).permutation(np.arange(1.0, n + 1))
    assert median_interval(values) == Interval((n + 1) / 2, low, high, n)


@pytest.mark.parametrize("n", [6, 7, 10, 13, 30])
@pytest.mark.parametrize("confidence", [0.8, 0.9, 0.95])
def test_the_interval_of_a_median_agrees_with_scipy_s_quantile_test(n: int, confidence: float) -> None:
    values = np.random.default_rng(n).lognormal(0, 1, n)
    expected = oracle.quantile_test(values, q=np.median(values), p=0.5).confidence_interval(confidence)
    assert median_interval(values, confidence)[1:3] == (expected.low, expected.high)


def test_five_rounds_give_no_interval_of_the_median() -> None:
    for n in (1, 2, 5):
        estimate, low, high, rounds = median_interval(np.arange(n))
        assert (estimate, rounds) == ((n - 1) / 2, n)
        assert math.isnan(low)
        assert math.isnan(high)
    assert median_interval(np.arange(5.0), 0.9)[1:3] == (0.0, 4.0)  # 93.75 %
    with pytest.raises(ValueError, match="finite values"):
        median_interval([1.0, math.nan])
