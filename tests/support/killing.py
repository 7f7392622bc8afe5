"""Work that is killed in the middle, from outside: nothing of the process runs any more, as when the power goes."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable

_FORK = multiprocessing.get_context("fork")  # a child has imported all that it needs


def seconds_of(work: Callable[[], object]) -> float:
    """How long the work takes a child of this process."""
    start = time.perf_counter()
    child = _FORK.Process(target=work)
    child.start()
    child.join()
    assert child.exitcode == 0
    return time.perf_counter() - start


def kill_after(seconds: float, work: Callable[[], object]) -> bool:
    """Begin the work in a child, and kill that after so long; whether it was killed before its end."""
    child = _FORK.Process(target=work)
    child.start()
    child.join(seconds)
    child.kill()
    child.join()
    assert child.exitcode in (0, -9)
    return child.exitcode != 0
