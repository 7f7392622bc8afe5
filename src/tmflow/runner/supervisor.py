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


class RoundJob(BaseModel):
    """The points of an experiment, to be run once each in an order shuffled by `order_seed`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    campaign: CampaignRef
    experiment: ExperimentRef
    number: int
    points: list[TrialSpec]
    trial_timeout_s: float
    run_file: Path
    resumed: bool = False  # the round was interrupted: its remaining trials run later than the others

    @property
    def order_seed(self) -> int:
        """Seed of the round's order, different for every round of every campaign."""
        return int(sha256_of([self.campaign.uid, self.experiment.definition_sha256, self.number])[:8], 16)

    def processes(self) -> list[list[TrialSpec]]:
        """The points of each process of the round. Each environment that points need has a process, usually one.

        Processes and their points are in the round's order. Raises BadInput as `TrialSpec.process_env` does.
        """
        order, shuffled = random.Random(self.order_seed), list(self.points)
        order.shuffle(shuffled)
        by_environment: dict[frozenset[tuple[str, str]], list[TrialSpec]] = {}
        for point in shuffled:
            by_environment.setdefault(frozenset(point.process_env(base={}).items()), []).append(point)
        groups = list(by_environment.values())
        order.shuffle(groups)
        return groups

    def ordered_points(self) -> list[TrialSpec]:
        """The points in the round's order, one process after another."""
        return [point for points in self.processes() for point in points]


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
        for number, points in enumerate(processes):
            command = [sys.executable, "-m", "tmflow.runner.round", str(path), str(number)]
            _run_until_finished(job, command, points[0].process_env())


def _is_done(job: RoundJob) -> bool:
    """Whether the run file holds this round. A run file with other points is renamed, not overwritten."""
    if not job.run_file.exists():
        return False
    runs = list(record.read(job.run_file))
    if {run.spec.sha256 for run in runs} == {point.sha256 for point in job.points}:
        return True
    set_aside(job.run_file, runs[0])
    return False


def _run_until_finished(job: RoundJob, command: list[str], needed: dict[str, str]) -> None:
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ, **needed}
    deaths: Counter[tuple[bool, frozenset[str]]] = Counter()
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
        place = (under_way.warm_up, frozenset(trial.spec.sha256 for trial in under_way.trials))
        deaths[place] += 1
        if deaths[place] == DEATHS:
            reason = f"its process was ended by {signal.Signals(-code).name}{where}, {DEATHS} times"
            for trial in under_way.trials:
                journal.append(trial.model_copy(update={"reason": reason}))
