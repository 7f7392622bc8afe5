"""Benchmark files of updates, reads and steps: the measurements and the machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError

from tmflow.base.documents import keys_at, sentence
from tmflow.base.errors import BadInput
from tmflow.base.files import write_json
from tmflow.benchmark.rows import (
    Closed,
    Copied,
    Header,
    Row,
    TimedReference,
    TimedVariant,
    TurnsHeader,
    Written,
    facts_here,
)
from tmflow.benchmark.updates import Outcome, Plan
from tmflow.runfile.record import MachineState


class Saved(TurnsHeader):
    """A saved benchmark of updates."""

    kind: Literal["tmflow bench apply"] = "tmflow bench apply"
    rows: list[TimedVariant | TimedReference | Copied | Written] = Field(description="as printed with --json")


def make_saved(plan: Plan, outcome: Outcome, rows: list[Row], machine: MachineState, measured_at_utc: str) -> Saved:
    """Combine a new measurement with the facts of this machine."""
    return Saved(
        measured_at_utc=measured_at_utc,
        rounds=plan.rounds,
        seed=plan.seed,
        cpus_allowed=plan.cpus,
        machine=machine,
        rows=rows,
        left_out=outcome.left_out,
        **facts_here(),
    )


def write(path: Path, benchmark: Header) -> None:
    write_json(path, benchmark.model_dump(mode="json"))


def read(path: Path) -> Saved:
    """Read a benchmark of updates. Raises BadInput if the file is missing or not from `tmflow bench apply --save`."""
    return read_as(path, {"tmflow bench apply": Saved})


Kind = TypeVar("Kind", bound=Header)


def read_as(path: Path, kinds: Mapping[str, type[Kind]]) -> Kind:
    """Read a benchmark of one of these kinds. Raises BadInput if the file is missing or of another kind."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise BadInput(f"{path} is no file of `{' --save`, `'.join(kinds)} --save`: it is not JSON.") from error
    kind = str(content.get("kind")) if isinstance(content, dict) else "missing"
    if kind not in kinds:
        raise BadInput(f"{path}: kind is {kind!r}, but should be {' or '.join(map(repr, kinds))}.")
    try:
        return kinds[kind].model_validate(content)
    except ValidationError as error:
        raise sentence(error, str(path), keys_at(kinds[kind], error)) from error


class Read(Closed):
    """The cost of a read. us: wall time over all reads of all readers; low, high: bounds of 95 % intervals."""

    name: str
    variant: str
    strategy: str
    consistent: bool = Field(description="by way of the strategy; else a plain copy")
    promise: str = Field(description="of such a read")
    elements: int
    readers: int
    writers: int
    oversubscribed: bool
    us_per_read: float
    us_low: float | None
    us_high: float | None
    us_by_round: list[float | None] = Field(description="None where it had no turn")
    ratio: float | None = Field(description="over a plain copy under the same variant, paired in rounds")
    ratio_low: float | None
    ratio_high: float | None
    reads_per_s: float
    updates_per_s: float
    checked: int = Field(description="reads that were looked at, off the clock")
    torn_fraction: float = Field(description="of those, with elements that were never in the variable together")
    rounds: int

    @property
    def kept(self) -> bool:
        """Whether it kept its guarantee: no torn reads if the guarantee covers the variable."""
        return self.torn_fraction == 0 or self.promise not in ("tensor", "step")


class SavedReads(TurnsHeader):
    """A saved benchmark of reads."""

    kind: Literal["tmflow bench read"] = "tmflow bench read"
    rows: list[Read]


class Step(Closed):
    """The cost of a step. us: wall time of the workers' loops over all steps of all workers.

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
    """A saved benchmark of steps; configurations without a finished run are left out."""

    kind: Literal["tmflow bench step"] = "tmflow bench step"
    dataset: str
    rows: list[Step]
