"""Who holds the machine: a study that lives, one that was killed and left something at work, nobody."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tmflow.errors import BadInput
from tmflow.study.holding import machine_for_a_study, results_to_itself

# A study with a child that has inherited the lock, and which ends when its standard input does.
STUDY = """
import subprocess, sys
from pathlib import Path
from tmflow.study.holding import machine_for_a_study
with machine_for_a_study(Path(sys.argv[1])) as lock:
    child = subprocess.Popen(["cat"], pass_fds=(lock,))
    print("holds", flush=True)
    child.wait()
"""
STEP = """
import sys
from pathlib import Path
from tmflow.study.holding import step_at_work
step_at_work(Path(sys.argv[1]))
print("works", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMFLOW_LOCK_DIR", str(tmp_path))
    return tmp_path / "results"


def started(code: str, results: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(results)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    process.stdout.readline()
    return process


@pytest.fixture
def study(results: Path) -> Iterator[subprocess.Popen[str]]:
    with started(STUDY, results) as process:
        yield process


def test_a_study_that_lives_is_named(study: subprocess.Popen[str], results: Path) -> None:
    for mine in (results, results.with_name("others")):
        with pytest.raises(BadInput, match=rf"holds this machine: process {study.pid}, since 20.*folder {results};"):
            machine_for_a_study(mine).__enter__()


def test_what_a_killed_study_left_is_waited_for_in_its_own_folder_alone(
    study: subprocess.Popen[str], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study.kill()
    study.wait()
    with pytest.raises(BadInput, match=rf"it was killed, and what it began in {results} is not at its end"):
        machine_for_a_study(results.with_name("others")).__enter__()
    assert study.stdin
    threading.Timer(0.2, study.stdin.close).start()
    with machine_for_a_study(results):
        assert study.stdin.closed, "it did not wait"
    assert f"a study that was killed still works on {results}; waiting for it to end" in capsys.readouterr().err
    with machine_for_a_study(results.with_name("others")):
        pass


def test_a_step_that_outlives_its_study_is_waited_for(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [started(STEP, results) for _ in range(2)]  # steps do not wait for each other
    ending = threading.Timer(0.2, lambda: [step.communicate() for step in steps])
    ending.start()
    with results_to_itself(results):
        assert all(step.stdin and step.stdin.closed for step in steps), "it did not wait"
    assert f"still at work in {results}; waiting for it to end" in capsys.readouterr().err
    ending.join()
