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
from tmflow.claims import predicates
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


equivalent, equally_accurate = (
    partial(statements_of, kind) for kind in (predicates.Equivalent, predicates.EquallyAccurate)
)
order, ratio_within = (partial(statements_of, kind) for kind in (predicates.Order, predicates.RatioWithin))
share_above, share_below = (partial(statements_of, kind) for kind in (predicates.ShareAbove, predicates.ShareBelow))
rising_share, knee = (partial(statements_of, kind) for kind in (predicates.RisingFailures, predicates.Knee))
peak = partial(statements_of, predicates.Peak)

SLOW, FAST = curve("slow", (1, 2, 4)), curve("fast", (1.3, 2.6, 5.2))
NEAR = curve("near", (1.01, 2.02, 4.04))
NINE = share("x", (0.9, 0.9, 0.9))
LATE = curve("late", (1, 2, 5.2))  # equally slow, except for the last


@pytest.mark.parametrize(
    ("statements", "expected", "n"),
    [
        (equivalent([SLOW, NEAR], bound=0.05), "reproduced", 3),
        (equivalent([SLOW, NEAR, FAST], bound=0.05), "contradicted", 9),
        (equivalent([SLOW, LATE], bound=0.05), "contradicted", 3),
        (equivalent([SLOW, curve("noisy", (1, 2, 4), noise=0.1)], bound=0.05), "inconclusive", 3),
        (order([SLOW, FAST], bound=0.05), "reproduced", 1),
        (order([FAST, SLOW], bound=0.05), "contradicted", 1),
        (order([SLOW, NEAR], bound=0.05), "contradicted", 1),
        (order([SLOW, curve("noisy", (1.06, 2.12, 4.24), noise=0.1)], bound=0.05), "inconclusive", 1),
        (order([SLOW, FAST, NEAR], bound=0.05), "contradicted", 2),
        (ratio_within([FAST, SLOW], low=1.2, high=1.4), "reproduced", 1),
        (ratio_within([FAST, SLOW, NEAR], low=1.4, high=None), "contradicted", 2),
        (ratio_within([SLOW, FAST], low=None, high=0.8), "reproduced", 1),
        (ratio_within([curve("noisy", (1.3, 2.6, 5.2), noise=0.2), SLOW], low=1.2, high=1.4), "inconclusive", 1),
        (share_above([share("x", (0.6, 0.7, 0.8))], threshold=0.5, share_of="commits"), "reproduced", 3),
        (share_above([share("x", (0.6, 0.7, 0.4))], threshold=0.5, share_of="commits"), "contradicted", 3),
        (share_above([share("x", (0.6, 0.7, 0.5))], threshold=0.5, share_of="commits"), "inconclusive", 3),
        (share_below([share("x", (0.4, 0.3, 0.2))], threshold=0.5, share_of="commits"), "reproduced", 3),
        (share_below([share("x", (0.4, 0.3, 0.2))], threshold=0.5, share_of="commits_of_attempts"), "reproduced", 3),
        (share_below([share("x", (0.4, 0.3, 0.6))], threshold=0.5, share_of="commits"), "contradicted", 3),
        (
            rising_share([share("x", (0.1, 0.2, 0.3)), share("y", (0.2, 0.3, 0.4))], causes=["conflict"]),
            "reproduced",
            1,
        ),
        (
            rising_share([share("y", (0.2, 0.3, 0.4)), share("x", (0.1, 0.2, 0.3))], causes=["conflict"]),
            "contradicted",
            1,
        ),
        (equally_accurate([NINE, share("y", (0.905, 0.9, 0.9))], bound=0.02), "reproduced", 3),
        (equally_accurate([NINE, share("y", (0.8, 0.9, 0.9))], bound=0.02), "contradicted", 3),
        (knee([curve("c", (1, 1.9, 3.8))], at=4, efficiency=0.8, then_sublinear=False), "reproduced", 2),
        (knee([curve("c", (1, 1.9, 2.4))], at=4, efficiency=0.8, then_sublinear=False), "contradicted", 2),
        (knee([curve("c", (1, 1.9, 2.4))], at=2, efficiency=0.8, then_sublinear=True), "reproduced", 2),
        (knee([curve("c", (1, 1.9, 3.8))], at=2, efficiency=0.8, then_sublinear=True), "contradicted", 2),
        (peak([curve("c", (1, 2.5, 2))], low=2, high=3), "reproduced", 1),
        (peak([curve("c", (1, 2.5, 3.5))], low=2, high=3), "contradicted", 1),
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
        assert first.what == f"{words} of x, {workers(THREADS[0])}"


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
        assert one.holds() == stats.equivalent(a, b, 0.05)
        (joint, _) = joint_ratio_intervals([a, a], [b, b])
        assert one.fails(2) == (joint.high < one.low or joint.low > one.high)
        (difference,) = equally_accurate([Curve("a", (2,), a[None]), Curve("b", (2,), b[None])], bound=0.05)
        ninety = difference_interval(a, b, 0.90)
        assert difference.holds() == (ninety.low > -0.05 and ninety.high < 0.05)
        decided.add((one.holds(), one.fails(2)))
    assert decided == {(True, False), (False, True), (False, False)}


def test_a_check_fails_only_jointly_with_all_statements_of_its_claim() -> None:
    """3.4 standard errors below the bound are enough for a single statement, but not for one of twenty."""
    below = Statement("x", "fraction", 0.485 + 0.01 * np.array([1, -1] * 3), low=0.5)
    assert decide([below], 1) == "contradicted"
    assert decide([below], 20) == "inconclusive"


def test_an_average_is_over_workers_within_a_round() -> None:
    (statement,) = ratio_within([LATE, SLOW], low=1.0, high=2.0)
    assert statement.interval().estimate == pytest.approx(1.3 ** (1 / 3))


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
    assert not sure(Statement("x", "fraction", noisy(mean, even - 4), low=0.5))


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
