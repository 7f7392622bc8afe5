"""The study's small model: softmax regression, zero-initialised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tmflow.spec.trial import TrialSpec
from tmflow.training.network import CLASSES, Array, Network, Variable


def variables(spec: TrialSpec) -> list[Variable]:
    return [Variable("W", (spec.matrix, CLASSES)), Variable("b", (CLASSES,))]


def logits(spec: TrialSpec, images: Any, read: Sequence[Any], training: bool) -> Any:
    import tensorflow as tf

    weights, bias = read
    return tf.matmul(images, weights) + bias


def scores(spec: TrialSpec, images: Array, values: Sequence[Array]) -> Array:
    weights, bias = values
    return images @ weights + bias


NETWORK = Network(variables=variables, logits=logits, scores=scores)
