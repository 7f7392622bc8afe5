"""The models of pairs of rows: equal to NumPy under both drivers, and as good as the planted truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.training.conftest import SEED, checked, make_spec, strategy_of
from tmflow.native import availability, registry
from tmflow.native.registry import resolve
from tmflow.runner.round import make_variant
from tmflow.spec.strategies import parameters_of
from tmflow.spec.trial import TrialSpec
from tmflow.training import native_driver, session, synthetic
from tmflow.training.data import batch_starts
from tmflow.training.models import load_network
from tmflow.training.synthetic import contexts, ratings

MODELS = ["matrix_factorisation", "skipgram"]
SIZES: dict[str, dict[str, int]] = {
    "matrix_factorisation": {"users": 40, "items": 30}, "skipgram": {"words": 60, "negatives": 3}
}  # fmt: skip
STRATEGIES = registry.source_names()


def spec_of(model: str, **factors: Any) -> TrialSpec:
    usual = {"width": 5, "batch": 4, "iterations": 200, "learning_rate": 0.5, "test_images": 5000, **SIZES[model]}
    return make_spec(model, **{**usual, **parameters_of(str(factors.get("strategy", "lock"))), **factors})


def reference(spec: TrialSpec) -> tuple[NDArray[np.float64], list[float]]:
    """The rows and the losses of one worker, in double precision."""
    data = synthetic.of_spec(spec, SEED)
    table = load_network(spec.model).initial_values(spec, SEED)[0].astype(np.float64)
    partners = data.train_images.shape[1] - 1
    losses = []
    for start in batch_starts(SEED, len(data.train_images), spec.batch, spec.iterations):
        rows, near = (part[start : start + spec.batch] for part in (data.train_images, data.train_labels))
        near = near[:, -partners:]  # of a rating, whether the item is liked
        first, others = table[rows[:, :1]], table[rows[:, 1:]]
        probability = 1 / (1 + np.exp(-(first * others).sum(axis=2)))
        losses.append(float(-np.log(np.where(near == 1, probability, 1 - probability)).sum() / spec.batch))
        error = (probability - near)[:, :, np.newaxis] * spec.learning_rate / spec.batch
        np.subtract.at(table, rows[:, 0], (error * others).sum(axis=1))
        np.subtract.at(table, rows[:, 1:], error * first)
    return table, losses


def train_natively(spec: TrialSpec) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    trial = native_driver.make_trial(spec, strategy_of(spec))
    trial.set_variables(load_network(spec.model).initial_values(spec, SEED))
    data = synthetic.of_spec(spec, SEED)
    losses = np.empty(spec.iterations)
    starts = batch_starts(SEED, len(data.train_images), spec.batch, spec.iterations)
    trial.run(data.native_set, starts, spec.batch, spec.learning_rate, losses)
    return trial.variables()[0].reshape(-1, spec.width), losses


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("batch", [1, 4, 50])
@pytest.mark.parametrize("width", [2, 5, 64])
def test_the_native_driver_equals_numpy(model: str, batch: int, width: int) -> None:
    spec = spec_of(model, driver="native", batch=batch, width=width)
    expected, losses = reference(spec)
    table, found = train_natively(spec)
    np.testing.assert_allclose(found, losses, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(table, expected, atol=1e-3)
    assert abs(table - load_network(model).initial_values(spec, SEED)[0]).max() > 0.1


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_trains_natively_to_the_same_rows(strategy: str, model: str) -> None:
    reading = "consistent" if resolve(strategy).entry.keeps_elsewhere else "plain"
    spec = spec_of(model, driver="native", strategy=strategy, reading=reading)
    if reason := availability.unsupported_reason(spec, strategy_of(spec)):
        pytest.skip(reason)
    np.testing.assert_allclose(train_natively(spec)[0], reference(spec)[0], atol=1e-3)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("factors", [{"strategy": "tf_lock"}, {"strategy": "striped", "variables": "resource"}])
def test_a_session_equals_numpy(factors: dict[str, Any], model: str) -> None:
    pytest.importorskip("tensorflow")
    spec = spec_of(model, **factors)
    variant = session.Variant(spec, strategy_of(spec), 1, SEED)
    try:
        variant.run(spec, SEED, synthetic.of_spec(spec, SEED))
        (table,) = variant._session.run(variant._session.graph.get_collection("trainable_variables"))
    finally:
        variant.close()
    np.testing.assert_allclose(table, reference(spec)[0], atol=1e-3)


def best_accuracy(spec: TrialSpec) -> float:
    """The share of the test examples that the truth itself predicts."""
    assert spec.skew is not None
    if spec.users is not None and spec.items is not None:
        liked = ratings.draw(SEED, spec.users, spec.items, spec.skew)
        right = (liked.scores > 0) == liked.labels
    else:
        assert spec.words is not None
        assert spec.negatives is not None
        near = contexts.draw(SEED, spec.words, spec.negatives, spec.skew)
        right = near.odds.argmax(axis=1) == near.labels
    return float(right[-synthetic.source_of(spec.model).TEST :].mean())


@pytest.mark.parametrize("driver", ["native", "session"])
@pytest.mark.parametrize("model", MODELS)
def test_one_worker_is_as_good_as_the_truth(model: str, driver: str) -> None:
    """The best prediction is what the truth finds more likely; more than that is luck."""
    if driver == "session":
        pytest.importorskip("tensorflow")
    rate = {"matrix_factorisation": 2.0, "skipgram": 1.0}[model]
    spec = spec_of(model, driver=driver, width=16, batch=20, iterations=10_000, learning_rate=rate, test_images=10_000)
    variant = make_variant(spec, strategy_of(spec), 1, SEED)
    try:
        measured = variant.run(spec, SEED, synthetic.of_spec(spec, SEED))
    finally:
        variant.close()
    best = best_accuracy(spec)
    assert 0.6 < best < 0.95
    assert best - 0.02 < measured.final_accuracy < best + 0.02


@pytest.mark.parametrize("strategy", ["lock", "striped", "block_stm", "nolock"])
@pytest.mark.parametrize("model", MODELS)
def test_workers_share_the_steps(model: str, strategy: str) -> None:
    spec = spec_of(
        model, driver="native", strategy=strategy, threads=3, width=16, batch=20, iterations=12_000, learning_rate=1.0
    )
    measured = checked(make_variant(spec, strategy_of(spec), 3, SEED).run(spec, SEED, synthetic.of_spec(spec, SEED)))
    assert [(row.worker, row.updates) for row in measured.counters] == [(0, 4000), (1, 4000), (2, 4000)]
    assert measured.final_accuracy > best_accuracy(spec) - 0.05


@pytest.mark.parametrize(("model", "rows"), [("matrix_factorisation", 2), ("skipgram", 5)])
def test_lost_updates_of_rows_are_counted(model: str, rows: int) -> None:
    spec = spec_of(model, driver="native", measures="full", threads=2, batch=1, strategy="spin")
    measured = checked(make_variant(spec, strategy_of(spec), 2, SEED).run(spec, SEED, synthetic.of_spec(spec, SEED)))
    assert [(row.variable, row.expected, row.lost) for row in measured.lost] == [("embeddings", 200 * rows * 5, 0)]
