"""A benchmark as a file: all that it measured, and of which machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError

from tmflow.bench.measure import Outcome
from tmflow.bench.plan import Plan
from tmflow.bench.rows import Closed, Copied, Row, TimedReference, TimedVariant
from tmflow.errors import BadInput
from tmflow.files import write_json
from tmflow.native import registry
from tmflow.platform.environment import environment_facts
from tmflow.platform.facts import platform_facts
from tmflow.platform.software import software
from tmflow.runner.runfile import MachineState, Software
from tmflow.validation import keys_at, sentence


class Left(Closed):
    """What was not measured, and why; `elements` and `threads` are None where it cannot run at all."""

    name: str
    reason: str
    elements: int | None
    threads: int | None
    failed: bool


class Saved(Closed):
    """All of a benchmark. `machine` is what else the machine did meanwhile."""

    schema_version: Literal[1] = 1
    kind: Literal["tmflow bench apply"] = "tmflow bench apply"
    measured_at_utc: str
    rounds: int
    seed: int
    cpus_allowed: int
    platform: dict[str, Any]
    environment: dict[str, Any]
    software: Software
    machine: MachineState
    rows: list[TimedVariant | TimedReference | Copied] = Field(description="as printed with --json")
    left_out: list[Left]


def saved(plan: Plan, outcome: Outcome, rows: list[Row], machine: MachineState, measured_at_utc: str) -> Saved:
    """The benchmark just measured, with the facts of this machine."""
    build = registry.build_info()
    return Saved(
        measured_at_utc=measured_at_utc,
        rounds=plan.rounds,
        seed=plan.seed,
        cpus_allowed=plan.cpus,
        platform=platform_facts(),
        environment=environment_facts(registry.tm_probe()),
        software=software(compiler=build.compiler, cflags=build.cflags),
        machine=machine,
        rows=rows,
        left_out=[
            Left(name=one.subject, reason=one.reason, failed=one.failed, elements=elements, threads=threads)
            for one in outcome.omitted
            for elements, threads in [one.cell or (None, None)]
        ],
    )


def write(path: Path, benchmark: Closed) -> None:
    write_json(path, benchmark.model_dump(mode="json"))


def read(path: Path) -> Saved:
    """Raises BadInput for a file that is not there, or is none of `tmflow bench apply --save`."""
    return read_as(path, {"tmflow bench apply": Saved})


Kind = TypeVar("Kind", bound=Closed)


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
