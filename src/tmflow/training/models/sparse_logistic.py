"""Multinomial logistic regression on examples that have a few of many features: a step updates the rows of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tmflow.spec.trial import TrialSpec
from tmflow.training.network import Array, Network, Variable


def variables(spec: TrialSpec) -> list[Variable]:
    return [Variable("weights", (_of(spec.features), _of(spec.width)))]


def forward(spec: TrialSpec, features: Any, read: Sequence[Any]) -> Any:
    import tensorflow as tf

    return tf.reduce_sum(tf.gather(read[0], features), 1)  # the gradient of a gather is one of rows


def scores(spec: TrialSpec, features: Any, values: Sequence[Array]) -> Array:
    sums = np.zeros((len(features), _of(spec.width)), np.float32)
    for column in np.transpose(features):
        sums += values[0][column]
    return sums


def _of(factor: int | None) -> int:
    assert factor is not None, "a spec of this model has it"
    return factor


NETWORK = Network(
    variables=variables,
    forward=forward,
    scores=scores,
    takes_features=True,
    pixels=lambda spec: _of(spec.nonzeros),
    classes=lambda spec: _of(spec.width),
)
