"""Synthetic images: normally distributed pixels with random labels, from which nothing can be learnt."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tmflow.datasets.dataset import one_hot
from tmflow.spec.trial import TrialSpec
from tmflow.training.data import TrialData
from tmflow.training.models import load_network

TRAIN, TEST, DEVIATION = 128, 32, 0.1  # the standard deviation of a pixel is that of convnet-benchmarks
IDENTITY: dict[str, str | int | float] = {"train": TRAIN, "test": TEST, "deviation": DEVIATION}


def of_spec(spec: TrialSpec, seed: int) -> TrialData:
    """The images of a trial with this seed, made once for the trials of a round."""
    network = load_network(spec.model)
    return draw(seed, network.pixels(spec), network.classes(spec))


@lru_cache(maxsize=2)  # a round needs the same images for several trials
def draw(seed: int, pixels: int, classes: int) -> TrialData:
    """Draw images of normally distributed pixels with random labels."""
    rng = np.random.default_rng([seed, 3])
    pixels_of_all = rng.standard_normal((TRAIN + TEST, pixels), np.float32) * np.float32(DEVIATION)
    labels = rng.integers(0, classes, len(pixels_of_all))
    hot = one_hot(labels[:TRAIN], classes)
    return TrialData(pixels_of_all[:TRAIN], hot, pixels_of_all[TRAIN:], labels[TRAIN:])
