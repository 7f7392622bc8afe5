"""The images for the trials of a process, read in the background before the first trial."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tmflow import datasets
from tmflow.datasets import Dataset
from tmflow.spec.factors import Dataset as Name
from tmflow.training.measurement import TrialData


class Images:
    """The images of a dataset for trials, by seed and matrix of the trial.

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
