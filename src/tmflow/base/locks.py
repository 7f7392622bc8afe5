"""One timed trial at a time on a machine, whatever started it."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tmflow.base.errors import BadInput
from tmflow.base.paths import lock_dir


@contextmanager
def machine_to_itself() -> Iterator[None]:
    """Hold the machine-wide lock of timed work; waits, and says so, while another process holds it.

    The kernel releases it when its holder ends, however it ends. Raises BadInput where the lock cannot be had.
    """
    handle = _open()
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("tmflow: another timed run has the machine; waiting for it to end.", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _open() -> int:
    """Opened for reading, which is all that flock needs and all that another user's file may allow."""
    path = lock_dir() / "tmflow-machine.lock"
    try:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.fchmod(handle, 0o644)  # readable by all, whatever the umask
        except FileExistsError:
            handle = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise BadInput(f"the lock of timed work, {path}, cannot be opened: {error.strerror}.") from error
    return handle
