"""Synthetic data, a function of the seed: images without meaning, and examples of features with a planted truth.

Images are measured for the time of a step only. Examples that have a few of many features are what recommenders and
text classifiers train on, and a model can learn from these. Feature frequencies follow Zipf's law: the feature of rank
r is drawn with a probability proportional to r ** -skew, and the ranks are in random order, because hashing spreads
frequent features, too. The truth has a weight for each feature and class. An example's scores are the sums of the
weights of its features, and its label is drawn from the softmax of its scores, so no model can predict all labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tmflow.base.canonical_json import sha256_of
from tmflow.datasets.dataset import Floats, one_hot
from tmflow.native import loader
from tmflow.spec.trial import TrialSpec
from tmflow.training.data import TrialData
from tmflow.training.models import load_network

if TYPE_CHECKING:
    from tmflow.native._core import TrainingSet

# Images: their number, and the standard deviation of a pixel, which is that of convnet-benchmarks.
TRAIN_IMAGES, TEST_IMAGES, DEVIATION = 128, 32, 0.1
IMAGES_SHA256 = sha256_of({"train": TRAIN_IMAGES, "test": TEST_IMAGES, "deviation": DEVIATION})

# Examples of features: their number, and the standard deviation of a score.
TRAIN_EXAMPLES, TEST_EXAMPLES, SCALE = 20_000, 5_000, 3.0
EXAMPLES_SHA256 = sha256_of({"features": "zipf", "train": TRAIN_EXAMPLES, "test": TEST_EXAMPLES, "scale": SCALE})


@dataclass(frozen=True)
class FeatureData(TrialData):
    """Examples of features: `train_images` and `test_images` are int32 [n, nonzeros], the numbers of their features."""

    features: int

    @cached_property
    def native_set(self) -> TrainingSet:
        """The training examples and labels for the native driver."""
        return loader.core().TrainingSet(self.train_images, self.train_labels, self.features)


class Examples(NamedTuple):
    """The features of n examples [n, nonzeros] int32, their scores by the truth [n, width], and their labels [n]."""

    features: NDArray[np.int32]
    scores: Floats
    labels: NDArray[np.int64]


def of_spec(spec: TrialSpec, seed: int) -> TrialData:
    """The synthetic data of a trial with this seed, made once for the trials of a round."""
    if spec.features is None:
        network = load_network(spec.model)
        return images(seed, network.pixels(spec), network.classes(spec))
    assert spec.nonzeros is not None, "a spec of this model has it"
    assert spec.width is not None, "a spec of this model has it"
    assert spec.skew is not None, "a spec of this model has it"
    return examples(seed, spec.features, spec.nonzeros, spec.width, spec.skew)


def sha256(spec: TrialSpec) -> str:
    """The hash that identifies what makes the synthetic data of a spec."""
    return IMAGES_SHA256 if spec.features is None else EXAMPLES_SHA256


def tests(spec: TrialSpec) -> int:
    """The number of test examples, or test images, in the synthetic data of a spec."""
    return TEST_IMAGES if spec.features is None else TEST_EXAMPLES


@lru_cache(maxsize=2)  # a round needs the same images for several trials
def images(seed: int, pixels: int, classes: int) -> TrialData:
    """Images of normally distributed pixels with random labels: a function of the seed and of these numbers."""
    rng = np.random.default_rng([seed, 3])
    pixels_of_all = rng.standard_normal((TRAIN_IMAGES + TEST_IMAGES, pixels), np.float32) * np.float32(DEVIATION)
    labels = rng.integers(0, classes, len(pixels_of_all))
    hot = one_hot(labels[:TRAIN_IMAGES], classes)
    return TrialData(pixels_of_all[:TRAIN_IMAGES], hot, pixels_of_all[TRAIN_IMAGES:], labels[TRAIN_IMAGES:])


@lru_cache(maxsize=8)  # a round may have trials of several, in any order
def examples(seed: int, features: int, nonzeros: int, width: int, skew: float) -> FeatureData:
    """Examples of features with a planted truth, for training and for tests; the arguments are factors of a spec."""
    drawn = draw_examples(seed, features, nonzeros, width, skew)
    train, test = slice(TRAIN_EXAMPLES), slice(TRAIN_EXAMPLES, None)
    hot = one_hot(drawn.labels[train], width)
    return FeatureData(drawn.features[train], hot, drawn.features[test], drawn.labels[test], features)


def draw_examples(seed: int, features: int, nonzeros: int, width: int, skew: float) -> Examples:
    """Draw all examples, those of the tests last. An example draws again what it has already."""
    rng = np.random.default_rng([seed, 4])
    frequency = np.cumsum(np.arange(1, features + 1, dtype=np.float64) ** -skew)
    frequency /= frequency[-1]

    def draw(shape: int | tuple[int, int]) -> NDArray[np.int64]:
        return np.searchsorted(frequency, rng.random(shape), side="right")

    ranks = draw((TRAIN_EXAMPLES + TEST_EXAMPLES, nonzeros))
    rows = np.arange(len(ranks))
    while len(rows):
        of_rows = ranks[rows]
        again = _repeated(of_rows)
        of_rows[again] = draw(int(again.sum()))
        ranks[rows] = of_rows
        rows = rows[again.any(axis=1)]
    drawn = rng.permutation(features).astype(np.int32)[ranks]

    used, place = np.unique(drawn, return_inverse=True)
    truth = rng.standard_normal((len(used), width), np.float32) * np.float32(SCALE / math.sqrt(nonzeros))
    scores = np.zeros((len(drawn), width), np.float32)
    for column in place.reshape(drawn.shape).T:
        scores += truth[column]
    labels = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)  # a sample of the softmax
    return Examples(drawn, scores, labels)


def _repeated(ranks: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each number is one that its row has before it, too."""
    order = np.argsort(ranks, axis=1, kind="stable")
    ordered = np.take_along_axis(ranks, order, axis=1)
    repeated = np.zeros(ranks.shape, np.bool_)
    np.put_along_axis(repeated, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    return repeated
