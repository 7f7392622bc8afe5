"""`gradient_cost`: the backward pass runs that many times, and training computes the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.training.conftest import SEED, Train, make_spec, strategy_of
from tmflow.training.data import TrialData
from tmflow.training.session import Variant

tf = pytest.importorskip("tensorflow")

COSTS = (1, 2, 9)
HEAVY = {"model": "mnist_deep", "learning_rate": 0.001, "iterations": 2}
OF_WEIGHTS = ("_grad/Conv2DBackpropFilter", "_grad/MatMul_1")  # by which TensorFlow names these operations
WAYS: dict[str, dict[str, Any]] = {
    "lock": {"strategy": "lock"},
    "TensorFlow's own": {"strategy": "tf_lock"},
    "resource variables": {"strategy": "lock", "variables": "resource"},
    "fused": {"strategy": "lock", "kernel": "fused"},
    "consistent reads": {"strategy": "leashed", "reading": "consistent"},
    "joined": {"strategy": "lock", "layout": "joined"},
}


def trained(trial_data: TrialData, step: Callable[[Variant], Any] | None = None, **factors: Any) -> Any:
    """The variables after a trial; with `step`, what it returns for the variant before it is closed."""
    spec = make_spec(**{"iterations": 20, "batch": 3, "test_images": 100, **factors})
    variant = Variant(spec, strategy_of(spec), spec.threads, SEED)
    try:
        variant.run(spec, SEED, trial_data)
        if step is not None:
            return step(variant)
        session = variant._session
        session.run(variant._settle)
        return session.run(tf.nest.flatten(session.graph.get_collection("trainable_variables")))
    finally:
        variant.close()


@pytest.mark.parametrize("way", WAYS)
def test_one_worker_trains_to_the_same_bits(trial_data: TrialData, way: str) -> None:
    once, thrice = (trained(trial_data, gradient_cost=cost, **WAYS[way]) for cost in (1, 3))
    for one, other in zip(once, thrice, strict=True):
        assert np.abs(one).max() > 0
        np.testing.assert_array_equal(one, other)


def executed(variant: Variant) -> Counter[str]:
    """How often one step of `mnist_deep` executes the gradients of the four layers' weights, by TensorFlow's trace."""
    session = variant._session
    metadata = tf.compat.v1.RunMetadata()
    feeds = {variant._images: np.ones((1, 784)), variant._labels: np.eye(10)[:1], variant._worker: 0}
    options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.SOFTWARE_TRACE)
    session.run(variant._step, feeds, options=options, run_metadata=metadata)
    names = [node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats]
    return Counter(name[name.index("gradients/") :] for name in names if name.endswith(OF_WEIGHTS))


def test_every_pass_is_executed(trial_data: TrialData) -> None:
    """TensorFlow's optimiser neither merges the passes nor removes those whose gradients nobody applies."""
    counts = [trained(trial_data, executed, gradient_cost=cost, **HEAVY) for cost in COSTS]
    assert [set(count.values()) for count in counts] == [{cost} for cost in COSTS]
    assert {len(count) for count in counts} == {4}


def test_several_workers_count_every_update_once(train: Train) -> None:
    measured = train(threads=3, iterations=50, gradient_cost=4)
    assert sum(row.updates for row in measured.counters if row.variable == "W") == 50
