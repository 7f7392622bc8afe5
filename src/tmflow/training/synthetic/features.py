"""Synthetic examples that have some of many features, and a class that follows from these.

The ranks of the features are in random order, because hashing spreads frequent features, too. The truth has a weight
for each feature and class. An example's scores are the sums of the weights of its features, and its label is drawn from
the softmax of its scores, so no model can predict all labels.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tmflow.datasets.dataset import Floats, one_hot
from tmflow.spec.trial import TrialSpec
from tmflow.training.data import RowData
from tmflow.training.synthetic.zipf import draw_again_what_a_row_repeats, drawer, frequencies

TRAIN, TEST, SCALE = 20_000, 5_000, 3.0  # examples, and the standard deviation of a score
IDENTITY: dict[str, str | int | float] = {"features": "zipf", "train": TRAIN, "test": TEST, "scale": SCALE}


class Examples(NamedTuple):
    """The features of n examples [n, nonzeros] int32, their scores by the truth [n, width], and their labels [n]."""

    features: NDArray[np.int32]
    scores: Floats
    labels: NDArray[np.int64]


def of_spec(spec: TrialSpec, seed: int) -> RowData:
    """The examples of a trial with this seed, made once for the trials of a round."""
    assert spec.features is not None, "a spec of this model has it"
    assert spec.nonzeros is not None, "a spec of this model has it"
    assert spec.width is not None, "a spec of this model has it"
    assert spec.skew is not None, "a spec of this model has it"
    return _made(seed, spec.features, spec.nonzeros, spec.width, spec.skew)


@lru_cache(maxsize=8)  # a round may have trials of several, in any order
def _made(seed: int, features: int, nonzeros: int, width: int, skew: float) -> RowData:
    drawn = draw(seed, features, nonzeros, width, skew)
    return RowData.split(drawn.features, one_hot(drawn.labels, width), TRAIN, rows=features)


def draw(seed: int, features: int, nonzeros: int, width: int, skew: float) -> Examples:
    """Draw all examples, those of the tests last. If an example has a feature already, it draws another one."""
    rng = np.random.default_rng([seed, 4])
    draw_ranks = drawer(rng, frequencies(features, skew))
    ranks = draw_ranks((TRAIN + TEST, nonzeros))
    draw_again_what_a_row_repeats(ranks, draw_ranks)
    drawn = rng.permutation(features).astype(np.int32)[ranks]

    used, place = np.unique(drawn, return_inverse=True)
    truth = rng.standard_normal((len(used), width), np.float32) * np.float32(SCALE / math.sqrt(nonzeros))
    scores = np.zeros((len(drawn), width), np.float32)
    for column in place.reshape(drawn.shape).T:
        scores += truth[column]
    labels = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)  # a sample of the softmax
    return Examples(drawn, scores, labels)
