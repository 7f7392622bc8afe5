"""The document of a probe (docs/probe.md): closed, and what was not measured is null with a sentence in `why`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tmflow.base.documents import document
from tmflow.base.errors import BadInput
from tmflow.base.files import write_json

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Measure = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Relation = Literal["one core", "one socket", "two sockets", "unknown"]


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Part(Closed):
    """Quantities, of which any may be null, and then `why` says why."""

    why: dict[str, Annotated[str, Field(min_length=1)]]

    @model_validator(mode="after")
    def _null_has_a_reason(self) -> Self:
        null = {name for name in type(self).model_fields if getattr(self, name) is None}
        if null != set(self.why):
            wrong = sorted(null ^ set(self.why))
            raise ValueError(f"'{wrong[0]}' must be null exactly if 'why' has a sentence for it")
        return self


class Tried(Closed):
    """Of so many tries of a footprint, how many committed."""

    places: Positive
    tries: Positive
    commits: Count


class AtStride(Closed):
    stride_bytes: Positive
    lines: Count


class Capacity(Part):
    line_bytes: Positive | None
    span_bytes: Positive | None = Field(description="lines so far apart are in one set")
    sets: Positive | None
    ways: Positive | None
    shape: Literal["cache", "entries"] | None
    write_lines: Count | None
    read_lines: Count | None
    mixed_lines: Count | None
    writes_of_a_set: Positive | None
    reads_beside: Count | None
    reads_fill: bool | None
    by_stride: list[AtStride] | None
    write_curve: list[Tried] | None
    read_curve: list[Tried] | None


class Conflict(Closed):
    mine: Literal["read", "write"]
    other: Literal["read", "write"]
    other_in_transactions: bool
    alone_share: Share
    share: Share
    tries: Positive


class Conflicts(Part):
    pairs: list[Conflict] | None
    readers_abort_writers: bool | None
    transactional_readers_abort_writers: bool | None
    writers_abort_readers: bool | None
    readers_abort_readers: bool | None


class Siblings(Part):
    alone_lines: Count | None
    beside_transactions_lines: Count | None
    beside_loads_lines: Count | None
    sharing_threads: Positive | None


class Touching(Closed):
    attempts: Positive
    aborts: Count
    capacity_aborts: Count
    per_line: Share
    per_line_at_most: Share


class Staying(Closed):
    attempts: Positive
    aborts: Count
    capacity_aborts: Count
    microseconds_each: Measure
    per_second: Measure
    per_second_at_most: Measure


class Asynchronous(Part):
    lines: Positive | None
    per_line: Share | None
    touching: Touching | None
    staying: Staying | None


class Costs(Part):
    empty_ns: Measure | None
    begin_ns: Measure | None
    commit_ns: Measure | None
    abort_ns: Measure | None
    clock_ns: Measure


class Transactions(Part):
    provider: Literal["rtm", "power"] | None
    reported: bool
    enabled: bool
    commits: bool
    tried: Count
    committed: Count
    statuses: dict[Annotated[str, Field(pattern="^0x[0-9a-f]{8,16}$")], Positive]
    capacity: Capacity | None
    conflicts: Conflicts | None
    siblings: Siblings | None
    asynchronous: Asynchronous | None
    costs: Costs | None


class Transfer(Closed):
    one: Count
    other: Count
    relation: Relation
    ns: Measure


class Related(Closed):
    relation: Relation
    median_ns: Measure
    pairs: Positive


class LineTransfer(Closed):
    pairs: list[Transfer]
    relations: list[Related]


class Lock(Part):
    alone_ns: Measure
    handoff_ns: Measure | None


class LockHandoff(Closed):
    mutex: Lock
    spin: Lock


class Bandwidth(Closed):
    threads: Positive
    read_gb_per_s: Measure
    update_gb_per_s: Measure


class MemoryBandwidth(Closed):
    bytes_each: Positive
    rows: list[Bandwidth]


class SmtYield(Closed):
    one: Count
    other: Count
    compute: Measure
    update: Measure


class Machine(Part):
    processors: Positive | None
    line_transfer: LineTransfer | None
    lock_handoff: LockHandoff | None
    memory_bandwidth: MemoryBandwidth | None
    smt_yield: SmtYield | None


class UpdateTime(Closed):
    elements: Positive
    ns: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Limits(Part):
    update_ns: list[UpdateTime] | None


class Probe(Closed):
    """All of a probe. `platform_sha256` is that of the machine that it ran on, null where it was not looked up."""

    schema_version: Literal[1]
    kind: Literal["tmflow-probe"]
    tmflow: str
    platform_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None
    started_at_utc: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")]
    seconds: Measure
    evidence: Literal["measured", "emulated"]
    emulates: str | None = Field(description="the numbers of the emulated machine, null for a real one")
    transactions: Transactions
    machine: Machine
    limits: Limits

    @model_validator(mode="after")
    def _evidence_says_what_it_emulates(self) -> Self:
        if (self.evidence == "emulated") != (self.emulates is not None):
            raise ValueError("'emulates' must be given exactly if the evidence is emulated")
        return self

    def as_dict(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


def parse(text: str, where: str) -> Probe:
    """A probe's JSON. Raises BadInput that names what is wrong, where, and what is allowed."""
    try:
        return document(Probe, json.loads(text), where)
    except ValueError as error:
        raise BadInput(f"{where} is no JSON: {error}.") from error


def read(path: Path) -> Probe:
    """A probe's file. Raises BadInput if it is not there, or is no document of a probe."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8.") from error
    return parse(text, str(path))


def write(path: Path, probe: Probe) -> None:
    write_json(path, probe.as_dict())
