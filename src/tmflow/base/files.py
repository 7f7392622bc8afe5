"""Files and folders that are never seen half-written."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tmflow.base.errors import LONGEST, BadInput

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# What only the state of a disk or somebody's rights bring about, never a fault of the program.
_REFUSED = (*_FULL, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EIO, errno.ENAMETOOLONG)


def write_text(path: Path, text: str) -> None:
    """The text as UTF-8, written by `write_bytes`."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write the content by `whole_file`."""
    with whole_file(path) as new, writing(path):
        new.write_bytes(content)


def require_name(path: Path) -> Path:
    """The path, unless it names nothing that could be written, as '', '.' and '/': raises BadInput then."""
    if not path.name:
        raise BadInput(f"'{path}' is a folder without a name of its own: name a file, or a new folder.")
    return path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A new file to fill, which takes the place of `path` when it is filled and on the disk; no other process has it.

    Raises BadInput where that cannot be.
    """
    new = require_name(path).with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            new.unlink(missing_ok=True)
            new.touch()
        yield new
        with writing(path):
            with new.open("rb") as file:
                os.fsync(file.fileno())
            new.replace(path)
    except BaseException:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A new folder to fill, which takes the place of `path` when it is filled: that is never seen half-filled."""
    new, old = (require_name(path).with_name(f".{path.name}.{age}") for age in ("new", "old"))
    for left_by_a_kill in (new, old):
        shutil.rmtree(left_by_a_kill, ignore_errors=True)
    with writing(path):
        new.mkdir(parents=True)
    try:
        yield new
        with writing(path):
            if path.exists():
                path.rename(old)
            new.rename(path)
    finally:
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise BadInput where `path` cannot be written: the disk is full, or a right is missing."""
    try:
        yield
    except OSError as error:
        advice = ": make room, and run the same command again" if error.errno in _FULL else ""
        raise BadInput(
            f"{path} cannot be written: {error.strerror}; what was written before is kept{advice}."
        ) from error


def refusal(error: OSError) -> str | None:
    """What to tell a user whose disk or rights do not allow something; None of an error that is not theirs."""
    if error.errno not in _REFUSED or not isinstance(error.filename, str | bytes):
        return None
    return f"{shortened(os.fsdecode(error.filename))} cannot be used: {error.strerror}."


def shortened(path: str) -> str:
    """A path for a sentence: of one that is too long to be any file's, the beginning."""
    return path if len(path) <= 4 * LONGEST else f"{path[:LONGEST]}..."


def require_writable(folder: Path) -> None:
    """Raise BadInput if something stands in the place of a folder, or it may not be written. None is as good as one."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder, but should be one: move it away.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput(f"the folder {folder} cannot be written: give this user the right to, or move it away.")


def write_json(path: Path, value: Any) -> None:
    """The value as indented JSON with sorted keys, written by `write_text`."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n")
