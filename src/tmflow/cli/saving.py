"""What every command asks first that writes a file after long work."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tmflow.base.errors import BadInput


def require_writable(path: Path, name: str = "--save") -> None:
    """Before the work, so that its result has a place to go. Raises BadInput if there is none."""
    try:
        if path.exists() and not path.is_file():
            raise BadInput(f"{name} {path} is not a file: name a new file, or one to replace.")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=path.name, dir=path.parent):
            pass
    except OSError as error:
        raise BadInput(f"{name} {path} cannot be written: {error.strerror}.") from error
