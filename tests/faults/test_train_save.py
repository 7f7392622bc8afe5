"""`tmflow train --save`: a round that has ended is in the file, whatever becomes of the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tmflow.runner import runfile

pytestmark = pytest.mark.slow

SMALL = ("--dataset", "digits", "--iterations", "20", "--batch", "5", "--rounds", "1000")


def test_a_kill_loses_no_round_that_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "runs.jsonl"
    command = [sys.executable, "-u", "-m", "tmflow", "train", *SMALL, "--save", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        try:
            told = process.stdout.readline()
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert told.startswith("round 1: ")
    assert [run.status for run in runfile.read(path)] == ["ok"]
