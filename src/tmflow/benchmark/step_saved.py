"""A benchmark of steps as a file: all that it measured, and of which machine."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from tmflow.benchmark.header import Header
from tmflow.benchmark.rows import Closed


class Step(Closed):
    """What a step of a configuration costs. us: wall time of the workers' loops over all steps of all workers.

    `low` and `high` bound 95 % intervals over the rounds, on the log scale for times; None with one round.
    """

    name: str
    factors: dict[str, Any]
    promise: str = Field(description="of updates of the model's large variables")
    us_per_step: float
    us_low: float | None
    us_high: float | None
    us_by_round: list[float | None] = Field(description="None where it did not run")
    ratio_to: str
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    accuracy: float = Field(description="of the test images, mean over the rounds")
    rounds: int
    disturbed_rounds: int


class SavedSteps(Header):
    """All of a benchmark of steps; left out are configurations without a single run that came to its end."""

    kind: Literal["tmflow bench step"] = "tmflow bench step"
    dataset: str
    rows: list[Step]
