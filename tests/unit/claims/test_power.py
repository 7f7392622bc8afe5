"""Rounds that decide a claim with a given power: by the claimed ranges and the noise, and not by any estimate."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import stdtrit

from tmflow.analysis.stats import rounds_to_be_inside
from tmflow.claims import predicates, speedups
from tmflow.claims.decision import Curve, decide
from tmflow.claims.power import (
    Spread,
    Target,
    guessed_spreads,
    measured_spreads,
    rounds_for,
)
from tmflow.claims.predicates import Predicate
from tmflow.claims.schema import load_claims

THREADS = (1, 2, 4, 8)
COMMON = 0.2  # what a round does to all points
OF_POINT = math.hypot(0.02, 0.08)  # what it does to one point, and a single trial
ALIKE = predicates.Equivalent(of=["a", "b"], contrast="average")
FAR = predicates.RatioWithin(of=["a", "b"], contrast="each", metric="time", high=0.5)
ACCURATE = predicates.ShareDifference(of=["a", "b"], contrast="average", share_of="accuracy", low=-0.02, high=0.02)


def target_of(predicate: Predicate) -> Target:
    return guessed_spreads(predicate, THREADS, 0.02, 0.08)[0].target


def test_an_average_over_threads_has_less_noise_than_a_single_point() -> None:
    def spread(contrast: str) -> float:
        predicate = predicates.Equivalent.model_validate({"of": ["a", "b"], "contrast": contrast, "metric": "time"})
        return guessed_spreads(predicate, THREADS, 0.02, 0.08)[0].of_round(1)

    assert spread("each") == pytest.approx(OF_POINT * math.sqrt(2))
    assert spread("average") == pytest.approx(OF_POINT * math.sqrt(2 / 3))  # of 2, 4 and 8 workers


def test_a_speedup_has_also_the_noise_of_one_worker() -> None:
    (average,) = guessed_spreads(ALIKE, THREADS, 0.02, 0.08)
    assert average.of_round(1) == pytest.approx(OF_POINT * math.sqrt(2 / 3 + 2))


def test_repeats_reduce_the_noise_of_trials_only() -> None:
    (one,) = guessed_spreads(FAR, (2,), 0.02, 0.08)
    assert one.of_round(1) ** 2 - one.of_round(4) ** 2 == pytest.approx(2 * 0.08**2 * 3 / 4)


def test_repeats_gain_what_the_measured_trials_show() -> None:
    """Two repeats with noise of 0.08, and a spread of 0.09: 0.08 / sqrt(2) of each of two points are of the trials."""
    rounds = np.exp(np.array([[1.0, -1.0], [0.0, 0.0]]) * 0.09 / math.sqrt(2))
    curves = [Curve(name, (2,), values[None]) for name, values in zip("ab", rounds, strict=True)]
    (one,) = measured_spreads(FAR, curves, trial=0.08, mean_inverse_repeats=1 / 2)
    assert one.of_round(2) == pytest.approx(0.09)
    assert one.of_round(4) == pytest.approx(math.sqrt(0.09**2 - 2 * 0.08**2 / 4))
    (unknown,) = measured_spreads(FAR, curves)
    assert unknown.of_round(1) == unknown.of_round(4) == pytest.approx(0.09)


def test_the_assumed_truth_lies_inside_by_what_counts_as_a_difference() -> None:
    assert target_of(FAR).truth == pytest.approx(math.log(0.5 / 1.1))
    assert target_of(ALIKE).truth == pytest.approx(0)
    double = predicates.RatioWithin(of=["a", "b"], contrast="average", low=1.6, high=2.4)
    assert target_of(double).truth == pytest.approx(math.log(math.sqrt(1.6 * 2.4)))
    cases = (
        ("commits", 0.5, 0.4), ("accuracy", 0.5, 0.4), ("accuracy", 0.1, 0.05), ("lock_waiting", 0.05, 0.025),
    )  # fmt: skip
    for share_of, threshold, truth in cases:
        fields: dict[str, Any] = {"of": ["a"], "contrast": "each", "share_of": share_of}
        below = predicates.ShareBelow(**fields, threshold=threshold)
        above = predicates.ShareAbove(**fields, threshold=1 - threshold)
        assert target_of(below).truth == pytest.approx(truth)
        assert target_of(above).truth == pytest.approx(1 - truth)
    fields = {"of": ["a"], "contrast": "each", "share_of": "accuracy_spread"}
    assert target_of(predicates.ShareAbove(**fields, threshold=0.0001)).truth == pytest.approx(0.0002)
    assert target_of(predicates.ShareBelow(**fields, threshold=0.0001)).truth == pytest.approx(0.00005)
    for share_of, truth in (("accuracy", 0.0), ("commits", 0.08)):
        fields = {"of": ["a", "b"], "contrast": "average", "share_of": share_of, "low": -0.02}
        assert target_of(predicates.ShareDifference(**fields)).truth == pytest.approx(truth)


def test_more_noise_more_statements_and_more_power_need_more_rounds() -> None:
    one = Spread(target_of(ALIKE), 0.1)
    rounds = rounds_for([one], 1, 0.8)
    assert rounds is not None
    assert all(
        more is not None and more > rounds
        for more in (
            rounds_for([replace(one, lasting=0.2)], 1, 0.8),
            rounds_for([one], 4, 0.8),
            rounds_for([one], 1, 0.9),
        )
    )
    assert rounds_for([replace(one, lasting=1e-6)], 1, 0.8) == 6  # fewer give no verdict
    assert rounds_for([replace(one, lasting=10.0)], 1, 0.8) is None
    assert rounds_for([one, replace(one, lasting=10.0)], 2, 0.8) is None


def test_every_claim_has_targets_with_the_truth_inside() -> None:
    for claim in load_claims().claims.values():
        for check in claim.checks:
            threads = (1, 2, 4, 8, 15, 16, 26, 32, 34, 48, 55, 64)
            for one in guessed_spreads(check.predicate, threads, 0.0, 0.1):
                assert one.target.low < one.target.truth < one.target.high, check.place
                assert one.trial > 0, check.place


def curves_of(predicate: Predicate, rng: np.random.Generator, rounds: int, factor: float = 1.0) -> list[Curve]:
    """Curves of equal speeds, of which the first has `factor` from two workers on, with this noise."""
    logs = _logs(rng, len(predicate.of), rounds)
    logs[0, 1:] += math.log(factor)
    return [Curve(name, THREADS, np.exp(values)) for name, values in zip(predicate.of, logs, strict=True)]


def _logs(rng: np.random.Generator, curves: int, rounds: int) -> NDArray[np.float64]:
    common = rng.normal(0, COMMON, (1, 1, rounds))
    return common + rng.normal(0, OF_POINT, (curves, len(THREADS), rounds))


@pytest.mark.parametrize(
    "predicate",
    [ALIKE, FAR, ACCURATE, speedups.Peak(of=["a"], low=1.0, high=2.0), speedups.RisingPeaks(of=["a", "b"])],
    ids=lambda predicate: type(predicate).__name__,
)
def test_measured_spreads_do_not_depend_on_where_the_estimates_are(predicate: Predicate) -> None:
    rng = np.random.default_rng(1)
    shift = 0.3 if predicate.measure.name == "accuracy" else 3.0
    scale = 0.1 if predicate.measure.name == "accuracy" else 1.0
    curves = [curve._replace(values=curve.values * scale) for curve in curves_of(predicate, rng, 8)]
    base = measured_spreads(predicate, curves)
    for place in range(len(THREADS)):
        for number in range(len(curves)):
            moved = [curve._replace(values=curve.values.copy()) for curve in curves]
            if predicate.measure.name == "accuracy":
                moved[number].values[place] += shift
            else:
                moved[number].values[place] *= shift
            for one, other in zip(base, measured_spreads(predicate, moved), strict=True):
                assert one.lasting == pytest.approx(other.lasting)
                assert one.target == other.target


def test_measured_spreads_are_near_the_expected_ones() -> None:
    curves = curves_of(FAR, np.random.default_rng(2), 2000)
    measured, expected = measured_spreads(FAR, curves), guessed_spreads(FAR, THREADS, 0.02, 0.08)
    assert [one.target for one in measured] == [one.target for one in expected]
    assert [one.of_round(1) for one in measured] == pytest.approx([one.of_round(1) for one in expected], rel=0.06)


def test_a_missing_value_does_not_hide_the_others() -> None:
    low = predicates.ShareBelow(of=["a"], contrast="each", share_of="commits", threshold=0.5)
    values = np.array([[0.1, 0.2, np.nan, 0.3], [0.5, 0.6, 0.7, 0.8]])
    spreads = measured_spreads(low, [Curve("a", (1, 2), values)])
    assert [one.lasting for one in spreads] == pytest.approx([0.1, np.std([0.5, 0.6, 0.7, 0.8], ddof=1)])


@pytest.mark.parametrize(("predicate", "factor"), [(ALIKE, 1.0), (FAR, 0.5 / 1.1)], ids=["average", "three points"])
def test_the_planned_rounds_have_the_power(predicate: Predicate, factor: float) -> None:
    """Every statement has its true value where the plan assumes it, so the power is the least one."""
    spreads = guessed_spreads(predicate, THREADS, 0.02, 0.08)
    rounds = rounds_for(spreads, len(spreads), 0.8)
    assert rounds is not None
    rng, studies = np.random.default_rng(rounds), 1500
    held = 0
    for _ in range(studies):
        statements = predicate.statements(curves_of(predicate, rng, rounds, factor))
        held += decide(statements, len(statements)) == "holds here"
    assert held / studies >= 0.8 - 3 * math.sqrt(0.8 * 0.2 / studies)
    assert held / studies < 0.92  # and few rounds more than are needed


def test_rounds_to_be_inside_is_the_fewest_that_suffice() -> None:
    fields = {"mean": 0.0, "spread": 0.1, "low": -0.0953, "high": 0.0953, "confidence": 0.9}
    rounds = rounds_to_be_inside(**fields, power=0.8)
    assert rounds == 11
    rng, studies = np.random.default_rng(3), 20_000
    for n, enough in ((rounds, True), (rounds - 2, False)):
        values = rng.normal(0, 0.1, (studies, n))
        half_widths = stdtrit(n - 1, 0.95) * values.std(axis=1, ddof=1) / math.sqrt(n)
        assert (np.mean(np.abs(values.mean(axis=1)) + half_widths < 0.0953) >= 0.79) == enough
    assert rounds_to_be_inside(**fields, power=0.8, at_most=rounds - 1) is None
    for spread in (0.0, *np.linspace(0.0005, 0.02, 200)):  # SciPy gives NaN for some chances that are nearly 0
        assert rounds_to_be_inside(**{**fields, "spread": spread}, power=0.8, least=6) == 6


@pytest.mark.parametrize(("low", "held"), [(-math.inf, 0.733), (-math.log(1.1), 0.657)], ids=["one bound", "two"])
def test_a_plan_from_the_spread_of_six_rounds_has_less_power(low: float, held: float) -> None:
    """The numbers of docs/protocol.md, from 40,000 plans, for a true spread of 15 %."""
    rng, true, high, studies = np.random.default_rng(8), 0.15, math.log(1.1), 2000
    one = Target(low, high, 0.0, 0.90)
    needed = {step: one.rounds(true * math.exp(step / 20), 0.8) for step in range(-60, 41)}
    shown = 0
    for step in np.rint(20 * np.log(np.sqrt(rng.chisquare(5, studies) / 5))).astype(int):
        rounds = needed[int(step)]
        assert rounds is not None
        values = rng.normal(0.0, true, rounds)
        half = stdtrit(rounds - 1, 0.95) * values.std(ddof=1) / math.sqrt(rounds)
        shown += low < values.mean() - half and values.mean() + half < high
    assert shown / studies == pytest.approx(held, abs=3 * math.sqrt(held * (1 - held) / studies) + 0.01)
