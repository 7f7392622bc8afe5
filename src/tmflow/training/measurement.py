"""What the drivers have in common: a variant that runs trials, and the measurements of a trial."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tmflow.spec.trial import TrialSpec
from tmflow.training.data import TrialData

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
    processes: Rows = field(default_factory=list)
    phases: Rows = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)  # facts in addition to those of the machine

    def train(
        self,
        spec: TrialSpec,
        starts: NDArray[np.int64],
        loop: Callable[[NDArray[np.int64]], float],
        accuracy: Callable[[], float],
    ) -> None:
        """Take all steps, from pause to pause. `loop` trains the batches with these starts, and returns its seconds."""
        for first, last in itertools.pairwise(pauses(spec)):
            self.loop_s += loop(starts[first:last])
            began = time.monotonic()
            self.final_accuracy = accuracy()
            self.evaluation_s += time.monotonic() - began
            if spec.curve_points:
                point = {"iteration": last, "elapsed_s": self.loop_s, "accuracy": self.final_accuracy}
                self.curve.append(point)


class Variant(Protocol):
    """The state that a driver keeps between trials of points with the same graph key (`graph_key`)."""

    def run(self, spec: TrialSpec, trial_seed: int, data: TrialData) -> Measurement:
        """Train from fresh initial values. Raises Unsupported for a trial that cannot run here."""
        ...

    def warm_up(self, data: TrialData, batch: int, workers: int) -> None:
        """Run and discard a short trial with `workers` workers, at most the number that the variant was made for."""
        ...

    def close(self) -> None: ...


# Factors that neither a graph nor the native driver's preparation depends on: trials of one variant may differ in them.
_PER_TRIAL = {"threads", "batch", "iterations", "seed", "curve_points", "test_images", "step_call"}


def graph_key(spec: TrialSpec) -> str:
    """Trials with the same key run in the same variant, and for the session driver in the same graph and session."""
    return spec.model_dump_json(exclude=_PER_TRIAL)


def warm_up_spec(spec: TrialSpec, workers: int, batch: int, steps: int, images: int) -> TrialSpec:
    """The spec of a warm-up: a short trial like `spec`, with `workers` workers, that evaluates at most `images`."""
    changes = {
        "threads": workers,
        "batch": batch,
        "iterations": max(steps, workers),
        "test_images": min(images, spec.test_images),
        "curve_points": 0,
    }
    return spec.model_copy(update=changes)


def pauses(spec: TrialSpec) -> list[int]:
    """The steps after which a trial pauses, outside the timed loop, to evaluate; from 0 to its last step."""
    return [int(bound) for bound in np.linspace(0, spec.iterations, max(spec.curve_points, 1) + 1).astype(int)]
