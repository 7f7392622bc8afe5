"""The lock of timed work: a machine runs one timed trial at a time, whatever started it."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tmflow.base.errors import BadInput
from tmflow.base.paths import lock_dir


@contextmanager
def machine_to_itself() -> Iterator[None]:
    """Hold the machine-wide lock of timed work; wait, with a message, while another process holds it.

    The kernel releases the lock when its holder ends, even if it is killed. Raises BadInput if it cannot be opened.
    """
    handle = _open_lock(lock_dir() / "tmflow-machine.lock")
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("tmflow: another timed run uses this machine; waiting for it to end.", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _open_lock(path: Path) -> int:
    """Open a lock for reading: flock needs no more access, and another user's file may allow no more."""
    try:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.fchmod(handle, 0o644)  # readable by all, regardless of the umask
        except FileExistsError:
            handle = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise BadInput(f"the lock of timed work, {path}, cannot be opened: {error.strerror}.") from error
    return handle
