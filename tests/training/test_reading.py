"""Factors reading, layout and measures of the session driver, on real MNIST."""

from __future__ import annotations

from typing import Any

import pytest

from tests.training.conftest import Train, make_spec, strategy_of
from tmflow.base.errors import Unsupported
from tmflow.native import availability, registry

READABLE = [
    row.name
    for row in registry.variants()
    if row.snapshot_consistency not in (None, "none") and row.runnable and row.name not in ("itm", "tle", "adaptive")
]


@pytest.fixture(scope="module")
def usual(train: Train) -> Any:
    return train(curve_points=5)


def accuracies(measured: Any) -> list[float]:
    return [point.accuracy for point in measured.curve]


@pytest.mark.parametrize("variables", ["ref", "resource"])
@pytest.mark.parametrize("layout", ["separate", "joined"])
@pytest.mark.parametrize("strategy", READABLE)
def test_one_worker_learns_the_same_however_it_reads(
    train: Train, usual: Any, strategy: str, layout: str, variables: str
) -> None:
    """Consistent reads and full measures change nothing with a single worker."""
    factors = {"strategy": strategy, "layout": layout, "variables": variables, "curve_points": 5}
    measured = train(**factors, reading="consistent", measures="full")
    assert accuracies(measured) == accuracies(usual)
    names = {"joined"} if layout == "joined" else {"W", "b"}
    assert {row.variable for row in measured.counters} == names
    assert {(row.variable, row.lost) for row in measured.lost} == {(name, 0) for name in names}
    assert {(row.reads, row.torn) for row in measured.reads} <= {(50, 0)}


@pytest.mark.parametrize("layout", ["separate", "joined"])
def test_plain_reads_that_are_counted_learn_the_same(train: Train, usual: Any, layout: str) -> None:
    measured = train(layout=layout, measures="full", curve_points=5)
    assert accuracies(measured) == accuracies(usual)
    assert {(row.reads, row.torn) for row in measured.reads} == {(50, 0)}
    assert all(row.lock_held_s for row in measured.counters)


def test_usual_measures_are_as_they_were(usual: Any) -> None:
    assert usual.reads == usual.lost == usual.retries == []
    assert all(row.lock_held_s is None for row in usual.counters)


@pytest.mark.parametrize("strategy", READABLE)
def test_four_workers_read_nothing_torn_and_lose_nothing(train: Train, strategy: str) -> None:
    if registry.require(strategy).snapshot_consistency == "block":
        pytest.skip(f"{strategy} has block consistency only")
    measured = train(strategy=strategy, threads=4, layout="joined", reading="consistent", measures="full")
    assert {row.torn for row in measured.reads} <= {0}
    assert [row.lost for row in measured.lost] == [0]
    assert sum(row.updates for row in measured.counters) == 50
    assert sum(row.reads for row in measured.reads) in (0, 50)


def test_deep_learns_joined(train: Train) -> None:
    deep = {"model": "mnist_deep", "iterations": 120, "threads": 2}
    measured = train(**deep, learning_rate=0.005, test_images=500, layout="joined", reading="consistent")
    assert measured.final_accuracy > 0.6


@pytest.mark.parametrize(
    ("factors", "says"),
    [
        ({"strategy": "tf_lock", "reading": "consistent"}, "strategy tf_lock has no consistent read"),
        ({"strategy": "nolock", "reading": "consistent"}, "strategy nolock has no consistent read"),
        ({"strategy": "leashed"}, "leashed keeps the variables elsewhere"),
        ({"kernel": "fused", "layout": "joined"}, "kernel fused updates each dense layer"),
        (
            {"strategy": "htm", "provider": "emulated", "profile": "intel-tsx-study", "kernel": "fused"},
            "kernel fused does not go with provider emulated",
        ),
    ],
)
def test_what_cannot_be_done_is_said(train: Train, factors: dict[str, Any], says: str) -> None:
    spec = make_spec(**factors)
    assert says in str(availability.unsupported_reason(spec, strategy_of(spec)))
    with pytest.raises(Unsupported, match=says):
        train(**factors)


def test_stock_updates_are_not_measured(train: Train) -> None:
    measured = train(strategy="tf_lock", layout="joined", measures="full")
    assert measured.reads == measured.lost == measured.retries == measured.counters == []
