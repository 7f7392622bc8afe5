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
from tmflow.spec.factors import OWN_DATA
from tmflow.spec.factors import Dataset as Name
from tmflow.spec.trial import TrialSpec

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
    Synthetic data has other numbers of pixels and classes, or examples of rows (`RowData`).
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


@dataclass(frozen=True)
class RowData(TrialData):
    """Examples of rows: `train_images` and `test_images` are int32 [n, k], the numbers of their rows.

    rows: those of the variable; has_values: they are [n, 2 k], with the values of the rows too (`with_values`).
    """

    rows: int
    has_values: bool = False

    @cached_property
    def native_set(self) -> TrainingSet:
        """The training examples and labels for the native driver."""
        if not self.has_values:
            return loader.core().TrainingSet(self.train_images, self.train_labels, self.rows)
        numbers, values = without_values(self.train_images)
        return loader.core().TrainingSet(np.ascontiguousarray(numbers), self.train_labels, self.rows, values)

    @classmethod
    def split(
        cls, examples: NDArray[np.int32], labels: Floats, train: int, *, rows: int, has_values: bool = False
    ) -> RowData:
        """The first `train` examples [n, of an example], with one-hot labels [n, classes], and the others for tests."""
        tests = labels[train:].argmax(axis=1)
        return cls(examples[:train], labels[:train], examples[train:], tests, rows, has_values)


def has_values(spec: TrialSpec) -> bool:
    """Whether an example of the spec has a value for each of its rows, and is one of `with_values`."""
    return spec.dataset == OWN_DATA and spec.nonzeros is not None


def with_values(numbers: NDArray[np.int32], values: NDArray[np.float32]) -> NDArray[np.int32]:
    """Examples [n, 2 k] of the numbers of rows [n, k] and their values [n, k], as the bits of these.

    So an example is one tensor of one type, as it is for all other data.
    """
    return np.concatenate([numbers, values.view(np.int32)], axis=1)


def without_values(examples: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The numbers and values [n, k] that `with_values` joined."""
    each = examples.shape[1] // 2
    return examples[:, :each], np.ascontiguousarray(examples[:, each:]).view(np.float32)


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
