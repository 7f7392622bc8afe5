"""The session driver trains to the same bits under each executor, also with the operations of our strategies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.training.conftest import SEED, Train, make_spec, strategy_of
from tmflow import runtime
from tmflow.runtime.executors import SCHEDULERS
from tmflow.training.data import TrialData
from tmflow.training.session import Variant

tf = pytest.importorskip("tensorflow")

WAYS: dict[str, dict[str, Any]] = {
    "TensorFlow's own": {"strategy": "tf_lock"},
    "resource variables": {"strategy": "striped", "variables": "resource"},
    "fused": {"strategy": "lock", "kernel": "fused"},
    "consistent reads": {"strategy": "leashed", "reading": "consistent"},
    "a loop": {"strategy": "lock", "gradient_cost": 3},
}


def weights(trial_data: TrialData, **factors: Any) -> list[Any]:
    spec = make_spec(**{"iterations": 20, "batch": 3, "test_images": 100, **factors})
    variant = Variant(spec, strategy_of(spec), spec.threads, SEED)
    try:
        variant.run(spec, SEED, trial_data)
        session = variant._session
        session.run(variant._settle)
        values: list[Any] = session.run(tf.nest.flatten(session.graph.get_collection("trainable_variables")))
        return values
    finally:
        variant.close()


@pytest.mark.parametrize("way", WAYS)
def test_one_worker_trains_to_the_same_bits(trial_data: TrialData, way: str) -> None:
    expected = weights(trial_data, **WAYS[way])
    for executor in runtime.built():
        before = runtime.counts(executor).steps
        values = weights(trial_data, executor=executor, **WAYS[way])
        assert runtime.counts(executor).steps >= before + 20
        for one, other in zip(values, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("executor", SCHEDULERS)
def test_workers_share_the_variables(train: Train, executor: str) -> None:
    if executor not in runtime.built():
        pytest.skip(f"it is built without {executor}")
    measured = train(threads=3, iterations=60, strategy="lock", executor=executor, measures="full")
    assert sum(row.updates for row in measured.counters) == 2 * 60  # of each variable
    assert {row.worker for row in measured.counters} == {0, 1, 2}
