"""The input and the measurements of a trial, the same for every driver."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tmflow.datasets import Dataset, truncate
from tmflow.datasets.dataset import Floats
from tmflow.training import batches

if TYPE_CHECKING:
    from tmflow.spec.trial import TrialSpec

Rows = list[dict[str, Any]]

NOT_FINITE = "the weights, or the scores of test images, are not finite numbers"


@dataclass
class Measurement:
    """The measurements of a trial. `loop_s` counts the workers' loops only, not the pauses for the curve.

    The rows are those of the fields with the same names in `runfile.Run`, which validates them.
    """

    loop_s: float = 0.0
    setup_s: float = 0.0
    evaluation_s: float = 0.0
    final_accuracy: float = 0.0
    fused: list[str] = field(default_factory=list)
    curve: Rows = field(default_factory=list)
    counters: Rows = field(default_factory=list)
    aborts: Rows = field(default_factory=list)
    staleness: Rows = field(default_factory=list)
    retries: Rows = field(default_factory=list)
    failed_publications: Rows = field(default_factory=list)
    taken_blocks: Rows = field(default_factory=list)
    reads: Rows = field(default_factory=list)
    lost: Rows = field(default_factory=list)

    def train(
        self,
        spec: TrialSpec,
        starts: NDArray[np.int64],
        loop: Callable[[NDArray[np.int64]], float],
        accuracy: Callable[[], float],
    ) -> None:
        """Take all steps, from pause to pause. `loop` trains the batches with these starts, and returns its seconds."""
        for first, last in itertools.pairwise(_pauses(spec)):
            self.loop_s += loop(starts[first:last])
            began = time.monotonic()
            self.final_accuracy = accuracy()
            self.evaluation_s += time.monotonic() - began
            if spec.curve_points:
                point = {"iteration": last, "elapsed_s": self.loop_s, "accuracy": self.final_accuracy}
                self.curve.append(point)


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
    """The state that a driver keeps between trials of points with the same graph key (`drivers.graph_key`)."""

    def run(self, spec: TrialSpec, trial_seed: int, data: TrialData) -> Measurement:
        """Train from fresh initial values. Raises Unsupported for a trial that cannot run here."""
        ...

    def warm_up(self, data: TrialData, batch: int, workers: int) -> None:
        """Run and discard a short trial with `workers` workers, at most the number that the variant was made for."""
        ...

    def close(self) -> None: ...


def warm_up_of(spec: TrialSpec, workers: int, batch: int, steps: int, images: int) -> TrialSpec:
    """The spec of a warm-up: a short trial like `spec`, with `workers` workers, that evaluates at most `images`."""
    return spec.model_copy(update=for_warm_up(spec, workers, batch, steps, images))


def for_warm_up(spec: TrialSpec, workers: int, batch: int, steps: int, images: int) -> dict[str, Any]:
    """The factors in which a warm-up differs from `spec`."""
    return {
        "threads": workers,
        "batch": batch,
        "iterations": max(steps, workers),
        "test_images": min(images, spec.test_images),
        "curve_points": 0,
    }


def _pauses(spec: TrialSpec) -> list[int]:
    """The steps after which a trial pauses, outside the timed loop, to evaluate; from 0 to its last step."""
    return [int(bound) for bound in np.linspace(0, spec.iterations, max(spec.curve_points, 1) + 1).astype(int)]
