"""Checks run files in several processes, with results in the order of the bundle."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from itertools import cycle
from pathlib import Path
from typing import IO, Any, TypeVar

from tmflow.bundle import format
from tmflow.bundle.checker import Checker
from tmflow.bundle.problems import Findings
from tmflow.bundle.reader import Bundle, open_bundle
from tmflow.platform.environment import cpus_allowed

Made = TypeVar("Made")

WORTH_IT = 50 * format.MIB  # a process takes most of a second to start, the time to check this many bytes
AT_MOST = 4


Work = Callable[[str], tuple[Findings, Made]]
"""Checks a run file and returns its findings with a result of the caller's choice."""
Prepare = Callable[[Bundle, Checker], Work[Made]]
"""A module-level function, importable by another process."""


def run_files(bundle: Bundle, checker: Checker, prepare: Prepare[Made]) -> Iterator[tuple[Findings, Made]]:
    """Yield the work on each run file, in order; large bundles are checked by several processes."""
    members = bundle.run_members()
    n_bytes = sum(entry.bytes for entry in bundle.manifest if format.is_run_file(entry.path))
    n = min(cpus_allowed() or os.cpu_count() or 1, AT_MOST, len(members))
    if n < 2 or n_bytes < WORTH_IT:
        yield from map(prepare(bundle, checker), members)
        return
    with ExitStack() as stack:
        pipes = [stack.enter_context(_process(bundle, n, number, prepare)) for number in range(n)]
        # A process that is ahead blocks on its full pipe, so neither side holds much in memory.
        for _, pipe in zip(members, cycle(pipes), strict=False):
            result: tuple[Findings, Made] = _result(pipe)
            yield result


@contextmanager
def _process(bundle: Bundle, n: int, number: int, prepare: Prepare[Made]) -> Iterator[IO[bytes]]:
    """Run a process that works on every n-th run file; it is killed at the end of the block."""
    whose = [prepare.__module__, prepare.__name__, str(bundle.path), bundle.identity, str(n), str(number)]
    # -P: the current folder may be where the bundle was downloaded to, with untrusted modules.
    command = [sys.executable, "-P", "-m", "tmflow.bundle.parallel", *whose]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()


def _result(pipe: IO[bytes]) -> Any:
    try:
        return pickle.load(pipe)
    except EOFError as error:
        raise RuntimeError("a process that checks run files ended early") from error


def main(module: str, prepare: str, path: str, identity: str, n: str, number: str) -> None:
    with open_bundle(Path(path)) as bundle:
        if bundle.identity != identity:
            raise RuntimeError(f"{path} changed to another bundle")
        work = getattr(import_module(module), prepare)(bundle, Checker(bundle))
        for member in bundle.run_members()[int(number) :: int(n)]:
            pickle.dump(work(member), sys.stdout.buffer)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # if the parent was killed, writing ends it
    main(*sys.argv[1:])
