"""The commands that repeat a run or an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Any


def rerun(experiment: str, scale: str = "full") -> str:
    """The command that measures the missing rounds of one experiment, stores them and draws its figures.

    It must be run in the folder of the project.
    """
    at = "" if scale == "full" else f" --scale {quote(scale)}"
    return f".venv/bin/tmflow study run{at} {quote(experiment)}"


def train_command(spec: Mapping[str, Any], round: int) -> str:
    """The `tmflow train` command with every factor of a spec that applies, and the seed of this round (from 1)."""
    factors = {name: value for name, value in spec.items() if value is not None}
    factors["seed"] += round - 1
    words = [f"--{name.replace('_', '-')} {quote(str(value))}" for name, value in factors.items()]
    return " ".join(["tmflow train", *words])
