"""Training with fused updates: the numbers of the two-step update, from the same values over the same batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tmflow import data
from tmflow.errors import BadInput
from tmflow.spec import TrialSpec
from tmflow.train.session import TrialData, Variant

STEPS = 20


def spec_of(**factors: Any) -> TrialSpec:
    deep = {"dropout_keep": 1.0} if factors.get("model") == "mnist_deep" else {}
    defaults = {
        "model": "mnist_softmax", "dataset": "mnist", "strategy": "lock", "threads": 1, "batch": 1, "iterations": STEPS,
        "learning_rate": 0.01, "test_images": 1, "inter_op_threads": 1, **deep,
    }  # fmt: skip
    return TrialSpec.model_validate({**defaults, **factors})


@pytest.fixture(scope="module")
def mnist() -> data.Dataset:
    return data.load("mnist")


def trained(mnist: data.Dataset, **factors: Any) -> tuple[Variant, list[Any]]:
    """The variant, closed, and its variables after STEPS steps."""
    spec = spec_of(**factors)
    variant = Variant(spec, spec.threads, 5)
    try:
        variant.run(spec, 5, TrialData.make(mnist, spec.matrix, 5))
        return variant, variant.values()
    finally:
        variant.close()


@pytest.mark.parametrize("variables", ["ref", "resource"])
@pytest.mark.parametrize("model", ["mnist_softmax", "mnist_deep"])
@pytest.mark.parametrize("batch", [1, 10])
@pytest.mark.parametrize("strategy", ["lock", "nolock", "spin", "striped", "block_stm"])
def test_fused_training_is_training(mnist: data.Dataset, variables: str, model: str, batch: int, strategy: str) -> None:
    factors: dict[str, Any] = {"model": model, "variables": variables, "batch": batch}
    _, expected = trained(mnist, **factors)
    variant, fused = trained(mnist, **factors, strategy=strategy, kernel="fused")
    assert variant.fused == (["W"] if model == "mnist_softmax" else ["fc1_W", "fc2_W"])
    for of_two_steps, of_one in zip(expected, fused, strict=True):
        np.testing.assert_allclose(of_one, of_two_steps, rtol=1e-4, atol=2e-6)
    moved = [np.abs(one - other).max() for one, other in zip(trained_values(mnist, **factors), fused, strict=True)]
    assert min(moved) > 1e-4
