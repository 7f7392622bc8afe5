"""Predicates require statements about curves; rounds decide them by the right test, or give the number still needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from tmflow.analysis import stats
from tmflow.analysis.stats import difference_interval, joint_ratio_intervals
from tmflow.base.text import workers
from tmflow.claims import predicates, speedups
from tmflow.claims.decision import Curve, Statement, Values, decide, rounds_needed
from tmflow.claims.predicates import Predicate

THREADS = (1, 2, 4)
ROUNDS = np.array([1.0, 1.2, 0.9, 1.1, 1.0, 0.8])  # the common factor of all runs in a round


def curve(name: str, values: tuple[float, ...], threads: tuple[int, ...] = THREADS, noise: float = 0.0) -> Curve:
    """A value for each number of workers, times the factor of the round; the noise is independent for each curve."""
    own = 1 + noise * np.array([1, -1, 1, -1, 1, -1])
    return Curve(name, threads, np.array(values)[:, None] * ROUNDS * own)


def share(name: str, values: tuple[float, ...], noise: float = 0.01) -> Curve:
    return Curve(name, THREADS, np.array(values)[:, None] + noise * np.array([1, -1, 1, -1, 1, -1]))


def verdict(statements: list[Statement]) -> str:
    return decide(statements, len(statements))


def statements_of(kind: type[Predicate], curves: Sequence[Curve], **settings: Any) -> list[Statement]:
    return kind(of=[curve.name for curve in curves], **settings).statements(curves)


def comparing(kind: type[Predicate], contrast: str = "each", **fixed: Any) -> Callable[..., list[Statement]]:
    return partial(statements_of, kind, contrast=contrast, **fixed)


equivalent = comparing(predicates.Equivalent, metric="time", least=1)
order = comparing(predicates.Order, "average", metric="time")
ratio_within = comparing(predicates.RatioWithin, "average", metric="time")
share_above, share_below = comparing(predicates.ShareAbove), comparing(predicates.ShareBelow)
equally_accurate = comparing(predicates.ShareDifference, share_of="accuracy", low=-0.02, high=0.02)
fewer_aborts = comparing(predicates.ShareDifference, "average", share_of="attempts", causes=["conflict"], high=0.0)
rising = comparing(predicates.ShareRise, share_of="accuracy", low=0.02)
within = comparing(predicates.ShareWithin, share_of="accuracy", low=0.2, high=0.5)
near_linear, sublinear = partial(statements_of, speedups.NearLinear), partial(statements_of, speedups.Sublinear)
plateau, spikes = partial(statements_of, speedups.Plateau), partial(statements_of, speedups.Spikes)
peak, rising_peaks = partial(statements_of, speedups.Peak), partial(statements_of, speedups.RisingPeaks)

gain = comparing(predicates.LargerGain, "average", metric="time")
SLOW, FAST = curve("slow", (1, 2, 4)), curve("fast", (1.3, 2.6, 5.2))
NEAR = curve("near", (1.01, 2.02, 4.04))
NINE = share("x", (0.9, 0.9, 0.9))
LATE = curve("late", (1, 2, 5.2))  # equally slow, except for the last


@pytest.mark.parametrize(
    ("statements", "expected", "n"),
    [
        (equivalent([SLOW, NEAR], bound=0.05), "holds here", 3),
        (equivalent([SLOW, NEAR, FAST], bound=0.05), "does not hold here", 6),
        (equivalent([SLOW, LATE], bound=0.05), "does not hold here", 3),
        (equivalent([SLOW, curve("noisy", (1, 2, 4), noise=0.1)], bound=0.05), "inconclusive", 3),
        (order([SLOW, FAST], bound=0.05), "holds here", 1),
        (order([FAST, SLOW], bound=0.05), "does not hold here", 1),
        (order([SLOW, NEAR], bound=0.05), "does not hold here", 1),
        (order([SLOW, curve("noisy", (1.06, 2.12, 4.24), noise=0.1)], bound=0.05), "inconclusive", 1),
        (order([SLOW, FAST, NEAR], bound=0.05), "does not hold here", 2),
        (ratio_within([FAST, SLOW], low=1.2, high=1.4), "holds here", 1),
        (ratio_within([FAST, SLOW, NEAR], low=1.4, high=None), "does not hold here", 2),
        (ratio_within([SLOW, FAST], low=None, high=0.8), "holds here", 1),
        (ratio_within([curve("noisy", (1.3, 2.6, 5.2), noise=0.2), SLOW], low=1.2, high=1.4), "inconclusive", 1),
        (share_above([share("x", (0.6, 0.7, 0.8))], threshold=0.5, share_of="commits"), "holds here", 3),
        (share_above([share("x", (0.6, 0.7, 0.4))], threshold=0.5, share_of="commits"), "does not hold here", 3),
        (share_above([share("x", (0.6, 0.7, 0.5))], threshold=0.5, share_of="commits"), "inconclusive", 3),
        (share_below([share("x", (0.4, 0.3, 0.2))], threshold=0.5, share_of="commits"), "holds here", 3),
        (share_below([share("x", (0.4, 0.3, 0.2))], threshold=0.5, share_of="commits_of_attempts"), "holds here", 3),
        (share_below([share("x", (0.4, 0.3, 0.6))], threshold=0.5, share_of="commits"), "does not hold here", 3),
        (fewer_aborts([share("x", (0.1, 0.2, 0.3)), share("y", (0.2, 0.3, 0.4))]), "holds here", 1),
        (fewer_aborts([share("y", (0.2, 0.3, 0.4)), share("x", (0.1, 0.2, 0.3))]), "does not hold here", 1),
        (equally_accurate([NINE, share("y", (0.905, 0.9, 0.9))]), "holds here", 3),
        (equally_accurate([NINE, share("y", (0.8, 0.9, 0.9))]), "does not hold here", 3),
        (rising([share("x", (0.3, 0.4, 0.5), noise=0.001)]), "holds here", 2),
        (rising([share("x", (0.3, 0.4, 0.41), noise=0.001)]), "does not hold here", 2),
        (rising([share("x", (0.3, 0.4, 0.41), noise=0.001)], most=2), "holds here", 1),
        (rising([share("x", (0.3, 0.4, 0.41), noise=0.001)], least=2), "does not hold here", 1),
        (within([share("x", (0.3, 0.4, 0.35))]), "holds here", 3),
        (within([share("x", (0.3, 0.4, 0.15))]), "does not hold here", 3),
        (within([share("x", (0.3, 0.6, 0.35))]), "does not hold here", 3),
        (within([share("x", (0.3, 0.2, 0.35))]), "inconclusive", 3),
        (near_linear([curve("c", (1, 1.9, 3.8))], to=4), "holds here", 2),
        (near_linear([curve("c", (1, 1.9, 2.4))], to=4), "does not hold here", 2),
        (near_linear([curve("c", (1, 1.9, 2.4))], to=2), "holds here", 1),
        (sublinear([curve("c", (1, 1.9, 2.4))], beyond=2), "holds here", 1),
        (sublinear([curve("c", (1, 1.9, 3.8))], beyond=2), "does not hold here", 1),
        (plateau([curve("c", (1, 1.9, 2.0))], after=2), "holds here", 1),
        (plateau([curve("c", (1, 1.9, 3.0))], after=2), "does not hold here", 1),
        (spikes([curve("c", (1, 3, 2))], at=[2]), "holds here", 1),
        (spikes([curve("c", (1, 1.5, 2))], at=[2]), "does not hold here", 1),
        (peak([curve("c", (1, 2.5, 2))], low=2, high=3), "holds here", 1),
        (peak([curve("c", (1, 2.5, 3.5))], low=2, high=3), "does not hold here", 1),
        (rising_peaks([curve("a", (1, 2, 1.5)), curve("b", (1, 1.5, 3))]), "holds here", 3),
        (rising_peaks([curve("a", (1, 2, 1.5)), curve("b", (1, 1.5, 2))]), "does not hold here", 3),
        (gain([FAST, SLOW, NEAR, SLOW]), "holds here", 1),
        (gain([FAST, SLOW, FAST, SLOW]), "does not hold here", 1),
    ],
)
def test_a_predicate_holds_fails_or_is_open(statements: list[Statement], expected: str, n: int) -> None:
    assert len(statements) == n
    assert verdict(statements) == expected


def test_a_share_of_commits_is_of_the_updates_or_of_the_attempts() -> None:
    wordings = {
        "commits": "share of updates that committed as a transaction",
        "commits_of_attempts": "share of committed attempts",
    }
    for share_of, words in wordings.items():
        first, *_ = share_above([share("x", (0.6, 0.7, 0.8))], threshold=0.5, share_of=share_of)
        assert first.what == f"x: {words}, {workers(THREADS[0])}"


def test_a_rise_is_that_of_each_number_of_workers_over_the_next_smaller_one_in_the_same_round() -> None:
    values = np.array([[0.3, 0.5], [0.4, 0.7], [0.45, 0.6]])
    two, four = rising([Curve("x", THREADS, values)])
    assert two.values == pytest.approx([0.1, 0.2])
    assert four.values == pytest.approx([0.05, -0.1])
    assert two.what == "accuracy: x, rise, 2 workers"
    (average,) = comparing(predicates.ShareRise, "average", share_of="accuracy", low=0.02)(
        [Curve("x", THREADS, values)]
    )
    assert average.values == pytest.approx([0.075, 0.05])


def test_what_a_round_does_to_all_cancels_out() -> None:
    (statement,) = order([SLOW, FAST], bound=0.05)
    assert statement.interval().estimate == pytest.approx(1.3)
    assert statement.interval().high == pytest.approx(1.3)
    (best,) = peak([curve("c", (2, 5, 4))], low=2, high=3)
    assert best.what == "best speedup of c, 2 workers"
    assert best.interval() == pytest.approx((2.5, 2.5, 2.5, 6))


def test_holding_is_the_equivalence_test_and_failing_is_joint() -> None:
    generator = np.random.default_rng(7)
    decided = set()
    for _ in range(200):
        a, b = np.exp(generator.normal(0, 0.03, (2, 6)))
        b *= 1 + generator.uniform(-0.25, 0.25)
        (one,) = equivalent([Curve("a", (2,), a[None]), Curve("b", (2,), b[None])], bound=0.05)
        assert one.holds() == stats.equivalent(b, a, 0.05)
        (joint, _) = joint_ratio_intervals([b, b], [a, a])
        assert one.fails(2) == (joint.high < one.low or joint.low > one.high)
        (difference,) = equally_accurate([Curve("a", (2,), a[None]), Curve("b", (2,), b[None])], low=-0.05, high=0.05)
        ninety = difference_interval(a, b, 0.90)
        assert difference.holds() == (ninety.low > -0.05 and ninety.high < 0.05)
        decided.add((one.holds(), one.fails(2)))
    assert decided == {(True, False), (False, True), (False, False)}


def test_a_check_fails_only_jointly_with_all_statements_of_its_claim() -> None:
    """3.4 standard errors below the bound are enough for a single statement, but not for one of twenty."""
    below = Statement("x", "fraction", 0.485 + 0.01 * np.array([1, -1] * 3), low=0.5)
    assert decide([below], 1) == "does not hold here"
    assert decide([below], 20) == "inconclusive"


def test_the_interval_of_a_share_or_a_difference_stays_within_its_range() -> None:
    accurate, poor = Curve("a", (2,), np.array([[1.0, 0.9, 0.2]])), Curve("b", (2,), np.array([[0.0, 0.1, 0.9]]))
    (share,) = share_above([accurate], share_of="accuracy", threshold=0.5)
    assert share.interval()[1:3] == (0.0, 1.0)
    (difference,) = equally_accurate([accurate, poor])
    assert difference.interval()[1:3] == (-1.0, 1.0)
    (ratio,) = ratio_within([accurate, Curve("b", (2,), accurate.values / 3)], low=1.0)
    assert ratio.interval()[1:3] == pytest.approx((3.0, 3.0))  # a ratio has no such limit


def test_an_average_is_over_workers_within_a_round() -> None:
    (statement,) = ratio_within([LATE, SLOW], low=1.0, high=2.0)
    assert statement.interval().estimate == pytest.approx(1.3 ** (1 / 2))  # of 2 and 4 workers


def test_a_best_of_many_is_told_with_more_care() -> None:
    values = np.exp(np.random.default_rng(1).normal(math.log(2.3), 0.1, 6))
    alone, chosen = (Statement("x", "ratio", values, 2, 3, chosen_of=n) for n in (1, 50))
    assert (alone.holds(), chosen.holds()) == (True, False)


def noisy(mean: float, n: int) -> Values:
    return mean + 0.05 * np.array([1, -1] * (n // 2))


@pytest.mark.parametrize(("mean", "sure"), [(0.53, Statement.holds), (0.47, Statement.fails)])
def test_as_many_rounds_as_it_says_decide(mean: float, sure: Callable[[Statement], bool]) -> None:
    """The noise alternates by 0.05, so its spread is known for every even number of rounds."""
    needed = rounds_needed([Statement("x", "fraction", noisy(mean, 6), low=0.5)], 1)
    assert needed is not None
    assert 6 < needed < 40
    even = needed + needed % 2
    assert sure(Statement("x", "fraction", noisy(mean, even), low=0.5))
    assert not sure(Statement("x", "fraction", noisy(mean, 6), low=0.5))


def test_a_conjunction_needs_more_rounds_than_each_of_its_statements() -> None:
    """Each statement must hold, and a chance of 80 % for each of three would be one of 51 % for all."""
    one = Statement("x", "fraction", noisy(0.53, 6), low=0.5)
    alone, three = rounds_needed([one], 1), rounds_needed([one] * 3, 3)
    assert alone is not None
    assert three is not None
    assert three > alone


def test_rounds_are_not_predicted_where_none_would_decide() -> None:
    open_for_ever = Statement("x", "fraction", noisy(0.5, 6), low=0.5)
    assert rounds_needed([open_for_ever], 1) is None
    soon = Statement("x", "fraction", noisy(0.47, 6), low=0.5)
    assert rounds_needed([open_for_ever, soon], 1) is not None  # one that fails is enough
    holds_soon = Statement("x", "fraction", noisy(0.53, 6), low=0.5)
    assert rounds_needed([open_for_ever, holds_soon], 1) is None


def test_a_best_that_another_may_surely_exceed_is_not_known() -> None:
    """The best mean is well inside, but with so few and noisy rounds another may be beyond."""
    wild = np.array([5.0, 40.0, 6.0, 45.0, 5.5, 50.0])
    curve_of = Curve("wild", (1, 2, 4), np.stack([np.ones(6), np.full(6, 25.0) * (1 + ROUNDS / 100), wild]))
    statements = peak([curve_of], low=20, high=30)
    assert decide(statements, len(statements)) == "inconclusive"


def test_a_speedup_is_against_one_worker_of_the_same_configuration() -> None:
    """A configuration that is slower by a factor, everywhere, has the same speedup and another time."""
    half = curve("half", (0.5, 1, 2))
    for metric, expected in (("speedup", "holds here"), ("time", "does not hold here")):
        statements = statements_of(predicates.Equivalent, [SLOW, half], contrast="average", metric=metric)
        assert verdict(statements) == expected
        assert statements[0].what == f"{'speedup' if metric == 'speedup' else 'speed'} of half / slow on average"
    each = statements_of(predicates.Equivalent, [SLOW, half], contrast="each")
    assert [one.what.rpartition(", ")[2] for one in each] == ["2 workers", "4 workers"], "one worker compares nothing"


def test_a_plateau_ignores_its_spikes_and_sees_every_other_number_of_workers() -> None:
    """A curve that falls and recovers has no plateau; one with a spike that is excepted has."""
    spiked = curve("c", (1, 2, 3.5, 2.1), threads=(1, 2, 3, 4))
    assert verdict(plateau([spiked], after=2)) == "does not hold here"
    assert verdict(plateau([spiked], after=2, ignoring=[3])) == "holds here"


def test_spikes_need_all_their_neighbours() -> None:
    """Without a number of workers beyond the last spike, nothing is said of the first one either."""
    assert spikes([curve("c", (1, 3, 2, 3), threads=(1, 2, 3, 4))], at=[2, 4]) == []


def test_a_ratio_beyond_all_floats_is_bounded() -> None:
    """One livelocked round among two gives an interval whose bounds no float holds."""
    wild = Statement("x", "ratio", np.array([1.0, 1e300]), high=0.5)
    interval = wild.interval(0.9999)
    assert 0 < interval.low < interval.high < math.inf
