"""Child processes: workers with an environment of their own, calls of `tmflow` itself, and how they end."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from subprocess import PIPE
from types import TracebackType
from typing import Any, Self

import psutil

from tmflow.base.errors import BadInput

COMMAND = [sys.executable, "-m", "tmflow.benchmark.worker_main"]


class WorkerFailed(Exception):
    """A worker ended, or took too long, or could not do what it was asked; the message is part of a sentence."""


class TooLong(WorkerFailed):
    """It took too long, and was ended."""


class Worker:
    """A process of `tmflow.benchmark.worker_main`, started with more environment variables than this one has."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        pipe, merged = subprocess.PIPE, {**os.environ, **environment}
        self._process = subprocess.Popen(COMMAND, bufsize=0, stdin=pipe, stdout=pipe, env=merged)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        """The worker's answer to one request. After WorkerFailed other than by an "error" the worker is of no use."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
        except BrokenPipeError:
            raise WorkerFailed(self._how_it_ended()) from None
        answer: dict[str, Any] = json.loads(self._line(time.monotonic() + limit_s, limit_s))
        if "error" in answer:
            raise WorkerFailed(answer["error"])
        return answer

    def _line(self, deadline: float, limit_s: float) -> bytes:
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self.kill()
                raise TooLong(f"took longer than {limit_s:g} s")
            if not (part := os.read(pipe, 1 << 16)):
                raise WorkerFailed(self._how_it_ended())
            line += part
        return line

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def _how_it_ended(self) -> str:
        code = self._process.wait()
        return f"its process ended {f'by {signal.Signals(-code).name}' if code < 0 else f'with code {code}'}"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Let it end: it does at the end of its input."""
        self._process.communicate()


class Workers:
    """The workers of a benchmark, each started when it is first needed, and anew after it has ended."""

    def __init__(self) -> None:
        self._workers: dict[tuple[tuple[str, str], ...], Worker] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for worker in self._workers.values():
            if kind is None:
                worker.close()
            else:  # it may be in the middle of a measurement
                worker.kill()

    def of(self, environment: Mapping[str, str]) -> Worker:
        key = tuple(sorted(environment.items()))
        if key not in self._workers or self._workers[key].ended:
            self._workers[key] = Worker(environment)
        return self._workers[key]


class Ended(BadInput):
    """It took too long and was ended."""


def run_tmflow(*arguments: str, within_s: float, without_env: Collection[str], given: bytes = b"") -> str:
    """Run `tmflow` with these arguments and this standard input, and return what it prints.

    `without_env` names variables of the environment that it does not get.
    Raises BadInput with what it says where it only fails, and `Ended` where it takes too long.
    """
    environment = {name: value for name, value in os.environ.items() if name not in without_env}
    command = [sys.executable, "-m", "tmflow", *arguments]
    # A session of its own, so that what it starts is ended with it.
    with subprocess.Popen(
        command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, start_new_session=True
    ) as process:
        try:
            output, complained = process.communicate(given, timeout=within_s)
        except subprocess.TimeoutExpired as error:
            raise Ended(f"this took more than {within_s:g} s and was ended; nothing of it is kept.") from error
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode and not output:
        raise _failure(process.returncode, complained.decode(errors="replace").strip())
    return output.decode()


def _failure(code: int, complained: str) -> BadInput:
    if code == 2:
        return BadInput(complained.removeprefix("tmflow: "))
    print(complained, file=sys.stderr)  # a fault of the program: of use to whoever keeps the portal alone
    return BadInput("this went wrong; the log of the portal tells why.")


GRACE_S = 2.0  # then what did not end when asked to is killed
GIVE_UP_S = 4.0
PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>


class Stopped(Exception):
    """Somebody stopped a command; `code` is what a process ends with that the signal ended."""

    def __init__(self, message: str, cause: BaseException) -> None:
        super().__init__(message)
        self.code = int(cause.code or 0) if isinstance(cause, SystemExit) else 128 + signal.SIGINT


def adopt_orphans() -> None:
    """What a child leaves behind when it ends becomes this process's child, so that `end_children` finds it."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children() -> None:
    """End all children and theirs: first they are asked to, then killed. Deaf to further signals meanwhile."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    began, terminated = time.monotonic(), set[psutil.Process]()
    while (children := psutil.Process().children(recursive=True)) and time.monotonic() < began + GIVE_UP_S:
        for child in children:
            with suppress(psutil.NoSuchProcess):
                if time.monotonic() > began + GRACE_S:
                    child.kill()
                elif child not in terminated:
                    child.terminate()
        terminated.update(children)
        psutil.wait_procs(children, timeout=0.2)
    for number, handler in before.items():
        signal.signal(number, handler)
