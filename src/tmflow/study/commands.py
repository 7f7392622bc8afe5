"""The commands that repeat a run or an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Any


def rerun(experiment: str, scale: str = "full") -> str:
    """Measures what is missing of an experiment of config.yaml, stores it, and draws its figures; no other is run.

    To be typed in the folder of the project.
    """
    at = "" if scale == "full" else f" --scale {quote(scale)}"
    return f".venv/bin/tmflow study run{at} {quote(experiment)}"


def train_command(spec: Mapping[str, Any], round: int) -> str:
    """`tmflow train` with every factor of a spec that applies, and the seed that it has in this round (from 1)."""
    factors = {name: value for name, value in spec.items() if value is not None}
    factors["seed"] += round - 1
    words = [f"--{name.replace('_', '-')} {quote(str(value))}" for name, value in factors.items()]
    return " ".join(["tmflow train", *words])
