"""The measures that a claim may be about, and the schema's shared types."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field

from tmflow.spec.abort_codes import Family

Share = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Workers = Annotated[int, Field(ge=1, le=1024)]
Factors = dict[str, str | int | float]


class Closed(BaseModel):
    """A part of claims.yaml: unknown keys and values of another type are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


ShareOf = Literal[
    "commits", "commits_of_attempts", "accuracy", "accuracy_spread", "aborts", "attempts", "lock_waiting",
    "lock_holding",
]  # fmt: skip
"""What a share is of. `aborts` and `attempts` need causes: the aborts for these causes are counted.

`accuracy_spread` is the standard deviation of the accuracy between the trials of a round, which have equal seeds.
"""

COUNTED = ("aborts", "attempts")

SpeedOf = Literal["speed", "speed_of_others"]
"""The speed of a trial, in steps per second; and that of one of its workers, all but the last, by their own clocks.

The last worker of a cluster is the one that may be slowed down.
"""

_WORDS: dict[ShareOf | SpeedOf, str] = {
    "speed": "speed",
    "speed_of_others": "speed of the workers other than the last",
    "commits": "share of updates that committed as a transaction",
    "commits_of_attempts": "share of committed attempts",
    "accuracy": "accuracy",
    "accuracy_spread": "standard deviation of the accuracy between trials with equal seeds",
    "aborts": "share of aborts",
    "attempts": "share of attempts that aborted",
    "lock_waiting": "share of the workers' time spent waiting for locks",
    "lock_holding": "share of the workers' time without waiting spent holding locks",
}


class Measure(NamedTuple):
    """A measure of a run; `causes` are the abort causes that it counts."""

    name: ShareOf | SpeedOf
    causes: tuple[Family, ...] = ()

    @property
    def is_time(self) -> bool:
        return self.is_speed or self.name in ("lock_waiting", "lock_holding")

    @property
    def is_speed(self) -> bool:
        """Whether values are compared by their ratio."""
        return self.name in get_args(SpeedOf)

    @property
    def is_spread(self) -> bool:
        """Whether a round's value is the spread of its trials, not their average."""
        return self.name == "accuracy_spread"

    def __str__(self) -> str:
        """The measure in words."""
        causes = f" for {' or '.join(self.causes)}" if self.causes else ""
        return f"{_WORDS[self.name]}{causes}"


SPEED, SPEED_OF_OTHERS, ACCURACY = Measure("speed"), Measure("speed_of_others"), Measure("accuracy")
