"""A process of a round: one warm-up per variant and batch, then every trial, recorded when it ends.

`supervisor` starts `python -m tmflow.runner.round JOB.json N` for the trials of the round's process N (from 0), in the
environment that these trials need.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from tmflow._version import __version__
from tmflow.base.clock import utc_now
from tmflow.base.errors import BadInput, Diverged, Unsupported
from tmflow.base.locks import machine_to_itself
from tmflow.native import registry
from tmflow.native.availability import unsupported_reason
from tmflow.native.registry import ResolvedStrategy, resolve
from tmflow.platform.facts import environment_facts, platform_facts
from tmflow.platform.profiles import load_profile
from tmflow.platform.software import software
from tmflow.runfile.record import Backend, Run
from tmflow.runner import machine_load
from tmflow.runner.journal import Journal, UnderWay, add_warm_up
from tmflow.runner.supervisor import TIMED_OUT, RoundJob, Trial
from tmflow.spec.factors import OWN_DATA, SYNTHETIC
from tmflow.spec.trial import Status, TrialSpec
from tmflow.training import native_driver, session, synthetic
from tmflow.training.cluster import driver as cluster_driver
from tmflow.training.data import Images, TrialData
from tmflow.training.measurement import Variant, graph_key
from tmflow.training.own_data import OwnData, load_own_data

MakeVariant = Callable[[TrialSpec, ResolvedStrategy, int, int], Variant]  # as `make_variant`


class RoundRunner:
    """Runs the trials of one process of a round that are not in the journal yet, with variants made by `make`."""

    def __init__(self, job: RoundJob, journal: Journal, process: int, make: MakeVariant | None = None) -> None:
        self._make = make or make_variant
        self._watch = machine_load.Watch()  # before any work, so that the first short trials have a window too
        self._job = job
        self._journal = journal
        done = {run.trial for run in journal.runs}
        trials = job.processes()[process]
        self._ordinals = {trial.key: ordinal for ordinal, trial in enumerate(job.ordered_trials())}
        self._todo = [trial for trial in trials if trial.key not in done]
        self._resumed = job.resumed or len(self._todo) < len(trials)
        self._strategies: dict[str, ResolvedStrategy] = {}
        points = {trial.spec.sha256: trial.spec for trial in self._todo}
        self._unsupported = {sha256: self._unsupported_reason(point) for sha256, point in points.items()}
        self._graphs: dict[str, list[Trial]] = {}  # the trials that can run here, by their graph
        for trial in self._todo:
            if not self._unsupported[trial.spec.sha256]:
                self._graphs.setdefault(graph_key(trial.spec), []).append(trial)
        self._facts = facts_of_process()
        self._backends = {profile: backend_of(profile) for profile in {point.profile for point in points.values()}}
        self._images: Images | None = None
        self._variants: dict[str, Variant] = {}
        self._warm: set[tuple[str, int]] = set()  # graphs and batches that have run

    def run(self) -> None:
        """Warm up each graph for each batch, then run every trial.

        NumPy's products have one thread meanwhile. After a product with several, OpenBLAS lets them spin for more
        than a tenth of a second (docs/speed/idle-threads.md), on the processors of the workers that start then.
        """
        with threadpool_limits(1, user_api="blas"):
            self._run()

    def _run(self) -> None:
        for trials in self._graphs.values():
            first = trials[0].spec
            if self._images is None and first.dataset not in (OWN_DATA, SYNTHETIC):
                self._images = Images(first.dataset, self._seed(first), first.matrix)
            for batch in sorted({trial.spec.batch for trial in trials}):
                self._warm_up([trial for trial in trials if trial.spec.batch == batch])
        for trial in self._todo:
            self._journal.append(self._trial(trial))
        for variant in self._variants.values():
            variant.close()

    def _warm_up(self, trials: Sequence[Trial]) -> None:
        """Warm up for trials of one graph and batch, with the largest number of workers among them.

        If the warm-up hangs or kills the process, the trials with that number of workers are recorded in its place; the
        others have another warm-up in the next process. After any other error, each trial warms up first, and records
        the error if it recurs.
        """
        first, workers = trials[0].spec, max(trial.spec.threads for trial in trials)
        self._watch.begin()
        with self._watched([trial for trial in trials if trial.spec.threads == workers], warm_up=True):
            try:
                variant, images = self._variant(first), self._data(first)
                began = time.monotonic()
                variant.warm_up(images, first.batch, workers)
                self._warm.add((graph_key(first), first.batch))
            except Exception as error:
                if not isinstance(error, Unsupported | Diverged):
                    traceback.print_exc()
                return
            add_warm_up(self._job.run_file, self._job.campaign.uid, time.monotonic() - began)

    def _strategy(self, spec: TrialSpec) -> ResolvedStrategy:
        """The strategy of a point, resolved once for all points of its graph. Raises BadInput as `resolve` does."""
        key = graph_key(spec)
        if key not in self._strategies:
            self._strategies[key] = resolve(spec.strategy, spec.parameters())
        return self._strategies[key]

    def _unsupported_reason(self, spec: TrialSpec) -> str | None:
        """Why a trial cannot run here; None if it can, or if the check fails: the trial records that error."""
        try:
            return unsupported_reason(spec, self._strategy(spec))
        except (BadInput, ValueError):
            return None

    def _variant(self, spec: TrialSpec) -> Variant:
        key = graph_key(spec)
        if key not in self._variants:
            workers = max(trial.spec.threads for trial in self._graphs[key])
            self._variants[key] = self._make(spec, self._strategy(spec), workers, self._seed(spec))
        return self._variants[key]

    def _trial(self, trial: Trial) -> Run:
        spec = trial.spec
        if reason := self._unsupported[spec.sha256]:
            return self._record(trial, status="unsupported", reason=reason)
        if (graph_key(spec), spec.batch) not in self._warm:
            self._warm_up([trial])
        before = self._watch.begin()
        started_at = utc_now()
        try:
            with self._watched([trial]):
                measured = self._variant(spec).run(spec, self._seed(spec), self._data(spec))
        except Unsupported as error:
            return self._record(trial, started_at, status="unsupported", reason=str(error))
        except Exception as error:  # a failed trial is a result; the round goes on
            traceback.print_exc()
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
            state = self._watch.since(before, machine_load.sample())
            return self._record(trial, started_at, status="failed", reason=reason, machine=state)
        after = machine_load.sample()
        measured.environment = self._facts["environment"] | measured.environment
        return self._record(
            trial,
            started_at,
            status="ok",
            machine=self._watch.since(before, after),
            total_s=after.at_s - before.at_s,
            **vars(measured),
        )

    def _record(self, trial: Trial, started_at: str | None = None, **fields: Any) -> Run:
        job, spec = self._job, trial.spec
        return Run(
            uid=str(uuid.uuid4()),
            campaign=job.campaign,
            experiment=job.experiment,
            round=job.number,
            repeat=trial.repeat,
            ordinal=self._ordinals[trial.key],
            order_seed=job.order_seed,
            trial_seed=self._seed(spec),
            resumed=self._resumed,
            started_at_utc=started_at or utc_now(),
            spec=spec,
            dataset_sha256=self._dataset_sha256(spec),
            evidence=spec.evidence,
            time_domain="wall",
            backend=self._backends[spec.profile],
            **(self._facts | fields),
        )

    @contextmanager
    def _watched(self, trials: Sequence[Trial], *, warm_up: bool = False) -> Iterator[None]:
        """Watch a trial, or the warm-up of `trials`: if it exceeds the time limit, record the trials and exit."""
        started_at, limit_s = utc_now(), self._job.trial_timeout_s

        def ended(status: Status, how: str) -> list[Run]:
            reason = f"its warm-up {how}" if warm_up else how
            return [self._record(trial, started_at, status=status, reason=reason) for trial in trials]

        if_killed = ended("failed", "was under way when the process ended")
        self._journal.begin(UnderWay(pid=os.getpid(), warm_up=warm_up, trials=if_killed))
        timer = threading.Timer(limit_s, lambda: self._give_up(ended("timeout", f"took longer than {limit_s:g} s")))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # if the time limit has just been reached, the process exits here

    def _give_up(self, runs: Sequence[Run]) -> None:
        """Record the timeout, and exit the process: native code cannot be interrupted."""
        try:
            for run in runs:
                self._journal.append(run)
        except BadInput as error:
            print(f"tmflow: {error}", file=sys.stderr, flush=True)
            os._exit(2)
        os._exit(TIMED_OUT)

    def _seed(self, spec: TrialSpec) -> int:
        return spec.seed + self._job.number - 1

    def _dataset_sha256(self, spec: TrialSpec) -> str | None:
        if spec.dataset == SYNTHETIC:
            return synthetic.sha256(spec)
        if spec.dataset == OWN_DATA:
            return self._own_data(spec).sha256
        return self._images.dataset.sha256 if self._images and self._images.dataset else None

    def _own_data(self, spec: TrialSpec) -> OwnData:
        assert self._job.own_data is not None, "a job with this dataset has it"
        return load_own_data(spec.model, self._job.own_data)

    def _data(self, spec: TrialSpec) -> TrialData:
        if spec.dataset == SYNTHETIC:
            return synthetic.of_spec(spec, self._seed(spec))
        if spec.dataset == OWN_DATA:
            return self._own_data(spec).examples(spec, self._seed(spec))
        assert self._images is not None  # loaded for the first point that can run
        return self._images.of(self._seed(spec), spec.matrix)


def make_variant(spec: TrialSpec, strategy: ResolvedStrategy, max_workers: int, seed: int) -> Variant:
    """The variant of the spec's driver, for all points with the graph key of `spec` and up to `max_workers` workers.

    strategy: that of the spec, with its parameters. Raises Unsupported if it cannot run here.
    """
    if spec.driver == "native":
        return native_driver.Variant(spec, strategy)
    if spec.driver == "cluster":
        return cluster_driver.Variant(spec, strategy, max_workers)
    return session.Variant(spec, strategy, max_workers, seed)


def facts_of_process() -> dict[str, Any]:
    """The facts about machine and software that all runs of this process share: three fields of a run."""
    probe = registry.tm_probe()
    build = registry.build_info()
    return {
        "platform": platform_facts(),
        "environment": environment_facts(probe),
        "software": software(compiler=build.compiler, cflags=build.cflags),
    }


def backend_of(profile: str | None) -> Backend | None:
    """The emulator that replaces the hardware of a profile. Raises BadInput if there is no such profile."""
    if profile is None:
        return None
    machine = load_profile(profile)
    config = machine.as_dict()
    return Backend(kind="emulator", name=profile, version=__version__, config_sha256=machine.sha256, config=config)


def main(job_path: str, process: int) -> None:
    job = RoundJob.model_validate_json(Path(job_path).read_text(encoding="utf-8"))
    with machine_to_itself():
        if job.run_file.exists():  # another process, which outlived its pipeline, has finished the round
            return
        journal = Journal(job.run_file)
        journal.forget_under_way()
        journal.keep_only(job.keys())
        RoundRunner(job, journal, process).run()
        if {run.trial for run in journal.runs} == job.keys():
            journal.finish()


if __name__ == "__main__":
    # Python handles signals only between bytecodes, and a trial may be a native call that takes hours.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        main(sys.argv[1], int(sys.argv[2]))
    except BadInput as error:
        print(f"tmflow: {error}", file=sys.stderr)
        sys.exit(2)
