"""The study's small model: softmax regression, zero-initialised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tmflow.spec.models import CLASSES, Array, Model, Variable

if TYPE_CHECKING:
    from tmflow.spec.trial import TrialSpec


def variables(spec: TrialSpec) -> list[Variable]:
    return [Variable("W", (spec.matrix, CLASSES)), Variable("b", (CLASSES,))]


def logits(spec: TrialSpec, images: Any, read: Sequence[Any], training: bool) -> Any:
    import tensorflow as tf

    weights, bias = read
    return tf.matmul(images, weights) + bias


def scores(spec: TrialSpec, images: Array, values: Sequence[Array]) -> Array:
    weights, bias = values
    return images @ weights + bias


MODEL = Model(
    summary="softmax regression",
    variables=variables,
    logits=logits,
    scores=scores,
    step_us={"session": (250, 1.7), "native": (9, 1.3)},
)
