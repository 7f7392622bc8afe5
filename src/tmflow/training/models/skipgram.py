"""Skip-gram with negative sampling (word2vec, Mikolov et al., 2013): a word has a row as centre and one as context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tmflow.spec.trial import TrialSpec
from tmflow.training.network import Array, Network, Variable
from tmflow.training.pairs import embeddings, pair_scores, pair_scores_of_arrays


def variables(spec: TrialSpec) -> list[Variable]:
    assert spec.words is not None, "a spec of this model has it"
    assert spec.width is not None, "a spec of this model has it"
    return [Variable("embeddings", (2 * spec.words, spec.width), embeddings)]


def forward(spec: TrialSpec, examples: Any, read: Sequence[Any]) -> Any:
    return pair_scores(examples, read[0])


def loss(labels: Any, scores: Any) -> Any:
    """The sum over the words of the cross-entropy of sigmoid(score) with whether the word was near."""
    import tensorflow as tf

    return tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=scores), 1)


def scores(spec: TrialSpec, examples: Any, values: Sequence[Array]) -> Array:
    return pair_scores_of_arrays(examples, values[0])


def _candidates(spec: TrialSpec) -> int:
    assert spec.negatives is not None, "a spec of this model has it"
    return 1 + spec.negatives


NETWORK = Network(
    variables=variables,
    forward=forward,
    loss=loss,
    scores=scores,
    pixels=lambda spec: 1 + _candidates(spec),
    classes=_candidates,
)
