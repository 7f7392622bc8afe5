"""The study's small model: softmax regression, zero-initialised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tmflow.spec.trial import TrialSpec
from tmflow.training.network import CLASSES, Array, Network, Variable


def variables(spec: TrialSpec) -> list[Variable]:
    return [Variable("W", (spec.matrix, CLASSES)), Variable("b", (CLASSES,))]


def output(spec: TrialSpec, images: Any, weights: Any, bias: Any, training: bool) -> Any:
    import tensorflow as tf

    return tf.matmul(images, weights) + bias


def scores(spec: TrialSpec, images: Array, values: Sequence[Array]) -> Array:
    weights, bias = values
    return images @ weights + bias


NETWORK = Network(variables=variables, layers=(output,), scores=scores)
