"""Files and folders that are never seen half-written, and may come and go."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tmflow.base.errors import DISK_FULL, BadInput


def read_present(path: Path) -> bytes:
    """The content of a file; nothing if it is not there, or another process has removed it just now."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8 by `write_bytes`."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with whole_file(path) as new, writing(path):
        new.write_bytes(content)


def require_name(path: Path) -> Path:
    """Return the path. Raises BadInput if it names no file, like '', '.' and '/'."""
    if not path.name:
        raise BadInput(f"'{path}' has no name: name a file, or a new folder.")
    return path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a new file, which replaces `path` atomically once it is complete and on the disk.

    Raises BadInput if that fails.
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
    """Yield a new folder, which replaces `path` once it is complete: no reader sees a half-filled folder."""
    new, old = (require_name(path).with_name(f".{path.name}.{age}") for age in ("new", "old"))
    _restore(path, old)  # after a kill
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
        _restore(path, old)
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)


def _restore(path: Path, old: Path) -> None:
    """Give a folder its name back whose replacement ended between the two renames."""
    if old.exists() and not path.exists():
        with writing(path):
            old.rename(path)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise BadInput if `path` cannot be written: the disk is full, or permission is denied."""
    try:
        yield
    except OSError as error:
        advice = ": make room, and run the same command again" if error.errno in DISK_FULL else ""
        raise BadInput(
            f"{path} cannot be written: {error.strerror}; what was written before is kept{advice}."
        ) from error


def require_writable(folder: Path) -> None:
    """Raise BadInput if the path is no folder, or cannot be written; a missing folder is fine."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise BadInput(f"{folder} is not a folder, but must be one: move it away.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput(f"the folder {folder} cannot be written: give this user write permission, or move it away.")


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON with sorted keys, atomically."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n")
