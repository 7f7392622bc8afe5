"""A worker's part in a trial: it trains its share of the steps, and as the chief it also times and evaluates."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmflow.base.errors import Diverged
from tmflow.spec.trial import TrialSpec
from tmflow.training.cluster.barrier import CHIEF, Report
from tmflow.training.cluster.checkpoint import CheckpointPlan, Weights, resume, save, stops
from tmflow.training.cluster.phases import Sampler
from tmflow.training.cluster.replica import Replica
from tmflow.training.data import TrialData, batch_starts
from tmflow.training.measurement import NOT_FINITE, Measurement

START_LIMIT_S = 60.0  # for the other workers to come to the start
EVALUATION_CHUNK = 500
SLOWDOWN_SAMPLES = 5  # gradients that are timed before the start, to know how long a slowed worker waits
TRACED_STEPS = 20  # of each worker, spread over a trial


@dataclass
class Share:
    """What a worker did in a trial, by its own clock."""

    worker: int
    steps: int = 0
    loop_s: float = 0.0


class Worker:
    """One worker of a trial. `limit_s` is how long it waits at most for the other workers between two pauses."""

    def __init__(self, replica: Replica, target: str, data: TrialData, limit_s: float) -> None:
        self._replica, self._data, self._limit_s = replica, data, limit_s
        self._spec: TrialSpec = replica.spec
        self._session = replica.session(target)
        self._share = Share(replica.worker)
        self._sampler = Sampler(replica.worker, TRACED_STEPS)
        self._wait_s = 0.0  # after each gradient, if this worker is slowed down
        self._start = (0, 0)  # the steps and updates of the trial that are done when this worker begins
        self._takers = 1 if self._spec.mode == "model_parallel" else self._spec.threads  # the first workers take steps

    def close(self) -> None:
        """Close the session."""
        self._session.close()

    def follow(self, seed: int) -> None:
        """Train this worker's share from stop to stop, as the chief says; not for the chief."""
        replica, barrier = self._replica, self._replica.barrier
        barrier.arrive(self._session, asdict(self._share), START_LIMIT_S)
        first = barrier.wait(self._session, START_LIMIT_S)  # the chief has initialised the variables
        self._start = (first, replica.join(self._session))
        self._measure_slowdown()
        starts = self._batch_starts(seed)
        while first < self._spec.iterations:
            barrier.arrive(self._session, self._report(), self._limit_s)
            last = barrier.wait(self._session, self._limit_s)
            self._train(first, last, starts)
            first = last
        barrier.arrive(self._session, self._report(), self._limit_s)
        barrier.wait(self._session, self._limit_s)

    def lead(self, seed: int, plan: CheckpointPlan | None = None) -> Measurement:
        """Train the chief's share, time the loop by its clock, evaluate, and write the checkpoints of the plan.

        If there is a checkpoint, training continues from it, and the measurements are those since then. Raises Diverged
        as the session driver, and BadInput if a checkpoint does not fit or cannot be written.
        """
        replica, barrier, measured = self._replica, self._replica.barrier, Measurement()
        began = time.monotonic()
        barrier.gather(self._session, asdict(self._share), START_LIMIT_S)
        checkpoint = resume(plan.file, self._spec) if plan else None
        old = checkpoint.progress if checkpoint else None
        replica.initialise(self._session, seed, checkpoint)
        if old:
            self._start = (old.step, old.updates)
        first = self._start[0]
        barrier.release(self._session, first)
        self._measure_slowdown()
        starts = self._batch_starts(seed)
        reports: Sequence[Report] = barrier.gather(self._session, asdict(self._share), self._limit_s)
        measured.setup_s = time.monotonic() - began
        for last, evaluates, saves in stops(self._spec, first, plan.every if plan else None):
            loop_began = time.monotonic()
            barrier.release(self._session, last)
            self._train(first, last, starts)
            reports = barrier.gather(self._session, self._report(), self._limit_s)
            measured.loop_s += time.monotonic() - loop_began
            stopped = time.monotonic()
            if evaluates:
                self._evaluate(last, measured)
            if plan and saves and not barrier.lost:  # the steps of a lost worker are not done
                self._count(measured)
                save(plan.file, self._spec, (last, self._updates_at(last)), measured, self._finite_weights(), old)
            measured.evaluation_s += time.monotonic() - stopped
            first = last
        self._count(measured)
        measured.fused = replica.fused
        measured.phases = [row for report in reports for row in report.pop("phases")]
        measured.processes = [{"role": "worker", "index": report.pop("worker"), **report} for report in reports]
        barrier.release(self._session, first)
        return measured

    def _report(self) -> Report:
        return asdict(self._share) | {"phases": self._sampler.rows()}

    def _count(self, measured: Measurement) -> None:
        """Take the counts of the servers since the start."""
        for name, rows in self._replica.stats(self._session)._asdict().items():
            setattr(measured, name, rows)

    def _batch_starts(self, seed: int) -> NDArray[np.int64]:
        """The first image of each batch of the trial."""
        return batch_starts(seed, len(self._data.train_images), self._spec.batch, self._spec.iterations)

    def _updates_at(self, step: int) -> int:
        """The number of updates of the trial when so many of its steps are done."""
        done, updates = self._start
        return updates + (step - done) // (self._spec.threads if self._spec.mode == "sync" else 1)

    def _train(self, first: int, last: int, starts: NDArray[np.int64]) -> None:
        """Train this worker's share of the steps `first` to `last` of the trial."""
        worker = self._replica.worker
        share = starts[first:last][worker :: self._takers].tolist() if worker < self._takers else []
        began = time.monotonic()
        if self._spec.mode == "sync":
            self._train_together(self._updates_at(first), self._updates_at(last), share)
        else:
            for start in share:
                self._step(start)
        self._share.loop_s += time.monotonic() - began

    def _train_together(self, first: int, last: int, starts: list[int]) -> None:
        """Take part in updates `first` to `last`. A worker whose gradient came late takes more steps, all dropped."""
        leader = None
        with ThreadPoolExecutor(1) as pool:
            if self._replica.worker == CHIEF:
                leader = pool.submit(self._replica.average, self._session, last - first)
            batches = itertools.cycle(starts)
            while int(self._step(next(batches))) < last:
                pass
            if leader is not None:
                leader.result()

    def _step(self, start: int) -> Any:
        """One step on the batch that begins at this image; in mode sync its value is the number of updates so far."""
        replica, chunk = self._replica, slice(start, start + self._spec.batch)
        feeds = {replica.images: self._data.train_images[chunk], replica.labels: self._data.train_labels[chunk]}
        if self._wait_s:
            time.sleep(self._wait_s)
        self._share.steps += 1
        return self._sampler.run(self._session, replica.step, feeds)

    def _measure_slowdown(self) -> None:
        """If this is the worker that is slowed down, set how long it waits: so many times the time of a gradient."""
        spec, replica = self._spec, self._replica
        assert spec.slowdown is not None, "a spec of this driver has it"
        self._sampler.spread_over(spec.iterations // self._takers)
        if spec.slowdown == 1 or replica.worker != spec.threads - 1:
            return
        images, labels = self._data.train_images[: spec.batch], self._data.train_labels[: spec.batch]
        feeds, times = {replica.images: images, replica.labels: labels}, []
        for _ in range(SLOWDOWN_SAMPLES):
            began = time.monotonic()
            self._session.run(replica.gradient_only, feeds)
            times.append(time.monotonic() - began)
        self._wait_s = (spec.slowdown - 1) * statistics.median(times)

    def _accuracy(self) -> float:
        """Share of the test images that the current model classifies correctly. Raises Diverged if it is not finite."""
        if not self._session.run(self._replica.weights_finite):
            raise Diverged(NOT_FINITE)
        images = min(self._spec.test_images, len(self._data.test_images))
        correct = 0
        for first in range(0, images, EVALUATION_CHUNK):
            chunk = slice(first, min(first + EVALUATION_CHUNK, images))
            feeds = {self._replica.images: self._data.test_images[chunk]}
            predicted, finite = self._session.run(self._replica.predict, feeds)
            if not finite:
                raise Diverged(NOT_FINITE)
            correct += int((predicted == self._data.test_digits[chunk]).sum())
        return correct / images

    def _evaluate(self, step: int, measured: Measurement) -> None:
        measured.final_accuracy = self._accuracy()
        if self._spec.curve_points:
            point = {"iteration": step, "elapsed_s": measured.loop_s, "accuracy": measured.final_accuracy}
            measured.curve.append(point)

    def _finite_weights(self) -> Weights:
        """The weights for a checkpoint. Raises Diverged if they are not finite."""
        weights = self._replica.weights(self._session)
        if not all(np.isfinite(values).all() for values in weights.values()):
            raise Diverged(NOT_FINITE)
        return weights
