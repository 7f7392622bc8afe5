"""One timed trial at a time on a machine, whatever started it."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def machine_to_itself() -> Iterator[None]:
    """Hold the machine-wide lock of timed work; waits, and says so, while another process holds it.

    The kernel releases it when its holder ends, however it ends.
    """
    path = Path(tempfile.gettempdir()) / "tmflow-machine.lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("tmflow: another timed run has the machine; waiting for it to end.", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
