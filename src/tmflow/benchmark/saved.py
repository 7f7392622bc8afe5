"""A benchmark as a file: all that it measured, and of which machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field, ValidationError

from tmflow.base.errors import BadInput
from tmflow.base.files import write_json
from tmflow.base.validation import keys_at, sentence
from tmflow.benchmark.header import Header, TurnsHeader, facts_here
from tmflow.benchmark.plan import Plan
from tmflow.benchmark.rows import Copied, Row, TimedReference, TimedVariant, Written
from tmflow.benchmark.updates import Outcome
from tmflow.runfile.record import MachineState


class Saved(TurnsHeader):
    """All of a benchmark of updates."""

    kind: Literal["tmflow bench apply"] = "tmflow bench apply"
    rows: list[TimedVariant | TimedReference | Copied | Written] = Field(description="as printed with --json")


def saved(plan: Plan, outcome: Outcome, rows: list[Row], machine: MachineState, measured_at_utc: str) -> Saved:
    """The benchmark just measured, with the facts of this machine."""
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
    """Raises BadInput for a file that is not there, or is none of `tmflow bench apply --save`."""
    return read_as(path, {"tmflow bench apply": Saved})


Kind = TypeVar("Kind", bound=Header)


def read_as(path: Path, kinds: Mapping[str, type[Kind]]) -> Kind:
    """A saved benchmark of one of these kinds. Raises BadInput for a file that is not there, or is none."""
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
