"""A model between the study's two: one hidden layer, sigmoid or ReLU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tmflow.spec.trial import TrialSpec
from tmflow.training.network import CLASSES, Array, Network, Variable, tenths, truncated_normal


def variables(spec: TrialSpec) -> list[Variable]:
    assert spec.hidden is not None, "a spec of this model has it"
    return [
        Variable("fc1_W", (spec.matrix, spec.hidden), truncated_normal),
        Variable("fc1_b", (spec.hidden,), tenths),
        Variable("fc2_W", (spec.hidden, CLASSES), truncated_normal),
        Variable("fc2_b", (CLASSES,), tenths),
    ]


def hidden(spec: TrialSpec, images: Any, weights: Any, bias: Any, training: bool) -> Any:
    import tensorflow as tf

    sums = tf.matmul(images, weights) + bias
    return tf.nn.relu(sums) if spec.activation == "relu" else tf.nn.sigmoid(sums)


def output(spec: TrialSpec, hidden: Any, weights: Any, bias: Any, training: bool) -> Any:
    import tensorflow as tf

    return tf.matmul(hidden, weights) + bias


def scores(spec: TrialSpec, images: Array, values: Sequence[Array]) -> Array:
    fc1_w, fc1_b, fc2_w, fc2_b = values
    hidden = images @ fc1_w + fc1_b
    hidden = np.maximum(hidden, 0) if spec.activation == "relu" else 1 / (1 + np.exp(-hidden))
    output: Array = hidden @ fc2_w + fc2_b
    return output


NETWORK = Network(variables=variables, layers=(hidden, output), scores=scores)
