"""What the trials of a process train on, read while the process does what else comes before its first trial."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tmflow import datasets
from tmflow.datasets import Dataset
from tmflow.spec.factors import Dataset as Name
from tmflow.training.measurement import TrialData


class Images:
    """The images of a dataset for trials, by the trial's seed and its matrix.

    The dataset is read, and the first images are made, in a thread that ends with that: it needs another core, and less
    long, than importing TensorFlow does. Whoever asks for images waits for it, so no trial begins before it has ended.
    """

    def __init__(self, name: Name, seed: int, matrix: int) -> None:
        self.dataset: Dataset | None = None  # once images were asked for
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
        """Those of a trial, made once. Raises BadInput as `data.load` does."""
        if self.dataset is None:
            self.dataset, self._made[self._first] = self._reading.result()
        if (seed, matrix) not in self._made:
            self._made[seed, matrix] = TrialData.make(self.dataset, matrix, seed)
        return self._made[seed, matrix]
