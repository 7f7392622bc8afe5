"""A model whose values are not finite has no accuracy, whatever its argmax would be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tmflow import datasets
from tmflow.base.errors import Diverged
from tmflow.spec.trial import TrialSpec
from tmflow.training import native_driver
from tmflow.training.data import TrialData
from tmflow.training.models import load_network
from tmflow.training.network import CLASSES


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e38])
def test_values_or_scores_that_are_not_finite(value: float) -> None:
    """The last is a finite weight whose scores overflow."""
    spec = TrialSpec(model="mnist_softmax", dataset="digits", strategy="lock", driver="native", variables=None,
                     intra_op_threads=None, inter_op_threads=None, step_call=None, threads=1, batch=1, iterations=1,
                     learning_rate=0.5, test_images=50)  # fmt: skip
    digits = TrialData.make(datasets.load("digits"), spec.matrix, seed=0)
    values = load_network(spec.model).initial_values(spec, 0)
    assert 0 <= native_driver.accuracy(spec, values, digits) <= 1
    values[0].ravel()[np.flatnonzero(digits.test_images[0])[:40] * CLASSES] = value
    with pytest.raises(Diverged, match="not finite numbers"):
        native_driver.accuracy(spec, values, digits)
