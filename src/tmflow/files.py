"""Files that are never seen half-written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> None:
    """The text as UTF-8, written by `write_bytes`."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write to a temporary name beside `path`, fsync, rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".tmp")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def write_json(path: Path, value: Any) -> None:
    """The value as indented JSON with sorted keys, written by `write_text`."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n")
