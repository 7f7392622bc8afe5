"""Run a round in a fresh process, and another one for what a timed-out trial left over."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tmflow.errors import BadInput
from tmflow.runner.job import TIMED_OUT, RoundJob
from tmflow.runner.journal import Journal


class RoundFailed(Exception):
    """The process of a round ended without finishing it."""


def run_round(job: RoundJob) -> None:
    """Run the round of `job`; on return its run file is complete.

    Goes on with the campaign of an interrupted journal, if there is one. Raises BadInput when the process says so,
    RoundFailed when it dies.
    """
    unfinished = Journal(job.run_file).runs
    if unfinished:
        job = job.model_copy(update={"campaign": unfinished[0].campaign})
    with tempfile.TemporaryDirectory(prefix="tmflow-") as folder:
        path = Path(folder) / "job.json"
        path.write_text(job.model_dump_json(), encoding="utf-8")
        command = [sys.executable, "-m", "tmflow.runner.round", str(path)]
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ}
        while (code := subprocess.run(command, check=False, env=quiet).returncode) == TIMED_OUT:
            continue
    if code == 2:
        raise BadInput(f"round {job.number} of {job.experiment.name} could not run; the line above says why.")
    if code != 0:
        raise RoundFailed(f"the process of round {job.number} of {job.experiment.name} ended with code {code}.")
