"""Locks between processes: of timed work, because a machine runs one timed trial at a time, and of single files."""

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
    path = lock_dir() / "tmflow-machine.lock"
    with locked(path, "the lock of timed work", "another timed run uses this machine; waiting for it to end"):
        yield


@contextmanager
def locked(path: Path, name: str, waiting: str) -> Iterator[int]:
    """Hold the lock that is the file `path`; while another process or thread holds it, print `waiting` and wait.

    name: what a message calls the lock. Yields its file descriptor: a child process that inherits it holds the lock,
    too, until it ends. Raises BadInput if the file cannot be opened or locked.
    """
    handle = _open_lock(path, name)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"tmflow: {waiting}.", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            raise BadInput(f"{name}, {path}, cannot be locked: {error.strerror}.") from error
        yield handle
    finally:
        os.close(handle)


def _open_lock(path: Path, name: str) -> int:
    """Open a lock for writing, which flock needs on NFS, or for reading: another user's file may allow no more."""
    try:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
            os.fchmod(handle, 0o644)  # readable by all, regardless of the umask
        except FileExistsError:
            try:
                handle = os.open(path, os.O_RDWR)
            except OSError:  # no permission, or a file system that is read-only
                handle = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise BadInput(f"{name}, {path}, cannot be opened: {error.strerror}.") from error
    return handle
