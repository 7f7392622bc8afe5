"""The command that runs one experiment of the study again."""

from __future__ import annotations

from shlex import quote


def rerun(experiment: str, scale: str = "full") -> str:
    """Measures what is missing of an experiment of config.yaml, stores it, and draws its figures; no other is run.

    To be typed in the folder of the project.
    """
    at = "" if scale == "full" else f" --scale {quote(scale)}"
    return f".venv/bin/tmflow study run{at} {quote(experiment)}"
