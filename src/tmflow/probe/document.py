"""A probe of a machine and its document (docs/probe.md): what was not measured is null, with a sentence in `why`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tmflow._version import __version__
from tmflow.base.documents import document
from tmflow.base.errors import BadInput
from tmflow.base.files import write_json
from tmflow.native import loader
from tmflow.platform.facts import platform_facts, platform_sha256
from tmflow.platform.profiles import Profile

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Measure = Annotated[float, Field(ge=0, allow_inf_nan=False)]
LEAST_S, MOST_S = 5.0, 600.0  # the limits that the native library accepts

Relation = Literal["one core", "one socket", "two sockets", "unknown"]


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Part(Closed):
    """Quantities; `why` has the reason for each that is null."""

    why: dict[str, Annotated[str, Field(min_length=1)]]

    @model_validator(mode="after")
    def _null_has_a_reason(self) -> Self:
        null = {name for name in type(self).model_fields if getattr(self, name) is None}
        if null != set(self.why):
            wrong = sorted(null ^ set(self.why))
            raise ValueError(f"'{wrong[0]}' must be null exactly if 'why' has a sentence for it")
        return self


class Tried(Closed):
    """How often transactions with a footprint of `places` were tried, and how many committed."""

    places: Positive
    tries: Positive
    commits: Count


class AtStride(Closed):
    stride_bytes: Positive
    lines: Count


class Capacity(Part):
    line_bytes: Positive | None
    span_bytes: Positive | None = Field(description="lines at this distance are in one set")
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
    """A complete probe. `platform_sha256` is that of its machine; null for an emulated one."""

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


def require_seconds(seconds: float) -> None:
    """Raise BadInput for a duration that a probe does not allow."""
    if not LEAST_S <= seconds <= MOST_S:
        raise BadInput(f"--seconds is {seconds:g}, but should be {LEAST_S:g} to {MOST_S:g}.")


def probe(seconds: float, emulate: Profile | None = None) -> Probe:
    """Probe this machine, or an emulated one in its place, in at most about `seconds`.

    Raises BadInput for a number of seconds that is not allowed, and if the native library is not built.
    """
    require_seconds(seconds)
    machine = emulate.machine_text() if emulate else None
    result = parse(loader.core().probe(seconds, machine, __version__), "the probe")
    if emulate is not None:
        return result  # the result does not describe this machine
    return result.model_copy(update={"platform_sha256": platform_sha256(platform_facts())})


def parse(text: str, where: str) -> Probe:
    """Parse the JSON of a probe. Raises BadInput with what is wrong, where, and what is allowed."""
    try:
        return document(Probe, json.loads(text), where)
    except ValueError as error:
        raise BadInput(f"{where} is not JSON: {error}.") from error


def write(path: Path, probe: Probe) -> None:
    write_json(path, probe.as_dict())
