"""The measures that a claim may be about, and the schema's shared types."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from tmflow.spec.abort_codes import Family

Share = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Workers = Annotated[int, Field(ge=1, le=1024)]
Factors = dict[str, str | int | float]


class Closed(BaseModel):
    """A part of claims.yaml: unknown keys and values of another type are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


ShareOf = Literal["commits", "commits_of_attempts", "accuracy", "aborts", "attempts", "lock_waiting", "lock_holding"]
"""What a share is of. `aborts` and `attempts` need causes: the aborts for these causes are counted."""

COUNTED = ("aborts", "attempts")

_WORDS: dict[ShareOf | Literal["speed"], str] = {
    "speed": "speed",
    "commits": "share of updates that committed as a transaction",
    "commits_of_attempts": "share of committed attempts",
    "accuracy": "accuracy",
    "aborts": "share of aborts",
    "attempts": "share of attempts that aborted",
    "lock_waiting": "share of the workers' time spent waiting for locks",
    "lock_holding": "share of the workers' time without waiting spent holding locks",
}


class Measure(NamedTuple):
    """A measure of a run; `causes` are the abort causes that it counts."""

    name: ShareOf | Literal["speed"]
    causes: tuple[Family, ...] = ()

    @property
    def is_time(self) -> bool:
        return self.name in ("speed", "lock_waiting", "lock_holding")

    def __str__(self) -> str:
        """The measure in words."""
        causes = f" for {' or '.join(self.causes)}" if self.causes else ""
        return f"{_WORDS[self.name]}{causes}"


SPEED, ACCURACY = Measure("speed"), Measure("accuracy")
