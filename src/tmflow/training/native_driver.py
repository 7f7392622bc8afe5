"""The native driver: C++ threads train the variables, without TensorFlow and without the interpreter lock.

The order of the data, the initial values, the split over the workers and the pauses are those of the session driver.
"""

from __future__ import annotations

from tmflow.base.errors import Unsupported
from tmflow.native import availability
from tmflow.native.parameters import mechanism_of, native_parameters
from tmflow.native.possible import why_not
from tmflow.spec.strategies import LOCKS_UNTOLD
from tmflow.spec.trial import TrialSpec
from tmflow.training.measurement import Measurement, TrialData, warm_up_of
from tmflow.training.models import MODELS
from tmflow.training.native_trial import WARM_UP_IMAGES, WARM_UP_STEPS, Asked, measure

_PER_TRIAL = {"threads", "batch", "iterations", "seed", "curve_points", "test_images"}


class Variant:
    """A model and a strategy; every trial has variables, threads and counters of its own."""

    def __init__(self, spec: TrialSpec) -> None:
        self._spec = spec

    def run(self, spec: TrialSpec, trial_seed: int, data: TrialData) -> Measurement:
        """Train from fresh initial values with `spec`, which differs from the variant's only per trial.

        Raises Unsupported if it cannot run here, or if this process is, after it, not as the strategy needs it; and
        Diverged if a variable or a score of a test image is not finite where the accuracy is asked for.
        """
        if reason := why_not(spec):
            raise Unsupported(reason)
        measured = measure(spec, asked(spec), trial_seed, data)
        availability.require(spec.strategy, spec.parameters())
        return measured

    def warm_up(self, data: TrialData, batch: int, workers: int) -> None:
        """A short discarded trial: it wakes the processors and brings the data into their caches."""
        self.run(warm_up_of(self._spec, workers, batch, WARM_UP_STEPS, WARM_UP_IMAGES), self._spec.seed, data)

    def close(self) -> None:
        """Nothing outlives a trial."""


def asked(spec: TrialSpec) -> Asked:
    """What the spec asks of the native library. Raises BadInput as `native_parameters` does."""
    given = spec.parameters()
    matrices = [its.name for its in MODELS[spec.model].variables(spec) if len(its.shape) == 2]  # dense layers all
    return Asked(
        parameters=native_parameters(spec.strategy, given),
        mechanism=mechanism_of(spec.strategy, given),
        fused=matrices if spec.kernel == "fused" else [],
        times_locks=spec.measures == "full" and spec.strategy not in LOCKS_UNTOLD,
    )


def graph_key(spec: TrialSpec) -> str:
    """Trials with the same key run in the same variant."""
    return spec.model_dump_json(exclude=_PER_TRIAL)
