"""The holder of the machine's lock: a running study, a killed one that left processes behind, or nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from tmflow.base.errors import BadInput, Stopped
from tmflow.workflow import locking
from tmflow.workflow.locking import machine_lock, results_lock

# A study with a child that has inherited the lock, and which ends when its standard input does.
STUDY = """
import subprocess, sys
from pathlib import Path
from tmflow.workflow.locking import machine_lock
with machine_lock(Path(sys.argv[1])) as lock:
    child = subprocess.Popen(["cat"], pass_fds=(lock,))
    print("holds", flush=True)
    child.wait()
"""
STEP = """
import sys
from pathlib import Path
from tmflow.workflow.locking import hold_for_step
hold_for_step(Path(sys.argv[1]))
print("works", flush=True)
sys.stdin.read()
"""
STEP_WITH_CHILD = """
import subprocess, sys
from pathlib import Path
from tmflow.workflow.locking import hold_for_step
hold_for_step(Path(sys.argv[1]))
child = subprocess.Popen(["sleep", "600"], close_fds=False)
print("works", flush=True)
print(child.pid, flush=True)
child.wait()
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
            machine_lock(mine).__enter__()


def test_what_a_killed_study_left_is_waited_for_in_its_own_folder_alone(
    study: subprocess.Popen[str],
    results: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study.kill()
    study.wait()
    with pytest.raises(BadInput, match=rf"it was killed, but its processes are still at work in {results}; wait for"):
        machine_lock(results.with_name("others")).__enter__()
    assert study.stdin
    (child,) = at_work(results.parent / "tmflow-study.lock")

    def close_and_sleep(_: float) -> None:
        """It ends once it was found at work."""
        assert study.stdin
        study.stdin.close()
        time.sleep(0.01)

    monkeypatch.setattr(locking, "time", SimpleNamespace(monotonic=time.monotonic, sleep=close_and_sleep))
    with machine_lock(results):
        assert study.stdin.closed, "it did not wait"
    assert capsys.readouterr().err == (
        f"tmflow: a process that a killed study left is still at work in {results} (process {child}); "
        "waiting for it to end.\n"
    )
    with machine_lock(results.with_name("others")):
        pass


def at_work(lock: Path) -> list[int]:
    """The other processes that have the lock open."""
    pids = set()
    for handle in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):  # of another user, or ended
            if handle.readlink() == lock:
                pids.add(int(handle.parts[2]))
    return sorted(pids - {os.getpid()})


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_who_stops_the_wait_is_told_that_the_other_goes_on_and_how_to_end_it(
    study: subprocess.Popen[str], results: Path, stop: BaseException, code: int
) -> None:
    study.kill()
    study.wait()
    (child,) = at_work(results.parent / "tmflow-study.lock")

    def stopped(ended: Callable[[float], bool]) -> None:
        assert not ended(0)
        raise stop

    with pytest.raises(Stopped) as caught:
        machine_lock(results, stopped).__enter__()
    assert caught.value.code == code
    assert str(caught.value) == (
        f"stopped waiting; a process that a killed study left is still at work in {results} (process {child}), and "
        f"continues; `kill {child}` ends it."
    )
    os.kill(child, signal.SIGTERM)


def test_what_is_waited_for_is_watched(study: subprocess.Popen[str], results: Path) -> None:
    study.kill()
    study.wait()
    said: list[bool] = []

    def watch(ended: Callable[[float], bool]) -> None:
        said.append(ended(0))
        assert study.stdin
        study.stdin.close()
        said.append(ended(60))

    with machine_lock(results, watch):
        assert said == [False, True]


def test_a_folder_of_locks_that_is_none(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMFLOW_LOCK_DIR", str(results / "none"))
    with pytest.raises(BadInput, match=r"lock of studies, .*/none/tmflow-study\.lock, cannot be opened: No such file"):
        machine_lock(results).__enter__()


def test_a_step_that_outlives_its_study_is_waited_for(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [started(STEP, results) for _ in range(2)]  # steps do not wait for each other
    said: list[bool] = []

    def watch(ended: Callable[[float], bool]) -> None:
        for step in steps:
            said.append(ended(0))
            step.communicate()
        said.append(ended(60))

    with results_lock(results, watch):
        assert said == [False, False, True], "it did not wait for both"
    pids = ", ".join(str(pid) for pid in sorted(step.pid for step in steps))
    assert f"still at work in {results} (processes {pids}); waiting for it to end" in capsys.readouterr().err


def test_what_a_step_has_started_is_at_work_too_where_it_inherits_that(results: Path) -> None:
    with started(STEP_WITH_CHILD, results) as step:
        child = int(step.stdout.readline()) if step.stdout else 0
        step.kill()
        step.wait()
        said: list[bool] = []

        def watch(ended: Callable[[float], bool]) -> None:
            said.append(ended(0))
            os.kill(child, signal.SIGKILL)
            said.append(ended(60))

        with results_lock(results, watch):
            assert said == [False, True]
