"""Named views: pages with their choices, stored by name in a small file, never in the database.

The file is JSON: {"<name>": {"page": "explore", "choices": {"experiment": ["fig-4.7"], ...}}}. Any number of processes
may read and write it: writes are atomic and serialised by a lock.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tmflow.base.errors import BadInput
from tmflow.base.files import write_json, writing
from tmflow.base.locks import locked
from tmflow.base.paths import results_dir

VARIABLE = "TMFLOW_VIEWS"
MOST = 200  # views in a file
LONGEST = 4000  # characters of a view's choices in the query of a link
NAME = re.compile(r"\w[\w .-]{0,58}\w|\w")


class View(BaseModel):
    """A page with its choices, as opened by a link."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    page: str = Field(pattern=r"^[a-z_]+$")
    choices: dict[str, list[str]]

    @property
    def query(self) -> str:
        """The choices as the query of a link, without its question mark; several values repeat their key."""
        return urlencode(self.choices, doseq=True)


_FILE = TypeAdapter(dict[str, View])


def path() -> Path:
    """The file of the named views: $TMFLOW_VIEWS, else views.json in the folder of the results."""
    override = os.environ.get(VARIABLE)
    return Path(override).expanduser().absolute() if override else results_dir() / "views.json"


def load_views(file: Path) -> dict[str, View]:
    """Load the views, sorted by name. Raises BadInput if the file cannot be read or holds something else."""
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadInput(f"the named views in {file} cannot be read: {error.strerror}.") from error
    try:
        views = _FILE.validate_json(text)
    except ValidationError as error:
        raise BadInput(f"{file} holds no named views: move it away to start a new file.") from error
    return dict(sorted(views.items()))


def save(file: Path, name: str, view: View) -> None:
    """Save a view under an unused name.

    Raises BadInput if the name is invalid or taken, the view is too long, there are too many views, or the file cannot
    be written.
    """
    if not NAME.fullmatch(name):
        raise BadInput(
            "a view's name has 1 to 60 letters, digits, blanks, '.', '-' and '_', and begins and ends with a letter, "
            "a digit or '_'."
        )
    if len(view.query) > LONGEST:
        raise BadInput(f"this view has {len(view.query)} characters; at most {LONGEST} are allowed: choose less.")
    with _exclusive(file):
        views = load_views(file)
        if name in views:
            raise BadInput(f"there is already a view '{name}': choose another name, or delete that view first.")
        if len(views) >= MOST:
            raise BadInput(f"there are {MOST} views, the maximum: delete one first.")
        _write(file, {**views, name: view})


def delete(file: Path, name: str) -> None:
    """Delete a view, if it exists. Raises BadInput if the file cannot be written."""
    with _exclusive(file):
        views = load_views(file)
        if views.pop(name, None):
            _write(file, views)


def refusal(file: Path) -> str | None:
    """The reason why no view can be saved in this file, as a sentence; None if views can be saved."""
    folder = next(folder for folder in file.parents if folder.exists())
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        return None
    return f"Views cannot be saved: {folder} is not writable."


def _write(file: Path, views: Mapping[str, View]) -> None:
    write_json(file, {name: view.model_dump() for name, view in views.items()})


@contextmanager
def _exclusive(file: Path) -> Iterator[None]:
    """Hold the writers' lock of the file; the kernel releases it when the process ends."""
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    with locked(
        file.with_name(f".{file.name}.lock"), "the lock of saved views", "another process saves a view; waiting"
    ):
        yield
