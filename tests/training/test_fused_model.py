"""Training with fused updates: the same numbers as with the two-step update, for the same values and batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.training.conftest import SEED, Train, make_spec
from tmflow.base.errors import Unsupported
from tmflow.native import ops
from tmflow.native.optimizer import apply_all
from tmflow.native.registry import resolve
from tmflow.training.data import TrialData, batch_starts
from tmflow.training.models import load_network
from tmflow.training.network import Array

tf = pytest.importorskip("tensorflow")
tf1 = tf.compat.v1

STEPS = 20
RATES = {"mnist_softmax": 0.1, "mnist_deep": 1e-5}
FUSED_VARIABLES = {"mnist_softmax": ["W"], "mnist_deep": ["fc1_W", "fc2_W"]}


def trained(trial_data: TrialData, name: str, kind: str, batch: int, strategy: str, kernel: str) -> list[Array]:
    """The variables after STEPS steps, in each of which the update waits for all gradients."""
    model, spec = load_network(name), make_spec(model=name)
    initial = model.initial_values(spec, SEED)
    with tf.Graph().as_default(), tf1.Session() as session:
        images, labels = tf1.placeholder(tf.float32, [None, 784]), tf1.placeholder(tf.float32, [None, 10])
        variables = [tf1.Variable(value, use_resource=kind == "resource") for value in initial]
        read = [v.read_value() if kind == "resource" else tf.identity(v._ref()) for v in variables]
        logits = model.logits(spec, images, read, False)
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        gradients = tf.gradients(loss, read)
        tracker = ops.Tracker(1, [one.name for one in model.variables(spec)])
        arguments: dict[str, Any] = {
            "strategy": resolve(strategy, {"kernel": kernel}), "tracker": tracker, "worker": 0,
        }  # fmt: skip
        with tf.control_dependencies(gradients if kernel != "fused" else []):
            step = tf.group(*apply_all(variables, gradients, RATES[name], **arguments))
        assert tracker.fused == (FUSED_VARIABLES[name] if kernel == "fused" else [])
        session.run([variable.initializer for variable in variables])
        for start in batch_starts(SEED, len(trial_data.train_images), batch, STEPS):
            chunk = slice(start, start + batch)
            session.run(step, {images: trial_data.train_images[chunk], labels: trial_data.train_labels[chunk]})
        values: list[Array] = session.run(variables)
        return values


@pytest.mark.parametrize("kind", ["ref", "resource"])
@pytest.mark.parametrize("model", RATES)
@pytest.mark.parametrize("batch", [1, 10])
def test_fused_training_is_training(trial_data: TrialData, model: str, kind: str, batch: int) -> None:
    expected = trained(trial_data, model, kind, batch, "lock", "plain")
    initial = load_network(model).initial_values(make_spec(model=model), SEED)
    moved = [np.abs(new - old) for new, old in zip(expected, initial, strict=True)]
    for strategy in ("lock", "striped", "block_stm", "nolock"):
        fused = trained(trial_data, model, kind, batch, strategy, "fused")
        for of_two_steps, of_one, way in zip(expected, fused, moved, strict=True):
            assert way.max() > 0
            if batch == 1:  # no sum, so rounding is the same
                np.testing.assert_array_equal(of_one, of_two_steps)
            else:
                np.testing.assert_allclose(of_one, of_two_steps, rtol=3e-7, atol=0.001 * way.max())


@pytest.mark.parametrize("variables", ["ref", "resource"])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_session_driver_fuses_and_says_what(train: Train, variables: str, threads: int) -> None:
    plain = train(variables=variables, iterations=60)
    fused = train(variables=variables, iterations=60, threads=threads, strategy="striped", kernel="fused")
    assert plain.fused == []
    assert fused.fused == ["W"]
    assert fused.final_accuracy == pytest.approx(plain.final_accuracy, abs=0.0011 if threads == 1 else 0.15)
    updates = {(row.worker, row.variable): row.updates for row in fused.counters}
    assert updates == {(worker, name): 60 // threads for worker in range(threads) for name in ("W", "b")}


def test_deep_learns_with_fused_updates(train: Train) -> None:
    deep = {"model": "mnist_deep", "iterations": 120, "threads": 2}
    measured = train(**deep, learning_rate=0.005, test_images=500, kernel="fused", variables="resource")
    assert measured.fused == ["fc1_W", "fc2_W"]
    assert measured.final_accuracy > 0.6


def test_emulated_transactions_are_refused(train: Train) -> None:
    with pytest.raises(Unsupported, match="kernel fused does not go with provider emulated"):
        train(strategy="htm", provider="emulated", profile="intel-tsx-study", kernel="fused")
