"""Child processes: workers with specific environments, calls of `tmflow`, and how they are ended."""

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
    """A worker ended, timed out or could not fulfil a request; the message is part of a sentence."""


class TooLong(WorkerFailed):
    """A worker timed out and was killed."""


class Worker:
    """A process of `tmflow.benchmark.worker_main` with additional environment variables."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        pipe, merged = subprocess.PIPE, {**os.environ, **environment}
        self._process = subprocess.Popen(COMMAND, bufsize=0, stdin=pipe, stdout=pipe, env=merged)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        """Send a request and return the answer. After WorkerFailed, unless for an "error", the worker is unusable."""
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
        """Close the input of the worker, which ends it."""
        self._process.communicate()


class Workers:
    """The workers of a benchmark: each starts when first needed, and is restarted after it has ended."""

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
    """A call of `tmflow` timed out and was killed."""


def run_tmflow(*arguments: str, within_s: float, without_env: Collection[str], given: bytes = b"") -> str:
    """Run `tmflow` with these arguments and this standard input, and return its output.

    `without_env` names environment variables that it does not inherit. Raises BadInput with its message if it fails,
    and `Ended` if it times out.
    """
    environment = {name: value for name, value in os.environ.items() if name not in without_env}
    command = [sys.executable, "-m", "tmflow", *arguments]
    # A new session, so that its children are killed with it.
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
        message = complained.decode(errors="replace").strip()
        if process.returncode == 2:
            raise BadInput(message.removeprefix("tmflow: "))
        print(message, file=sys.stderr)  # a bug: only the host of the portal can use the message
        raise BadInput("this failed; the log of the portal has the reason.")
    return output.decode()


GRACE_S = 2.0  # children that have not terminated by then are killed
GIVE_UP_S = 4.0
PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>


def adopt_orphans() -> None:
    """Make orphans of child processes children of this process, so that `end_children` finds them."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children() -> None:
    """Terminate all descendants, and kill the rest after `GRACE_S`. Ignores further signals meanwhile."""
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
