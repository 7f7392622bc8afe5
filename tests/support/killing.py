"""Processes killed from outside in the middle of their work, as in a power failure."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable

_FORK = multiprocessing.get_context("fork")  # a child that has imported all that it needs


def seconds_of(work: Callable[[], object]) -> float:
    """The seconds that a child of this process takes for the work."""
    start = time.perf_counter()
    child = _FORK.Process(target=work)
    child.start()
    child.join()
    assert child.exitcode == 0
    return time.perf_counter() - start


def kill_after(seconds: float, work: Callable[[], object]) -> bool:
    """Start the work in a child and kill it after this time; return whether it was killed before its end."""
    child = _FORK.Process(target=work)
    child.start()
    child.join(seconds)
    child.kill()
    child.join()
    assert child.exitcode in (0, -9)
    return child.exitcode != 0
