"""The native driver: C++ threads train the variables, without TensorFlow and without the interpreter lock.

The order of the data, the initial values, the split over the workers and the pauses are those of the session driver.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tmflow import aborts
from tmflow.errors import Diverged, Unsupported
from tmflow.native import loader, process_state
from tmflow.native.ops import LOCKS_UNTOLD
from tmflow.native.parameters import native_parameters
from tmflow.runner.runfile import Abort, Counters, Lost, Reads, Retries, Staleness
from tmflow.spec import TrialSpec
from tmflow.train import batches
from tmflow.train.measurement import NOT_FINITE, Measurement, TrialData, warm_up_of
from tmflow.train.model import Array
from tmflow.train.models import MODELS
from tmflow.train.possible import why_not

if TYPE_CHECKING:
    from tmflow.native._core import NativeCounterRow, NativeTrial

WARM_UP_STEPS, WARM_UP_IMAGES = 1000, 500

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
        measured = Measurement()
        began = time.monotonic()
        trial = make_trial(spec)
        trial.set_variables(MODELS[spec.model].initial_values(spec, trial_seed))
        starts = batches.batch_starts(trial_seed, len(data.train_images), spec.batch, spec.iterations)
        measured.setup_s = time.monotonic() - began

        measured.train(
            spec,
            starts,
            lambda steps: trial.run(data.train_images, data.train_labels, steps, spec.batch, spec.learning_rate),
            lambda: accuracy(spec, trial.variables(), data),
        )
        process_state.require(spec.strategy, spec.parameters())
        if spec.kernel == "fused":  # every matrix is a dense layer's
            measured.fused = [its.name for its in MODELS[spec.model].variables(spec) if len(its.shape) == 2]
        mechanism = aborts.mechanism(spec.strategy, spec.parameters())
        timed = spec.measures == "full" and spec.strategy not in LOCKS_UNTOLD
        rows = trial.counters()
        measured.counters = [_counters(row, mechanism, timed=timed) for row in rows]
        measured.aborts = [abort for row in rows for abort in _aborts(row, mechanism)]
        measured.retries = [retries for row in rows for retries in _retries(row)]
        measured.reads = [reads for row in rows for reads in _reads(row)]
        if spec.measures == "full":
            measured.lost = [Lost(**row) for row in trial.lost()]
        measured.staleness = [Staleness(**row) for row in trial.staleness()]
        return measured

    def warm_up(self, data: TrialData, batch: int, workers: int) -> None:
        """A short discarded trial: it wakes the processors and brings the data into their caches."""
        self.run(warm_up_of(self._spec, workers, batch, WARM_UP_STEPS, WARM_UP_IMAGES), self._spec.seed, data)

    def close(self) -> None:
        """Nothing outlives a trial."""


def make_trial(spec: TrialSpec) -> NativeTrial:
    """The trial's variables and workers. Raises ValueError for factors that do not fit together."""
    return loader.core().NativeTrial(
        model=spec.model,
        matrix=spec.matrix,
        hidden=spec.hidden,
        activation=spec.activation,
        strategy=spec.strategy,
        parameters=native_parameters(spec.strategy, spec.parameters()),
        workers=spec.threads,
        layout=spec.layout,
        reading=spec.reading,
        pinning=spec.pinning,
        measures=spec.measures,
    )


def accuracy(spec: TrialSpec, values: list[Array], data: TrialData) -> float:
    """Share of the first `test_images` test images that the model with these values classifies correctly.

    Raises Diverged if a value, or a score that it gives, is not finite: there is no accuracy then.
    """
    model = MODELS[spec.model]
    assert model.scores is not None, "no spec with this driver has another model"
    images = data.test_images[: spec.test_images]
    shaped = [value.reshape(its.shape) for value, its in zip(values, model.variables(spec), strict=True)]
    with np.errstate(over="ignore", invalid="ignore"):
        scores = model.scores(spec, images, shaped)
    if not all(np.isfinite(array).all() for array in (*values, scores)):
        raise Diverged(NOT_FINITE)
    return float((scores.argmax(axis=1) == data.test_digits[: len(images)]).mean())


def graph_key(spec: TrialSpec) -> str:
    """Trials with the same key run in the same variant."""
    return spec.model_dump_json(exclude=_PER_TRIAL)


def _counters(row: NativeCounterRow, mechanism: str | None, *, timed: bool) -> Counters:
    told: dict[str, Any] = {name: row[name] for name in ("worker", "variable", "updates")}
    if mechanism is not None:
        told |= {name: row[name] for name in ("attempts", "commits", "fallbacks")}
    if timed:
        told |= {"lock_waited_s": row["waited_ns"] / 1e9, "lock_held_s": row["held_ns"] / 1e9}
    return Counters(**told)


def _aborts(row: NativeCounterRow, mechanism: str | None) -> Iterator[Abort]:
    for status, n in row["aborts"].items():
        assert mechanism is not None, "only transactions abort"
        described: dict[str, Any] = aborts.described(mechanism, status)
        yield Abort(worker=row["worker"], variable=row["variable"], mechanism=mechanism, n=n, **described)


def _retries(row: NativeCounterRow) -> Iterator[Retries]:
    for retries, sections in row["retries"].items():
        yield Retries(worker=row["worker"], variable=row["variable"], retries=retries, sections=sections)


def _reads(row: NativeCounterRow) -> Iterator[Reads]:
    if row["reads"] is not None and row["torn"] is not None:
        yield Reads(worker=row["worker"], variable=row["variable"], reads=row["reads"], torn=row["torn"])
