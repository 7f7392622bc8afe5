"""What a trial is given and what it measured, whatever its driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tmflow.data import Dataset, truncate
from tmflow.data.dataset import Floats
from tmflow.runner.runfile import Abort, Counters, CurvePoint, Lost, Reads, Retries, Staleness
from tmflow.spec import TrialSpec
from tmflow.train import batches

NOT_FINITE = "the weights, or the scores of test images, are not finite numbers"


@dataclass
class Measurement:
    """What a trial measured. `loop_s` counts the workers' loops only, not the pauses for the curve."""

    loop_s: float = 0.0
    setup_s: float = 0.0
    evaluation_s: float = 0.0
    final_accuracy: float = 0.0
    fused: list[str] = field(default_factory=list)
    curve: list[CurvePoint] = field(default_factory=list)
    counters: list[Counters] = field(default_factory=list)
    aborts: list[Abort] = field(default_factory=list)
    staleness: list[Staleness] = field(default_factory=list)
    retries: list[Retries] = field(default_factory=list)
    reads: list[Reads] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)


@dataclass(frozen=True)
class TrialData:
    """The images of a trial: training set permuted by the trial's seed, first `matrix` pixels only.

    Shapes: train_images [n, matrix], train_labels [n, 10], test_images [m, matrix] float32; test_digits [m] int64.
    """

    train_images: Floats
    train_labels: Floats
    test_images: Floats
    test_digits: Any

    @classmethod
    def make(cls, dataset: Dataset, matrix: int, seed: int) -> TrialData:
        order = batches.permutation(seed, len(dataset.train_images))
        return cls(
            train_images=np.ascontiguousarray(dataset.train_images[order, :matrix]),
            train_labels=dataset.train_labels[order],
            test_images=truncate(dataset.test_images, matrix),
            test_digits=dataset.test_labels.argmax(axis=1),
        )


class Variant(Protocol):
    """What a driver keeps from trial to trial of points that are alike (`drivers.graph_key`)."""

    def run(self, spec: TrialSpec, trial_seed: int, data: TrialData) -> Measurement:
        """Train from fresh initial values. Raises Unsupported for a trial that cannot run here."""
        ...

    def warm_up(self, data: TrialData, batch: int) -> None:
        """A short discarded trial."""
        ...

    def close(self) -> None: ...


def pauses(spec: TrialSpec) -> list[int]:
    """The steps after which a trial pauses for its accuracy, off the clock; from 0 to its last step."""
    return [int(bound) for bound in np.linspace(0, spec.iterations, max(spec.curve_points, 1) + 1).astype(int)]
