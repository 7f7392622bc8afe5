"""Logistic matrix factorisation: a user likes an item if the inner product of their rows is positive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tmflow.spec.trial import TrialSpec
from tmflow.training.network import Array, Network, Variable
from tmflow.training.pairs import embeddings, pair_scores, pair_scores_of_arrays


def variables(spec: TrialSpec) -> list[Variable]:
    assert spec.users is not None, "a spec of this model has it"
    assert spec.items is not None, "a spec of this model has it"
    assert spec.width is not None, "a spec of this model has it"
    return [Variable("embeddings", (spec.users + spec.items, spec.width), embeddings)]


def forward(spec: TrialSpec, ratings: Any, read: Sequence[Any]) -> Any:
    import tensorflow as tf

    liked = pair_scores(ratings, read[0])
    return tf.concat([tf.zeros_like(liked), liked], 1)  # softmax of (0, score) is sigmoid(score)


def scores(spec: TrialSpec, ratings: Any, values: Sequence[Array]) -> Array:
    liked = pair_scores_of_arrays(ratings, values[0])
    return np.concatenate([np.zeros_like(liked), liked], axis=1)


NETWORK = Network(
    variables=variables,
    forward=forward,
    scores=scores,
    pixels=lambda spec: 2,
    classes=lambda spec: 2,
)
