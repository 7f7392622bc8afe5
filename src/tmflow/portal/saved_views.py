"""Named views: pages with their choices, kept under a name in a small file of their own, never in the database.

The file is JSON: {"<name>": {"page": "explore", "choices": {"experiment": ["fig-4.7"], ...}}}. Any number of processes
may read and write it: a reader sees it whole, writers wait for each other.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tmflow.base.errors import BadInput
from tmflow.base.files import write_json, writing
from tmflow.base.paths import results_dir

VARIABLE = "TMFLOW_VIEWS"
MOST = 200  # views in a file
LONGEST = 4000  # characters of a view's choices as the query of a link
NAME = re.compile(r"\w[\w .-]{0,58}\w|\w")


class View(BaseModel):
    """What a link opens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    page: str = Field(pattern=r"^[a-z_]+$")
    choices: dict[str, list[str]]

    @property
    def query(self) -> str:
        """The choices as the query of a link, without its question mark."""
        return query(self.choices)


_FILE = TypeAdapter(dict[str, View])


def path() -> Path:
    """The file of the named views: $TMFLOW_VIEWS, else views.json in the folder of the results."""
    override = os.environ.get(VARIABLE)
    return Path(override).expanduser().absolute() if override else results_dir() / "views.json"


def query(choices: Mapping[str, Sequence[str]]) -> str:
    """Choices as the query of a link: a choice of several values is given several times."""
    return urlencode(choices, doseq=True)


def saved(file: Path) -> dict[str, View]:
    """The views by their names, in their order. Raises BadInput if the file cannot be read or holds something else."""
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadInput(f"the named views in {file} cannot be read: {error.strerror}.") from error
    try:
        views = _FILE.validate_json(text)
    except ValidationError as error:
        raise BadInput(f"{file} holds no named views: move it away, and a new one is made.") from error
    return dict(sorted(views.items()))


def save(file: Path, name: str, view: View) -> None:
    """Keep a view under a name that is free.

    Raises BadInput for a name that is none or taken, for a view that is too long or one too many, and where the file
    cannot be written.
    """
    if not NAME.fullmatch(name):
        raise BadInput(
            "a view's name has 1 to 60 letters, digits, blanks, '.', '-' and '_', and begins and ends with a letter, "
            "a digit or '_'."
        )
    if len(view.query) > LONGEST:
        raise BadInput(f"this view has {len(view.query)} characters, and at most {LONGEST} are kept: choose less.")
    with _alone(file):
        views = saved(file)
        if name in views:
            raise BadInput(f"there is a view '{name}' already: choose another name, or delete that one first.")
        if len(views) >= MOST:
            raise BadInput(f"there are {MOST} views, and no more are kept: delete one first.")
        _write(file, {**views, name: view})


def delete(file: Path, name: str) -> None:
    """Forget a view; nothing happens if there is none. Raises BadInput where the file cannot be written."""
    with _alone(file):
        views = saved(file)
        if views.pop(name, None):
            _write(file, views)


def refusal(file: Path) -> str | None:
    """Why no view can be saved in this file, as one sentence; None if it can."""
    folder = next(folder for folder in file.parents if folder.exists())
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        return None
    return f"No view can be saved here: {folder} cannot be written."


def _write(file: Path, views: Mapping[str, View]) -> None:
    write_json(file, {name: view.model_dump() for name, view in views.items()})


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Hold the lock of the file's writers; the kernel releases it when its holder ends, however it ends."""
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(file.with_name(f".{file.name}.lock"), os.O_RDONLY | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
