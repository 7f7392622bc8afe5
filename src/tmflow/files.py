"""Files that are never seen half-written."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tmflow.errors import BadInput

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_text(path: Path, text: str) -> None:
    """The text as UTF-8, written by `write_bytes`."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write to a temporary name beside `path`, fsync, rename. Raises BadInput where there is no room for it."""
    partial = path.with_name(path.name + ".tmp")
    try:
        with room_for(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
    except BadInput:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def room_for(path: Path) -> Iterator[None]:
    """Raise BadInput where the disk, or what a user may have of it, is full. Other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise BadInput(
            f"{path} cannot be written: {error.strerror}; what was written before is kept: make room, and run the same "
            "command again."
        ) from error


def write_json(path: Path, value: Any) -> None:
    """The value as indented JSON with sorted keys, written by `write_text`."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n")
