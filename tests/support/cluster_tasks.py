"""Tasks of a cluster as a person starts them, each by a command, in processes that end with the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import yaml

from tests.conftest import environment
from tmflow.training.cluster.addresses import Addresses

OPTIONS = ("--dataset", "digits", "--batch", "5", "--iterations", "40", "--test-images", "50")
LIMIT_S = 120

Begin = Callable[..., subprocess.Popen[str]]


@contextmanager
def tasks(addresses: Addresses, folder: Path) -> Iterator[Begin]:
    """Start tasks of the cluster; at the end no process of any task may be left.

    A task begins with its job, its index and options; `inside` is a command that runs it elsewhere, and all other names
    are variables of its environment.
    """
    file = folder / "cluster.yaml"
    file.write_text(yaml.safe_dump(addresses.model_dump()))
    processes: list[subprocess.Popen[str]] = []

    def begin(
        job: str, index: int, *options: str, inside: Sequence[str] = (), **variables: str | Path | None
    ) -> subprocess.Popen[str]:
        place = ("--job", job, "--index", str(index), "--spec", str(file))
        command = [*inside, sys.executable, "-m", "tmflow", "cluster", "task", *place, *OPTIONS, *options]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**variables)
        )
        processes.append(process)
        return process

    try:
        yield begin
    finally:
        left = [process.pid for process in processes if psutil.pid_exists(process.pid) and process.poll() is None]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    assert not left


def ended(process: subprocess.Popen[str]) -> tuple[int, str, list[str]]:
    """The exit code of a process, its output, and the sentences that it told."""
    output, told = process.communicate(timeout=LIMIT_S)
    return process.returncode, output, [line for line in told.splitlines() if line.startswith("tmflow: ")]


def wait_for(process: subprocess.Popen[str], sentence: str) -> None:
    """Wait until a process tells this."""
    assert process.stderr is not None
    for line in process.stderr:
        if sentence in line:
            return
    raise AssertionError(f"it ended without the words '{sentence}'")
