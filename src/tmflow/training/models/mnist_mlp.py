"""A model between the study's two: one hidden layer, sigmoid or ReLU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tmflow.spec.models import CLASSES, Array, Model, Variable, tenths, truncated_normal

if TYPE_CHECKING:
    from tmflow.spec.trial import TrialSpec


def variables(spec: TrialSpec) -> list[Variable]:
    assert spec.hidden is not None, "a spec of this model has it"
    return [
        Variable("fc1_W", (spec.matrix, spec.hidden), truncated_normal),
        Variable("fc1_b", (spec.hidden,), tenths),
        Variable("fc2_W", (spec.hidden, CLASSES), truncated_normal),
        Variable("fc2_b", (CLASSES,), tenths),
    ]


def logits(spec: TrialSpec, images: Any, read: Sequence[Any], training: bool) -> Any:
    import tensorflow as tf

    fc1_w, fc1_b, fc2_w, fc2_b = read
    hidden = tf.matmul(images, fc1_w) + fc1_b
    hidden = tf.nn.relu(hidden) if spec.activation == "relu" else tf.nn.sigmoid(hidden)
    return tf.matmul(hidden, fc2_w) + fc2_b


def scores(spec: TrialSpec, images: Array, values: Sequence[Array]) -> Array:
    fc1_w, fc1_b, fc2_w, fc2_b = values
    hidden = images @ fc1_w + fc1_b
    hidden = np.maximum(hidden, 0) if spec.activation == "relu" else 1 / (1 + np.exp(-hidden))
    output: Array = hidden @ fc2_w + fc2_b
    return output


MODEL = Model(
    summary="one hidden layer",
    variables=variables,
    logits=logits,
    scores=scores,
    factors={"hidden": 128, "activation": "relu"},
    step_us={"session": (400, 10), "native": (30, 7)},
)
