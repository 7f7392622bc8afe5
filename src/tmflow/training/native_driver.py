"""The native driver: C++ threads train the variables, without TensorFlow and without the interpreter lock.

The order of the data, the initial values, the split over the workers and the pauses are those of the session driver.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tmflow.base.errors import Diverged, Unsupported
from tmflow.native import availability, loader
from tmflow.native.availability import unsupported_reason
from tmflow.native.registry import mechanism_of, native_parameters
from tmflow.spec import abort_codes, contention
from tmflow.spec.strategies import LOCKS_UNTOLD
from tmflow.spec.trial import TrialSpec
from tmflow.training import batches
from tmflow.training.measurement import NOT_FINITE, Measurement, TrialData, warm_up_of
from tmflow.training.models import load_network
from tmflow.training.network import Array

if TYPE_CHECKING:
    from tmflow.native._core import NativeCounterRow, NativeTrial

_PER_TRIAL = {"threads", "batch", "iterations", "seed", "curve_points", "test_images"}


class Variant:
    """A model and a strategy; every trial has its own variables, threads and counters."""

    def __init__(self, spec: TrialSpec) -> None:
        self._spec = spec

    def run(self, spec: TrialSpec, trial_seed: int, data: TrialData) -> Measurement:
        """Train from fresh initial values with `spec`, which differs from the variant's only in factors per trial.

        Raises Unsupported if it cannot run here, or if this process does not meet the needs of the strategy after the
        trial. Raises Diverged if a variable or a score of a test image is not finite in an evaluation.
        """
        if reason := unsupported_reason(spec):
            raise Unsupported(reason)
        measured = measure(spec, native_settings(spec), trial_seed, data)
        availability.require(spec.strategy, spec.parameters())
        return measured

    def warm_up(self, data: TrialData, batch: int, workers: int) -> None:
        """Run and discard a short trial, which wakes the processors and loads the data into their caches."""
        self.run(warm_up_of(self._spec, workers, batch, WARM_UP_STEPS, WARM_UP_IMAGES), self._spec.seed, data)

    def close(self) -> None:
        """Nothing outlives a trial."""


def native_settings(spec: TrialSpec) -> NativeSettings:
    """The arguments of the spec for the native library. Raises BadInput as `native_parameters` does."""
    parameters = spec.parameters()
    # Every variable of two dimensions belongs to a dense layer.
    matrices = [variable.name for variable in load_network(spec.model).variables(spec) if len(variable.shape) == 2]
    return NativeSettings(
        parameters=native_parameters(spec.strategy, parameters),
        mechanism=mechanism_of(spec.strategy, parameters),
        fused=matrices if spec.kernel == "fused" else [],
        times_locks=spec.measures == "full" and spec.strategy not in LOCKS_UNTOLD,
    )


def graph_key(spec: TrialSpec) -> str:
    """Trials with the same key run in the same variant."""
    return spec.model_dump_json(exclude=_PER_TRIAL)


WARM_UP_STEPS, WARM_UP_IMAGES = 1000, 500


class NativeSettings(NamedTuple):
    """The arguments of a spec for the native library, and how to read its counters."""

    parameters: Sequence[str]  # of the strategy, in the format of the library
    mechanism: str | None  # the mechanism of its transactions: a key of `abort_codes.FAMILIES`
    fused: list[str]  # the variables whose updates are fused with their gradients
    times_locks: bool  # whether the counters include the times under locks


def measure(spec: TrialSpec, settings: NativeSettings, trial_seed: int, data: TrialData) -> Measurement:
    """Train from fresh initial values.

    Raises Diverged if a variable or a score of a test image is not finite in an evaluation.
    """
    measured = Measurement(fused=settings.fused)
    began = time.monotonic()
    trial = make_trial(spec, settings.parameters)
    trial.set_variables(load_network(spec.model).initial_values(spec, trial_seed))
    starts = batches.batch_starts(trial_seed, len(data.train_images), spec.batch, spec.iterations)
    measured.setup_s = time.monotonic() - began

    measured.train(
        spec,
        starts,
        lambda steps: trial.run(data.train_images, data.train_labels, steps, spec.batch, spec.learning_rate),
        lambda: accuracy(spec, trial.variables(), data),
    )
    rows = trial.counters()
    measured.counters = [_counters(row, settings) for row in rows]
    measured.aborts = [abort for row in rows for abort in _aborts(row, settings.mechanism)]
    measured.retries = _contention(rows, "retries")
    measured.failed_publications = _contention(rows, "failed_publications")
    measured.taken_blocks = _contention(rows, "taken_blocks")
    measured.reads = [reads for row in rows for reads in _reads(row)]
    if spec.measures == "full":
        measured.lost = [dict(row) for row in trial.lost()]
    measured.staleness = [dict(row) for row in trial.staleness()]
    return measured


def make_trial(spec: TrialSpec, parameters: Sequence[str]) -> NativeTrial:
    """Make the variables and workers of a trial. Raises ValueError for factors that do not fit together."""
    return loader.core().NativeTrial(
        model=spec.model,
        matrix=spec.matrix,
        hidden=spec.hidden,
        activation=spec.activation,
        strategy=spec.strategy,
        parameters=list(parameters),
        workers=spec.threads,
        layout=spec.layout,
        reading=spec.reading,
        pinning=spec.pinning,
        measures=spec.measures,
    )


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


def _counters(row: NativeCounterRow, settings: NativeSettings) -> dict[str, Any]:
    counts: dict[str, Any] = {name: row[name] for name in ("worker", "variable", "updates")}
    if settings.mechanism is not None:
        counts |= {name: row[name] for name in ("attempts", "commits", "fallbacks")}
    if settings.times_locks:
        counts |= {"lock_waited_s": row["waited_ns"] / 1e9, "lock_held_s": row["held_ns"] / 1e9}
    return counts


def _aborts(row: NativeCounterRow, mechanism: str | None) -> Iterator[dict[str, Any]]:
    for status, n in row["aborts"].items():
        assert mechanism is not None, "only transactions abort"
        abort = {"worker": row["worker"], "variable": row["variable"], "mechanism": mechanism, "n": n}
        yield abort | abort_codes.described(mechanism, status)


def _contention(rows: Sequence[NativeCounterRow], kind: contention.Kind) -> list[dict[str, Any]]:
    return [
        {"worker": row["worker"], "variable": row["variable"], kind: number, contention.KINDS[kind]: times}
        for row in rows
        for number, times in row[kind].items()
    ]


def _reads(row: NativeCounterRow) -> Iterator[dict[str, Any]]:
    if row["reads"] is not None and row["torn"] is not None:
        yield {"worker": row["worker"], "variable": row["variable"], "reads": row["reads"], "torn": row["torn"]}
