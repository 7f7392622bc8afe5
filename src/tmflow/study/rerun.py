"""The command that runs one experiment of the study again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from shlex import quote

from tmflow.errors import unknown


def rerun(experiment: str, scale: str = "full") -> str:
    """Measures what is missing of an experiment of config.yaml, stores it, and draws its figures; no other is run.

    To be typed in the folder of the project.
    """
    at = "" if scale == "full" else f" --scale {quote(scale)}"
    return f".venv/bin/tmflow study run{at} {quote(f'results/figures/{experiment}')}"


def require_known(arguments: Iterable[str], experiments: Iterable[str]) -> None:
    """Raise BadInput if one of the arguments is a folder of figures of an experiment that config.yaml does not have."""
    known = list(experiments)
    for path in map(PurePath, arguments):
        if path.parent.name == "figures" and path.name not in known:
            raise unknown("experiment", path.name, known)
