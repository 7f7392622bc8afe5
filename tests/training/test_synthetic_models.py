"""The models on synthetic images in TensorFlow: what a step computes, and that every executor computes the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.training.conftest import SEED, checked, make_spec, strategy_of
from tmflow import runtime
from tmflow.spec.models import MODELS
from tmflow.spec.trial import TrialSpec
from tmflow.training import synthetic
from tmflow.training.convnets import CLASSES
from tmflow.training.data import TrialData
from tmflow.training.models import load_network
from tmflow.training.session import Variant

tf = pytest.importorskip("tensorflow")

CONVNETS = [name for name, model in MODELS.items() if "image_size" in model.factors]
GRAPHS = [name for name, model in MODELS.items() if "nodes" in model.factors]
SMALLEST = {name: {"image_size": MODELS[name].smallest_image} for name in CONVNETS}


def spec_of(model: str, **factors: Any) -> TrialSpec:
    usual = {"batch": 2, "iterations": 3, "learning_rate": 0.001, "test_images": 4, "strategy": "tf_lock"}
    return make_spec(model, **{**usual, **SMALLEST.get(model, {}), **factors})


def data_of(spec: TrialSpec) -> TrialData:
    return synthetic.of_spec(spec, SEED)


def trained(model: str, **factors: Any) -> tuple[Any, list[Any]]:
    """The measurement of a trial, and the variables after it."""
    spec = spec_of(model, **factors)
    variant = Variant(spec, strategy_of(spec), spec.threads, SEED)
    try:
        measured = variant.run(spec, SEED, data_of(spec))
        session = variant._session
        return checked(measured), session.run(session.graph.get_collection("trainable_variables"))
    finally:
        variant.close()


def logits(model: str) -> Any:
    spec = spec_of(model)
    network = load_network(model)
    return np.array(network.logits(spec, data_of(spec).test_images[:3], network.initial_values(spec, SEED), False))


@pytest.mark.slow
@pytest.mark.parametrize("model", CONVNETS)
def test_the_output_is_a_score_for_each_class(model: str) -> None:
    scores = logits(model)
    assert scores.shape == (3, CLASSES)
    assert np.isfinite(scores).all()
    assert 0.001 < scores.std() < 100  # neither vanished nor exploded
    np.testing.assert_array_equal(logits(model), scores)


@pytest.mark.slow
@pytest.mark.parametrize("model", CONVNETS)
def test_only_a_step_with_both_passes_changes_the_weights(model: str) -> None:
    initial = load_network(model).initial_values(spec_of(model), SEED)
    measured, weights = trained(model, passes="forward", strategy="lock")
    assert measured.counters == []
    assert sum(row.steps for row in measured.staleness) == 3
    for one, other in zip(weights, initial, strict=True):
        np.testing.assert_array_equal(one, other)
    measured, weights = trained(model, passes="both", strategy="lock")
    assert {row.updates for row in measured.counters} == {3}
    for one, other in zip(weights, initial, strict=True):
        assert (one != other).any()


def test_a_forward_step_computes_the_output() -> None:
    """TensorFlow removes from a graph what only a control dependency needs."""
    spec = spec_of("vgg16", passes="forward")
    variant = Variant(spec, strategy_of(spec), 1, SEED)
    try:
        variant.run(spec, SEED, data_of(spec))
        images = data_of(spec).train_images[:2]
        feeds = {variant._images: images, variant._worker: 0}
        output, _ = variant._session.run(variant._step, feeds)
    finally:
        variant.close()
    network = load_network("vgg16")
    expected = network.logits(spec, images, network.initial_values(spec, SEED), False)
    np.testing.assert_allclose(output, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["alexnet", pytest.param("googlenet", marks=pytest.mark.deep)])
def test_every_executor_trains_a_network_to_the_same_bits(model: str) -> None:
    _, expected = trained(model, iterations=4)
    for executor in runtime.built():
        before = runtime.counts(executor).steps
        _, weights = trained(model, iterations=4, executor=executor)
        assert runtime.counts(executor).steps >= before + 4
        for one, other in zip(weights, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("model", GRAPHS)
def test_every_executor_gives_the_same_result_of_small_operations(model: str) -> None:
    # The gradient is the value of the variable.
    factors: dict[str, Any] = {"nodes": 200, "iterations": 5, "learning_rate": 0.1, "strategy": "lock"}
    measured, (expected,) = trained(model, **factors)
    assert expected == pytest.approx(0.9**5, rel=1e-5)
    assert {row.updates for row in measured.counters} == {5}
    for executor in runtime.built():
        _, (value,) = trained(model, executor=executor, **factors)
        assert value == expected


@pytest.mark.parametrize("model", GRAPHS)
def test_a_graph_has_as_many_nodes_as_its_factor_says(model: str) -> None:
    """The rest of a step, such as reading and updating the variable, has the same few nodes for each number."""

    def run_nodes(nodes: int) -> float:
        spec = spec_of(model, nodes=nodes, executor="std_pool", batch=1, iterations=10)
        variant = Variant(spec, strategy_of(spec), 1, SEED)
        try:
            step, data = variant._step_call(spec), data_of(spec)
            variant.run(spec, SEED, data)
            before = runtime.counts("std_pool")
            for _ in range(10):
                step(data.train_images[:1], data.train_labels[:1], 0)
            after = runtime.counts("std_pool")
        finally:
            variant.close()
        return (after.nodes - before.nodes) / (after.steps - before.steps)

    few, many = run_nodes(10), run_nodes(1000)
    assert many - few == 990
    assert 10 < few < 50
