"""The job of a round, and its supervision: a fresh process for each environment that the points of the round need.

If a trial or a warm-up hangs or kills its process, another process runs the remaining points.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from tmflow.base.canonical_json import sha256_of
from tmflow.base.errors import BadInput, RoundFailed
from tmflow.runfile import record
from tmflow.runfile.record import CampaignRef, ExperimentRef
from tmflow.runner.journal import Journal, set_aside
from tmflow.spec.trial import TrialSpec

TIMED_OUT = 75  # exit code of a round after a timeout, which is in the journal; a new process runs the rest

# The kill may come from outside, for example for lack of memory, so a trial or a warm-up gets a second chance.
DEATHS = 2


class Trial(NamedTuple):
    """A trial of a round: its point, and its number among the trials of this point, from 1."""

    spec: TrialSpec
    repeat: int

    @property
    def key(self) -> tuple[str, int]:
        """What identifies the trial in its round, as `Run.trial`."""
        return self.spec.sha256, self.repeat


class RoundJob(BaseModel):
    """The points of an experiment, to be run `repeats` times each in an order shuffled by `order_seed`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    campaign: CampaignRef
    experiment: ExperimentRef
    number: int
    points: list[TrialSpec]
    repeats: int = 1
    trial_timeout_s: float
    run_file: Path
    own_data: Path | None = None  # the file of dataset `own`
    resumed: bool = False  # the round was interrupted: its remaining trials run later than the others

    @property
    def order_seed(self) -> int:
        """Seed of the round's order, different for every round of every campaign."""
        return int(sha256_of([self.campaign.uid, self.experiment.definition_sha256, self.number])[:8], 16)

    def processes(self) -> list[list[Trial]]:
        """The trials of each process of the round. Each environment that points need has a process, usually one.

        Processes and their trials are in the round's order. A process runs its points in as many passes as there are
        repeats, each pass in another order. So the trials of a point are spread over the process, and a slow moment of
        the machine rarely meets two of them. Raises BadInput as `TrialSpec.process_env` does.
        """
        order, shuffled = random.Random(self.order_seed), list(self.points)
        order.shuffle(shuffled)
        by_environment: dict[frozenset[tuple[str, str]], list[TrialSpec]] = {}
        for point in shuffled:
            by_environment.setdefault(frozenset(point.process_env(base={}).items()), []).append(point)
        groups = list(by_environment.values())
        order.shuffle(groups)
        return [self._passes(points, order) for points in groups]

    def _passes(self, points: list[TrialSpec], order: random.Random) -> list[Trial]:
        """All trials of these points: the first pass in their order, each further one shuffled again."""
        trials = [Trial(point, 1) for point in points]
        for repeat in range(2, self.repeats + 1):
            shuffled = list(points)
            order.shuffle(shuffled)
            if shuffled[0] == trials[-1].spec:  # two trials in a row would meet the same moment of the machine
                shuffled.append(shuffled.pop(0))
            trials += [Trial(point, repeat) for point in shuffled]
        return trials

    def ordered_trials(self) -> list[Trial]:
        """The trials in the round's order, one process after another."""
        return [trial for trials in self.processes() for trial in trials]

    def keys(self) -> set[tuple[str, int]]:
        """The keys of all trials of the round."""
        return {(point.sha256, repeat) for point in self.points for repeat in range(1, self.repeats + 1)}


def run_round(job: RoundJob) -> None:
    """Run the round of `job`, unless its run file already holds it; on return the run file is complete.

    Continues an interrupted journal of the same campaign. Raises BadInput if a process reports bad input or its
    environment is not available, and RoundFailed if a process ends early for a reason other than a trial.
    """
    if _is_done(job):
        job.run_file.touch()  # makes it newer than the inputs that made Snakemake run this
        return
    processes = job.processes()
    if (journal := Journal(job.run_file)).runs and journal.runs[0].campaign != job.campaign:
        set_aside(journal.path, journal.runs[0])
        journal = Journal(job.run_file)
    job = job.model_copy(update={"resumed": bool(journal.runs)})
    with tempfile.TemporaryDirectory(prefix="tmflow-") as folder:
        path = Path(folder) / "job.json"
        path.write_text(job.model_dump_json(), encoding="utf-8")
        for number, trials in enumerate(processes):
            command = [sys.executable, "-m", "tmflow.runner.round", str(path), str(number)]
            _run_until_finished(job, command, trials[0].spec.process_env())


def _is_done(job: RoundJob) -> bool:
    """Whether the run file holds this round. A run file with other points is renamed, not overwritten.

    A round with other repeats is not measured again: it is one value of each point, however precise.
    """
    if not job.run_file.exists():
        return False
    runs = list(record.read(job.run_file))
    if {run.spec.sha256 for run in runs} == {point.sha256 for point in job.points}:
        return True
    set_aside(job.run_file, runs[0])
    return False


def _run_until_finished(job: RoundJob, command: list[str], needed: dict[str, str]) -> None:
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ, **needed}
    deaths: Counter[tuple[bool, frozenset[tuple[str, int]]]] = Counter()
    # Inheritable file descriptors, such as locks, are passed on: a round that outlives its step still holds them.
    while (code := subprocess.run(command, check=False, env=environment, close_fds=False).returncode) != 0:
        if code == TIMED_OUT:
            continue
        if code == 2:
            raise BadInput(f"round {job.number} of {job.experiment.name} could not run; the line above says why.")
        journal = Journal(job.run_file)
        under_way = journal.under_way()
        if code > 0 or -code in (signal.SIGINT, signal.SIGTERM) or under_way is None:
            how = f"with code {code}" if code > 0 else f"by {signal.Signals(-code).name}"
            raise RoundFailed(f"the process of round {job.number} of {job.experiment.name} ended {how}.")
        where = " in its warm-up" if under_way.warm_up else ""
        place = (under_way.warm_up, frozenset(trial.trial for trial in under_way.trials))
        deaths[place] += 1
        if deaths[place] == DEATHS:
            reason = f"its process was ended by {signal.Signals(-code).name}{where}, {DEATHS} times"
            for trial in under_way.trials:
                journal.append(trial.model_copy(update={"reason": reason}))
