"""`tmflow bench apply` when its worker is killed, and the worker when the command is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
MANY_TURNS = (
    "--elements",
    "3211264",
    "--threads",
    "1",
    "--strategy",
    "lock,nolock",
    "--rounds",
    "30",
    "--gradient",
    "constant",
)


@contextmanager
def measuring() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A benchmark whose worker, the process of this id, has begun to measure."""
    command = [sys.executable, "-m", "tmflow", "bench", "apply", *MANY_TURNS]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        try:
            deadline = time.monotonic() + 300
            while (worker := busy_child(process.pid)) is None:
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.01)
            yield process, worker
        finally:
            process.kill()


def busy_child(pid: int) -> int | None:
    """The child that has used more CPU time than loading the library and checking a strategy takes."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if "tmflow.benchmark.worker_main" in Path(f"/proc/{child}/cmdline").read_text() and cpu_s(int(child)) > 1:
            return int(child)
    return None


def cpu_s(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / TICKS_PER_S


def test_a_killed_worker_is_a_sentence_and_the_rest_is_measured() -> None:
    with measuring() as (process, worker):
        os.kill(worker, signal.SIGKILL)
        printed, said = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "Traceback" not in said
    lost = re.findall(
        r"^(\S+) was not measured with 3,211,264 elements, 1 thread, gradient constant: (.*)\.$", printed, re.MULTILINE
    )
    assert [reason for _, reason in lost] == ["its process ended by SIGKILL"]
    rows = re.findall(r"^  (lock|nolock|\(mutex_loop.*?\)) ", printed, re.MULTILINE)
    rows += re.findall(r"; (memcpy) ", printed)
    mutexes = ["mutex_loop", *(f"mutex_loop:mutex={mutex}" for mutex in ("absl", "spin", "ticket", "mcs"))]
    assert sorted([*(row.strip("()") for row in rows), lost[0][0]]) == sorted(["lock", "nolock", "memcpy", *mutexes])


def test_an_interrupted_benchmark_ends_in_silence() -> None:
    with measuring() as (process, worker):
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        printed, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert printed == ""
    assert "Traceback" not in said
    assert not alive(worker)


def test_a_killed_benchmark_leaves_no_process() -> None:
    with measuring() as (process, worker):
        process.kill()
        process.wait()
        deadline = time.monotonic() + 60
        while alive(worker):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
