"""The native driver: C++ threads train the variables, without TensorFlow and without the interpreter lock.

The order of the data, the initial values, the split over the workers and the pauses are those of the session driver.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from tmflow.base.errors import Diverged, Unsupported
from tmflow.native import availability, loader
from tmflow.native.registry import ResolvedStrategy
from tmflow.spec import abort_codes
from tmflow.spec.models import MODELS
from tmflow.spec.strategies import CONTENTION
from tmflow.spec.trial import TrialSpec
from tmflow.training.data import TrialData, batch_starts
from tmflow.training.measurement import NOT_FINITE, Measurement, warm_up_spec
from tmflow.training.models import load_network
from tmflow.training.network import Array

if TYPE_CHECKING:
    from tmflow.native._core import NativeCounterRow, NativeTrial

WARM_UP_STEPS, WARM_UP_IMAGES = 1000, 500


class Variant:
    """A model and a strategy; every trial has its own variables, threads and counters."""

    def __init__(self, spec: TrialSpec, strategy: ResolvedStrategy) -> None:
        self._spec, self._strategy = spec, strategy

    def run(self, spec: TrialSpec, trial_seed: int, data: TrialData) -> Measurement:
        """Train from fresh initial values with `spec`, which differs from the variant's only in factors per trial.

        Raises Unsupported if it cannot run here, or if this process does not meet the needs of the strategy after the
        trial. Raises Diverged if a variable or a score of a test image is not finite in an evaluation.
        """
        strategy = self._strategy
        if reason := availability.unsupported_reason(spec, strategy):
            raise Unsupported(reason)
        measured = Measurement(fused=fused_variables(spec))
        began = time.monotonic()
        trial = make_trial(spec, strategy)
        trial.set_variables(load_network(spec.model).initial_values(spec, trial_seed))
        starts = batch_starts(trial_seed, len(data.train_images), spec.batch, spec.iterations)
        measured.setup_s = time.monotonic() - began

        measured.train(
            spec,
            starts,
            lambda steps: trial.run(data.native_set, steps, spec.batch, spec.learning_rate),
            lambda: accuracy(spec, trial.variables(), data),
        )
        full = spec.measures == "full"
        for row in trial.counters():
            _add_counts(measured, row, strategy.mechanism, times_locks=full and strategy.times_locks)
        measured.staleness = [dict(row) for row in trial.staleness()]
        measured.lost = [dict(row) for row in trial.lost()] if full else []
        availability.require(strategy)
        return measured

    def warm_up(self, data: TrialData, batch: int, workers: int) -> None:
        """Run and discard a short trial, which wakes the processors and loads the data into their caches."""
        self.run(warm_up_spec(self._spec, workers, batch, WARM_UP_STEPS, WARM_UP_IMAGES), self._spec.seed, data)

    def close(self) -> None:
        """Do nothing: no state outlives a trial."""


def fused_variables(spec: TrialSpec) -> list[str]:
    """The variables whose updates are fused with their gradients: those of dense layers, which have two dimensions."""
    variables = load_network(spec.model).variables(spec) if spec.kernel == "fused" else []
    return [variable.name for variable in variables if len(variable.shape) == 2]


def make_trial(spec: TrialSpec, strategy: ResolvedStrategy) -> NativeTrial:
    """Make the variables and workers of a trial. Raises ValueError for factors that do not fit together."""
    return loader.core().NativeTrial(
        model=spec.model,
        matrix=spec.matrix,
        hidden=spec.hidden,
        activation=spec.activation,
        strategy=strategy.name,
        parameters=list(strategy.native_arguments),
        workers=spec.threads,
        layout=spec.layout,
        reading=spec.reading,
        pinning=spec.pinning,
        measures=spec.measures,
        numbers=numbers_of(spec),
        optimiser=spec.optimiser,
    )


def numbers_of(spec: TrialSpec) -> dict[str, int]:
    """The factors that give the variables of a model of rows their sizes."""
    if not MODELS[spec.model].by_rows:
        return {}
    given = {name: getattr(spec, name) for name in ("features", "users", "items", "words", "negatives", "width")}
    return {name: number for name, number in given.items() if number is not None}


def accuracy(spec: TrialSpec, values: list[Array], data: TrialData) -> float:
    """Share of the first `test_images` test images that the model with these values classifies correctly.

    Raises Diverged if a value or a score is not finite, because the accuracy is then undefined.
    """
    model = load_network(spec.model)
    assert model.scores is not None, "no spec with this driver has another model"
    images = data.test_images[: spec.test_images]
    shaped = [value.reshape(variable.shape) for value, variable in zip(values, model.variables(spec), strict=True)]
    with np.errstate(over="ignore", invalid="ignore"):
        scores = model.scores(spec, images, shaped)
    if not all(np.isfinite(array).all() for array in (*values, scores)):
        raise Diverged(NOT_FINITE)
    return float((scores.argmax(axis=1) == data.test_digits[: len(images)]).mean())


def _add_counts(measured: Measurement, row: NativeCounterRow, mechanism: str | None, *, times_locks: bool) -> None:
    """Add what the native library counted for one worker and one variable."""
    where: dict[str, Any] = {"worker": row["worker"], "variable": row["variable"]}
    counts = where | {"updates": row["updates"]}
    if mechanism is not None:
        counts |= {name: row[name] for name in ("attempts", "commits", "fallbacks")}
    if times_locks:
        counts |= {"lock_waited_s": row["waited_ns"] / 1e9, "lock_held_s": row["held_ns"] / 1e9}
    measured.counters.append(counts)
    for status, n in row["aborts"].items():
        assert mechanism is not None, "only transactions abort"
        abort_code = abort_codes.classify(mechanism, status)
        measured.aborts.append(where | {"mechanism": mechanism, "n": n} | abort_code)
    for kind, of in CONTENTION.items():
        getattr(measured, kind).extend(where | {kind: number, of: times} for number, times in row[kind].items())
    if row["reads"] is not None and row["torn"] is not None:
        measured.reads.append(where | {"reads": row["reads"], "torn": row["torn"]})
