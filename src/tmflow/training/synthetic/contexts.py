"""Synthetic text as word2vec sees it: a word, a word near it, and other words that were drawn at random.

Each word belongs to one of TOPICS topics. The word near a centre is of the centre's topic with probability TOGETHER, by
the frequencies within the topic; otherwise it is any word, by the frequencies of all. The negatives are drawn with the
frequencies to the power of POWER, as in word2vec (Mikolov et al., 2013), and differ from that word and each other. The
label of an example is which of these words was near the centre.

Row w is that of word w as a centre, and row words + w as a context. An example has the row of its centre first, and
then those of the other words by number, so their order tells nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tmflow.datasets.dataset import Floats, one_hot
from tmflow.spec.trial import TrialSpec
from tmflow.training.data import RowData
from tmflow.training.synthetic.zipf import Draw, draw_again_what_a_row_repeats, drawer, frequencies

TRAIN, TEST = 200_000, 10_000
TOPICS, TOGETHER, POWER = 8, 0.8, 0.75
IDENTITY: dict[str, str | int | float] = {
    "contexts": "zipf", "train": TRAIN, "test": TEST, "topics": TOPICS, "together": TOGETHER, "power": POWER
}  # fmt: skip


class Contexts(NamedTuple):
    """Of n examples: the rows [n, 2 + negatives] int32, the place of the word that was near the centre [n], and by the
    truth, up to a factor for each example, the odds that a word was near [n, 1 + negatives]."""

    rows: NDArray[np.int32]
    labels: NDArray[np.int64]
    odds: Floats


def of_spec(spec: TrialSpec, seed: int) -> RowData:
    """The examples of a trial with this seed, made once for the trials of a round."""
    assert spec.words is not None, "a spec of this model has it"
    assert spec.negatives is not None, "a spec of this model has it"
    assert spec.skew is not None, "a spec of this model has it"
    return _made(seed, spec.words, spec.negatives, spec.skew)


@lru_cache(maxsize=8)  # a round may have trials of several, in any order
def _made(seed: int, words: int, negatives: int, skew: float) -> RowData:
    drawn = draw(seed, words, negatives, skew)
    return RowData.split(drawn.rows, one_hot(drawn.labels, 1 + negatives), TRAIN, rows=2 * words)


def draw(seed: int, words: int, negatives: int, skew: float) -> Contexts:
    """Draw all examples, those of the tests last. Words are ranks until the end: rank r is of topic r % TOPICS."""
    rng = np.random.default_rng([seed, 6])
    frequency = frequencies(words, skew)
    draw_any, draw_negative = drawer(rng, frequency), drawer(rng, frequency**POWER)
    centres, near = draw_any(TRAIN + TEST), draw_any(TRAIN + TEST)
    together = rng.random(len(near)) < TOGETHER
    for topic in range(TOPICS):
        of_topic = together & (centres % TOPICS == topic)
        near[of_topic] = topic + TOPICS * drawer(rng, frequency[topic::TOPICS])(int(of_topic.sum()))

    others = with_negatives(near, draw_negative, negatives)
    rows, labels, others = in_order(centres, others, rng.permutation(words))
    return Contexts(rows, labels, _odds(frequency, centres, others))


def with_negatives(near: NDArray[np.int64], draw_negative: Draw, negatives: int) -> NDArray[np.int64]:
    """The words that were near [n] and, behind each, words drawn at random [n, 1 + negatives]; all of a row differ."""
    others = np.concatenate([near[:, np.newaxis], draw_negative((len(near), negatives))], axis=1)
    draw_again_what_a_row_repeats(others, draw_negative)  # never the first of a row
    return others


def in_order(
    centres: NDArray[np.int64], others: NDArray[np.int64], number: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """The rows of examples, the place of the word that was near, and the other words in the order of their rows.

    centres [n], others [n, m]: words, the one that was near first. number: that of each word [words].
    """
    order = np.argsort(number[others], axis=1)
    ordered = np.take_along_axis(others, order, axis=1)
    rows = np.concatenate([number[centres][:, np.newaxis], number[ordered] + len(number)], axis=1)
    return rows.astype(np.int32), (order == 0).argmax(axis=1), ordered


def _odds(frequency: NDArray[np.float64], centres: NDArray[np.int64], others: NDArray[np.int64]) -> Floats:
    """How much more likely each word is near its centre than among the negatives, up to a factor for each centre."""
    of_topic = np.array([frequency[topic::TOPICS].sum() for topic in range(TOPICS)])
    same = others % TOPICS == centres[:, np.newaxis] % TOPICS
    near = (1 - TOGETHER) / frequency.sum() + same * TOGETHER / of_topic[others % TOPICS]
    odds: Floats = (near * frequency[others] ** (1 - POWER)).astype(np.float32)
    return odds
