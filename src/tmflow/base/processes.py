"""The processes that measure: one for each environment that variants need, asked one measurement at a time."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

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
