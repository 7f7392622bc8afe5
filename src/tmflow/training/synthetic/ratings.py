"""Synthetic ratings: whether a user likes an item.

The truth has a vector of RANK numbers for each user and each item. A user likes an item with probability
sigmoid(score), where the score is the inner product of their vectors: low-rank logistic factorisation (Johnson, 2014),
or one-bit matrix completion (Davenport et al., 2014). Rows 0 to users - 1 are the users', and the items' follow.
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
from tmflow.training.synthetic.zipf import drawer, frequencies

TRAIN, TEST = 200_000, 10_000
RANK, SCALE = 4, 3.0  # the numbers of a vector of the truth, and the standard deviation of a score
IDENTITY: dict[str, str | int | float] = {
    "ratings": "zipf", "train": TRAIN, "test": TEST, "rank": RANK, "scale": SCALE
}  # fmt: skip


class Ratings(NamedTuple):
    """The rows of the user and the item of n ratings [n, 2] int32, their true scores [n], and the labels 0 or 1 [n]."""

    rows: NDArray[np.int32]
    scores: Floats
    labels: NDArray[np.int64]


def of_spec(spec: TrialSpec, seed: int) -> RowData:
    """The ratings of a trial with this seed, made once for the trials of a round."""
    assert spec.users is not None, "a spec of this model has it"
    assert spec.items is not None, "a spec of this model has it"
    assert spec.skew is not None, "a spec of this model has it"
    return _made(seed, spec.users, spec.items, spec.skew)


@lru_cache(maxsize=8)  # a round may have trials of several, in any order
def _made(seed: int, users: int, items: int, skew: float) -> RowData:
    drawn = draw(seed, users, items, skew)
    return RowData.split(drawn.rows, one_hot(drawn.labels, 2), TRAIN, rows=users + items)


def draw(seed: int, users: int, items: int, skew: float) -> Ratings:
    """Draw all ratings, those of the tests last. A user may rate an item twice, and differently."""
    rng = np.random.default_rng([seed, 5])
    chosen, vectors = [], []
    for things in (users, items):
        ranks = drawer(rng, frequencies(things, skew))(TRAIN + TEST)
        chosen.append(rng.permutation(things)[ranks])
        vectors.append(rng.standard_normal((things, RANK), np.float32) * np.float32(math.sqrt(SCALE / math.sqrt(RANK))))
    scores = np.einsum("nr,nr->n", vectors[0][chosen[0]], vectors[1][chosen[1]])
    liked = rng.random(len(scores)) < 1 / (1 + np.exp(-scores))
    rows = np.stack([chosen[0], chosen[1] + users], axis=1).astype(np.int32)
    return Ratings(rows, scores, liked.astype(np.int64))
