"""The data of a trial: its images, read in the background, and the order in which its workers take them.

The order depends on (seed, batch), not on the strategy, threads or driver. The training set is permuted once per trial
seed, so that every batch is a contiguous slice and needs no copy inside the timed loop. Epoch e cuts the permuted set
into batches from a random offset and visits them in random order. Step k of worker w out of n takes batch w + k * n of
that sequence: all workers together see the same data as one worker.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tmflow import datasets
from tmflow.base.errors import Unsupported
from tmflow.datasets import Dataset, truncate
from tmflow.datasets.dataset import Floats
from tmflow.native import loader
from tmflow.spec.factors import Dataset as Name

if TYPE_CHECKING:
    from tmflow.native._core import TrainingSet


def permutation(seed: int, images: int) -> NDArray[np.int64]:
    """The order of the training images of a trial: shape [images]."""
    return np.random.default_rng([seed, 0]).permutation(images)


def batch_starts(seed: int, images: int, batch: int, steps: int) -> NDArray[np.int64]:
    """First image of each of the trial's `steps` batches in the permuted set: shape [steps].

    Raises Unsupported if the training set is smaller than a batch.
    """
    if batch > images:
        raise Unsupported(f"a batch of {batch} does not fit a training set of {images} images")
    per_epoch = max((images - batch) // batch, 1)
    rng = np.random.default_rng([seed, 1])
    epochs = []
    for _ in range(-(-steps // per_epoch)):
        offset = rng.integers(0, min(batch, images - batch + 1))
        epochs.append(offset + batch * rng.permutation(per_epoch))
    return np.concatenate(epochs)[:steps]


@dataclass(frozen=True)
class TrialData:
    """The images of a trial: training set permuted by the trial's seed, first `matrix` pixels only.

    Shapes: train_images [n, matrix], train_labels [n, 10], test_images [m, matrix] float32; test_digits [m] int64.
    Synthetic data has other numbers of pixels and classes, or examples of features (`synthetic.FeatureData`).
    """

    train_images: Any
    train_labels: Floats
    test_images: Any
    test_digits: Any

    @cached_property
    def native_set(self) -> TrainingSet:
        """The training images and labels for the native driver, which lists their pixels once for all trials."""
        return loader.core().TrainingSet(self.train_images, self.train_labels)

    @classmethod
    def make(cls, dataset: Dataset, matrix: int, seed: int) -> TrialData:
        order = permutation(seed, len(dataset.train_images))
        return cls(
            train_images=np.ascontiguousarray(dataset.train_images[order, :matrix]),
            train_labels=dataset.train_labels[order],
            test_images=truncate(dataset.test_images, matrix),
            test_digits=dataset.test_labels.argmax(axis=1),
        )


class Images:
    """The images of a dataset for the trials of a process, by seed and matrix of the trial.

    A thread reads the dataset and makes the first images, in less time than the import of TensorFlow, which runs at the
    same time on another core. `of` waits for this thread, so no trial starts before it has ended.
    """

    def __init__(self, name: Name, seed: int, matrix: int) -> None:
        self.dataset: Dataset | None = None  # set by the first call of `of`
        self._first = (seed, matrix)
        self._made: dict[tuple[int, int], TrialData] = {}
        reader = ThreadPoolExecutor(1)
        self._reading = reader.submit(self._read, name)
        reader.shutdown(wait=False)

    def _read(self, name: Name) -> tuple[Dataset, TrialData]:
        dataset = datasets.load(name)
        seed, matrix = self._first
        return dataset, TrialData.make(dataset, matrix, seed)

    def of(self, seed: int, matrix: int) -> TrialData:
        """The images of a trial, made once. Raises BadInput as `datasets.load` does."""
        if self.dataset is None:
            self.dataset, self._made[self._first] = self._reading.result()
        if (seed, matrix) not in self._made:
            self._made[seed, matrix] = TrialData.make(self.dataset, matrix, seed)
        return self._made[seed, matrix]
