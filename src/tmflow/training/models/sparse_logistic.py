"""Multinomial logistic regression on examples that have a few of many features: a step updates the rows of these.

The features of synthetic examples are 1 or 0, and those of a file of the user have values (`with_values`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tmflow.spec.trial import TrialSpec
from tmflow.training.data import has_values, without_values
from tmflow.training.network import Array, Network, Variable


def variables(spec: TrialSpec) -> list[Variable]:
    return [Variable("weights", (_of(spec.features), _of(spec.width)))]


def forward(spec: TrialSpec, features: Any, read: Sequence[Any]) -> Any:
    import tensorflow as tf

    if not has_values(spec):
        return tf.reduce_sum(tf.gather(read[0], features), 1)  # the gradient of a gather is one of rows
    numbers, bits = tf.split(features, 2, axis=1)
    return tf.reduce_sum(tf.gather(read[0], numbers) * tf.bitcast(bits, tf.float32)[:, :, None], 1)


def scores(spec: TrialSpec, features: Any, values: Sequence[Array]) -> Array:
    sums = np.zeros((len(features), _of(spec.width)), np.float32)
    if not has_values(spec):
        for column in np.transpose(features):
            sums += values[0][column]
        return sums
    for column, factor in zip(*map(np.transpose, without_values(features)), strict=True):
        sums += values[0][column] * factor[:, None]
    return sums


def _of(factor: int | None) -> int:
    assert factor is not None, "a spec of this model has it"
    return factor


NETWORK = Network(
    variables=variables,
    forward=forward,
    scores=scores,
    pixels=lambda spec: _of(spec.nonzeros),
    classes=lambda spec: _of(spec.width),
)
