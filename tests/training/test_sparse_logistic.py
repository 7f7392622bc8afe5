"""Training with updates of rows: equal to NumPy under both drivers, and as good as the planted truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.training.conftest import SEED, checked, make_spec, strategy_of
from tmflow.base.errors import Unsupported
from tmflow.native import availability, registry
from tmflow.native.registry import resolve
from tmflow.runner.round import make_variant
from tmflow.spec.strategies import parameters_of
from tmflow.spec.trial import TrialSpec
from tmflow.training import native_driver, session, synthetic
from tmflow.training.data import batch_starts
from tmflow.training.synthetic import features

EMULATED: dict[str, Any] = {
    "strategy": "htm", **parameters_of("htm"), "provider": "emulated", "profile": "intel-tsx-study"
}  # fmt: skip
# An update of an example has 6 rows of 5 elements: all of it fits, or nothing.
IF_FITS: list[dict[str, Any]] = [
    {"strategy": "htm_if_fits", "provider": "emulated", "profile": "intel-tsx-study", "block": 5, "fits": fits}
    for fits in (30, 29)
]
STRATEGIES = registry.source_names()


def spec_of(**factors: Any) -> TrialSpec:
    usual = {"features": 300, "nonzeros": 6, "width": 5, "batch": 4, "iterations": 60, "learning_rate": 1.0}
    strategy = str(factors.get("strategy", "lock"))
    return make_spec("sparse_logistic", **{**usual, **parameters_of(strategy), **factors})


def reference(spec: TrialSpec) -> tuple[NDArray[np.float64], list[float]]:
    """The weights and the losses of one worker, in double precision."""
    assert spec.features is not None
    assert spec.width is not None
    data = synthetic.of_spec(spec, SEED)
    weights, losses = np.zeros((spec.features, spec.width)), []
    for start in batch_starts(SEED, len(data.train_images), spec.batch, spec.iterations):
        rows, labels = data.train_images[start : start + spec.batch], data.train_labels[start : start + spec.batch]
        scores = weights[rows].sum(axis=1)
        logs = scores - scores.max(1, keepdims=True)
        logs -= np.log(np.exp(logs).sum(1, keepdims=True))
        losses.append(float(-(labels * logs).sum() / spec.batch))
        error = (np.exp(logs) - labels) / spec.batch
        for row, of_row in zip(rows, error, strict=True):
            weights[row] -= spec.learning_rate * of_row
    return weights, losses


def native_weights(spec: TrialSpec) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    trial = native_driver.make_trial(spec, strategy_of(spec))
    data = synthetic.of_spec(spec, SEED)
    losses = np.empty(spec.iterations)
    starts = batch_starts(SEED, len(data.train_images), spec.batch, spec.iterations)
    trial.run(data.native_set, starts, spec.batch, spec.learning_rate, losses)
    return trial.variables()[0].reshape(spec.features, spec.width), losses


@pytest.mark.parametrize("batch", [1, 4, 50])
@pytest.mark.parametrize("width", [2, 5, 64])
def test_the_native_driver_equals_numpy(batch: int, width: int) -> None:
    spec = spec_of(driver="native", batch=batch, width=width)
    expected, losses = reference(spec)
    weights, found = native_weights(spec)
    np.testing.assert_allclose(found, losses, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(weights, expected, atol=1e-4)
    assert losses[0] == pytest.approx(np.log(width))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_trains_natively_to_the_same_weights(strategy: str) -> None:
    reading = "consistent" if resolve(strategy).entry.keeps_elsewhere else "plain"
    spec = spec_of(driver="native", strategy=strategy, reading=reading)
    if reason := availability.unsupported_reason(spec, strategy_of(spec)):
        pytest.skip(reason)
    np.testing.assert_allclose(native_weights(spec)[0], reference(spec)[0], atol=1e-4)


@pytest.mark.parametrize(
    "factors",
    [
        {"strategy": "tf_lock"},
        {"strategy": "tf_nolock", "variables": "resource"},
        {"strategy": "lock", "variables": "resource"},
        {"strategy": "striped", "block": 5},
        {"strategy": "lock", "gradient_cost": 3},
        {"strategy": "leashed", "reading": "consistent"},
        {"strategy": "local_steps", "every": 7, "reading": "consistent"},
        EMULATED,
        EMULATED | {"chunk": 5},
    ],
    ids=lambda factors: "-".join(map(str, factors.values())),
)
def test_a_session_equals_numpy(factors: dict[str, Any]) -> None:
    pytest.importorskip("tensorflow")
    spec = spec_of(**factors)
    variant = session.Variant(spec, strategy_of(spec), 1, SEED)
    try:
        variant.run(spec, SEED, synthetic.of_spec(spec, SEED))
        variant._session.run(variant._settle)
        (weights,) = variant._session.run(variant._session.graph.get_collection("trainable_variables"))
    finally:
        variant.close()
    np.testing.assert_allclose(weights, reference(spec)[0], atol=1e-4)


@pytest.mark.parametrize("driver", ["native", "session"])
def test_one_worker_is_as_good_as_the_truth(driver: str) -> None:
    """The best prediction is the class with the highest true score; more than that is luck."""
    spec = spec_of(
        driver=driver, features=200, nonzeros=8, width=3, batch=20, iterations=4000, learning_rate=0.5, test_images=5000
    )
    drawn = features.draw(SEED, 200, 8, 3, 1.0)
    best = float((drawn.scores.argmax(axis=1) == drawn.labels)[features.TRAIN :].mean())
    variant = make_variant(spec, strategy_of(spec), 1, SEED)
    try:
        measured = variant.run(spec, SEED, synthetic.of_spec(spec, SEED))
    finally:
        variant.close()
    assert 0.6 < best < 0.95
    assert best - 0.02 < measured.final_accuracy < best + 0.02


@pytest.mark.parametrize("strategy", ["lock", "striped", "block_stm", "nolock"])
def test_workers_share_the_steps(strategy: str) -> None:
    spec = spec_of(driver="native", strategy=strategy, threads=3, iterations=3000, test_images=5000)
    measured = checked(make_variant(spec, strategy_of(spec), 3, SEED).run(spec, SEED, synthetic.of_spec(spec, SEED)))
    assert [(row.worker, row.updates) for row in measured.counters] == [(0, 1000), (1, 1000), (2, 1000)]
    assert sum(row.steps for row in measured.staleness) == 3000
    assert measured.final_accuracy > 0.5


@pytest.mark.parametrize(
    "factors",
    [{"strategy": "spin"}, {"strategy": "striped", "block": 5}, EMULATED | {"chunk": 5}, *IF_FITS],
)
def test_lost_updates_and_torn_reads_of_rows_are_counted(factors: dict[str, Any]) -> None:
    spec = spec_of(driver="native", measures="full", threads=2, batch=1, iterations=500, **factors)
    measured = checked(make_variant(spec, strategy_of(spec), 2, SEED).run(spec, SEED, synthetic.of_spec(spec, SEED)))
    assert [(row.variable, row.expected, row.lost) for row in measured.lost] == [("weights", 500 * 6 * 5, 0)]
    assert [(row.variable, row.worker, row.reads) for row in measured.reads] == [
        ("weights", 0, 250),
        ("weights", 1, 250),
    ]


def test_torn_reads_of_rows_are_not_counted_beside_the_variable() -> None:
    spec = spec_of(driver="native", measures="full", threads=2, batch=1, iterations=500, strategy="atomic")
    measured = checked(make_variant(spec, strategy_of(spec), 2, SEED).run(spec, SEED, synthetic.of_spec(spec, SEED)))
    assert measured.reads == []


@pytest.mark.parametrize(
    ("factors", "reason"),
    [
        ({"kernel": "fused"}, "kernel fused is for dense layers, and sparse_logistic updates rows of its weights"),
        ({"layout": "joined"}, "sparse_logistic updates rows of its weights, and layout joined has one variable"),
        ({"measures": "full"}, "the session driver counts lost updates of whole variables, and sparse_logistic"),
        ({"strategy": "tf_lock", "variables": "resource"}, "strategy tf_lock needs variables ref for updates of rows"),
    ],
)
def test_what_cannot_update_rows_is_unsupported(factors: dict[str, Any], reason: str) -> None:
    spec = spec_of(**factors)
    with pytest.raises(Unsupported, match=reason):
        make_variant(spec, strategy_of(spec), 1, SEED)
