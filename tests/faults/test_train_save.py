"""`tmflow train`: a completed round is saved in file and database, whatever happens to the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.conftest import environment
from tmflow.native.loader import library_dir
from tmflow.runfile import record
from tmflow.store import engine, queries
from tmflow.store.run_filter import RunFilter

pytestmark = pytest.mark.slow

SMALL = ("--dataset", "digits", "--iterations", "20", "--batch", "5", "--rounds", "1000")


def test_a_kill_loses_no_round_that_has_ended(tmp_path: Path) -> None:
    path, url = tmp_path / "folder" / "runs.jsonl", f"sqlite:///{tmp_path / 'study.db'}"
    command = [sys.executable, "-u", "-m", "tmflow", "train", *SMALL, "--save", "--save-file", str(path)]
    native = {"TMFLOW_NATIVE_DIR": library_dir(), "TMFLOW_RESULTS_DIR": tmp_path, "TMFLOW_DB_URL": url}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=environment(**native)
    ) as process:
        assert process.stdout is not None
        try:
            first_line = process.stdout.readline()
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert first_line.startswith("round 1: ")
    (first, *_) = record.read(path)
    assert first.status == "ok"
    assert first.uid in set(queries.runs(engine.open_reader(make_url(url)), RunFilter(statuses=["ok"]))["uid"])
