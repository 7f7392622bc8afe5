"""The run file: what a trial writes, one JSON object per line, and the only thing that `ingest` reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError, model_validator
from pydantic_core import from_json

from tmflow.base.documents import first_of
from tmflow.base.errors import BadInput
from tmflow.base.files import write_text
from tmflow.runfile import content_hash, lines
from tmflow.spec.abort_codes import Family
from tmflow.spec.trial import Evidence, Status, TimeDomain, TrialSpec

MAX = 2**63 - 1  # of a whole number: the columns have 64 bits

TIMES = ("setup_s", "loop_s", "evaluation_s", "total_s")
CLOCKS = ("suspended_s", "clock_moved_s")  # of the machine
LOCK_TIMES = ("lock_waited_s", "lock_held_s")  # of counters
NO_TIME = "an emulated run shows no time"

# The kind of backend that an evidence needs; the other kinds of evidence have none.
BACKENDS: dict[Evidence, str] = {"emulated": "emulator", "simulated": "simulator"}


Entry = TypeVar("Entry")
Entries = Annotated[list[Entry], FailFast()]  # only the first wrong one is told


class _Closed(BaseModel):
    """`LATER`: fields that came after the first runs had been stored."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    LATER: ClassVar[tuple[str, ...]] = ()


class ExperimentRef(_Closed):
    """Which experiment a run belongs to. The definition (everything but the number of rounds) is hashed."""

    name: str
    scale: Literal["full", "quick", "adhoc"]
    definition_sha256: str = Field(pattern="^[0-9a-f]{64}$")
    definition: dict[str, Any]


class CampaignRef(_Closed):
    """One invocation of the study on one machine, resumed or not."""

    uid: str
    created_at_utc: str


class Software(_Closed):
    """What ran: versions as strings; None where it could not be read, or there was none."""

    tmflow: str
    python: str | None
    tensorflow: str | None
    numpy: str | None
    compiler: str | None
    cflags: str | None
    git_commit: str | None
    git_dirty: bool | None
    lock_sha256: str | None


class MachineState(_Closed):
    """What else the machine did during a trial; shares are of all its CPU time. None = unreadable.

    The shares of a trial of less than half a second are of the last half second and more of its round.
    """

    LATER: ClassVar[tuple[str, ...]] = CLOCKS

    load1_before: float | None
    load1_after: float | None
    steal_fraction: float | None = Field(ge=0, le=1)
    others_fraction: float | None = Field(ge=0, le=1, description="CPU time used by other processes")
    suspended_s: float | None = Field(None, ge=0, description="the machine slept so long")
    clock_moved_s: float | None = Field(None, description="the time of day was set by so much; forward is above 0")
    disturbed: bool | None = Field(description="by more than the protocol allows of any of these")


class Backend(_Closed):
    """What stood in for the hardware, with every number that it was given: the run file needs no other file."""

    kind: Literal["emulator", "simulator"]
    name: str = Field(min_length=1, description="the profile: which machine it stood in for")
    version: str = Field(min_length=1, description="of the emulator or simulator")
    config_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="hash of `config`")
    config: dict[str, Any]


# The fields of what a run has many of are in alphabetical order, as in its hash: see `content`.


class CurvePoint(_Closed):
    accuracy: float = Field(ge=0, le=1)
    elapsed_s: float = Field(ge=0, description="clock of the workers' loop when the pause began")
    iteration: int = Field(ge=0, le=MAX)


class Counters(_Closed):
    """Counts of one worker on one variable.

    Where transactions were tried, commits + fallbacks is the number of critical sections: one for each update, or for
    each chunk of one. None is what cannot be known: what elides for us may tell how it ended, not how often it tried.
    """

    LATER: ClassVar[tuple[str, ...]] = LOCK_TIMES

    attempts: int | None = Field(None, ge=0, le=MAX, description="transactions begun: commits + aborts")
    commits: int | None = Field(None, ge=0, le=MAX, description="critical sections that committed as a transaction")
    fallbacks: int | None = Field(None, ge=0, le=MAX, description="critical sections that took the mutex instead")
    lock_held_s: float | None = Field(None, ge=0, description="holding locks; measures: full")
    lock_waited_s: float | None = Field(None, ge=0, description="waiting for locks; measures: full")
    updates: int = Field(ge=0, le=MAX)
    variable: str
    worker: int = Field(ge=0, le=MAX)


class Abort(_Closed):
    """How often a worker's transactions on a variable aborted with one raw code of the mechanism."""

    family: Family
    mechanism: str
    n: int = Field(ge=0, le=MAX)
    raw_code: str
    variable: str
    worker: int = Field(ge=0, le=MAX)


class Staleness(_Closed):
    """How many steps of a worker saw exactly `staleness` updates by others between reading and applying."""

    staleness: int = Field(ge=0, le=MAX)
    steps: int = Field(ge=0, le=MAX)
    worker: int = Field(ge=0, le=MAX)


class Retries(_Closed):
    """How many critical sections of a worker on a variable had so many attempts that aborted.

    Runs of `contention.BEFORE` from before the other two lists counted in this one what their strategies count.
    """

    retries: int = Field(ge=0, le=63, description="63 stands for that many or more")
    sections: int = Field(ge=0, le=MAX)
    variable: str
    worker: int = Field(ge=0, le=MAX)


class FailedPublications(_Closed):
    """How many updates of a worker had so many private copies of the variable that were not published."""

    failed_publications: int = Field(ge=0, le=63, description="63 stands for that many or more")
    updates: int = Field(ge=0, le=MAX)
    variable: str
    worker: int = Field(ge=0, le=MAX)


class TakenBlocks(_Closed):
    """How many updates of a worker found so many blocks of the variable taken by another thread."""

    taken_blocks: int = Field(ge=0, le=63, description="63 stands for that many or more")
    updates: int = Field(ge=0, le=MAX)
    variable: str
    worker: int = Field(ge=0, le=MAX)


class Reads(_Closed):
    """A worker's reads of a variable; torn ones found elements that were never in it together."""

    reads: int = Field(ge=0, le=MAX)
    torn: int = Field(ge=0, le=MAX)
    variable: str
    worker: int = Field(ge=0, le=MAX)

    @model_validator(mode="after")
    def _torn_ones_are_reads(self) -> Self:
        if self.torn > self.reads:
            raise ValueError(f"torn {self.torn} is more than reads {self.reads}")
        return self


class Lost(_Closed):
    """What became of the updates of a variable: shadow counters of its blocks, updated as the blocks are."""

    expected: int = Field(ge=0, le=MAX, description="updates of an element, all elements and workers together")
    lost: int = Field(ge=0, le=MAX, description="of those, overwritten by concurrent ones")
    variable: str

    @model_validator(mode="after")
    def _lost_ones_were_made(self) -> Self:
        if self.lost > self.expected:
            raise ValueError(f"lost {self.lost} is more than expected {self.expected}")
        return self


class Run(_Closed):
    """A recorded trial. An empty list means not measured; a 0 inside one means measured zero."""

    LATER: ClassVar[tuple[str, ...]] = (
        *("backend", "fused", "retries", "failed_publications", "taken_blocks", "reads", "lost"),
    )

    schema_version: Literal[1] = 1
    uid: str = Field(min_length=8, description="minted by the runner (UUID4), never reused")
    campaign: CampaignRef
    experiment: ExperimentRef
    round: int = Field(ge=1, le=MAX)
    ordinal: int = Field(ge=0, le=MAX, description="position in the round's shuffled order")
    order_seed: int = Field(ge=0, le=MAX, description="seed of that shuffle")
    trial_seed: int = Field(ge=0, le=MAX, description="spec.seed + round - 1")
    resumed: bool = Field(description="run by a process that resumed an interrupted round")
    started_at_utc: str
    spec: TrialSpec
    dataset_sha256: str | None
    evidence: Evidence
    time_domain: TimeDomain
    backend: Backend | None = Field(None, description="emulated and simulated runs only: what stood in for hardware")
    status: Status
    reason: str | None = None
    platform: dict[str, Any] = Field(description="facts of the machine; None = unreadable")
    environment: dict[str, Any] = Field(description="facts of its software and settings; None = unreadable")
    software: Software
    machine: MachineState | None = None
    setup_s: float | None = Field(None, ge=0, description="graph and session for this point")
    loop_s: float | None = Field(None, gt=0, description="first worker's start to last worker's end, pauses off")
    evaluation_s: float | None = Field(None, ge=0)
    total_s: float | None = Field(None, ge=0)
    final_accuracy: float | None = Field(None, ge=0, le=1)
    fused: list[str] = Field([], description="the variables whose updates were fused with their gradients")
    curve: Entries[CurvePoint] = []
    counters: Entries[Counters] = []
    aborts: Entries[Abort] = []
    staleness: Entries[Staleness] = []
    retries: Entries[Retries] = []
    failed_publications: Entries[FailedPublications] = []
    taken_blocks: Entries[TakenBlocks] = []
    reads: Entries[Reads] = []
    lost: Entries[Lost] = []

    @model_validator(mode="after")
    def _error_xor_result(self) -> Self:
        ok = self.status == "ok"
        if ok and (self.loop_s is None or self.final_accuracy is None or self.reason is not None):
            raise ValueError("a run with status 'ok' has loop_s and final_accuracy, and no reason")
        if not ok and (self.reason is None or self.final_accuracy is not None):
            raise ValueError(f"a run with status '{self.status}' has a reason and no final_accuracy")
        return self

    @model_validator(mode="after")
    def _backend_of_substitutes(self) -> Self:
        kind = BACKENDS.get(self.evidence)
        actual = self.backend.kind if self.backend else None
        if actual != kind:
            raise ValueError(
                f"evidence '{self.evidence}' needs {_as_backend(kind)}, and the run has {_as_backend(actual)}"
            )
        return self

    @property
    def shows_time(self) -> bool:
        """Whether its seconds mean anything: what is emulated takes as long as emulating it takes."""
        return self.evidence != "emulated"

    @property
    def content_sha256(self) -> str:
        """Hash of all that the run says: two files with the same run agree to the byte of their meaning."""
        return content_hash.sha256(self, {})


def _as_backend(kind: str | None) -> str:
    return f"a backend of kind '{kind}'" if kind else "no backend"


def to_line(run: Run) -> str:
    """The run as one line of a run file."""
    return json.dumps(run.model_dump(mode="json"), sort_keys=True, allow_nan=False) + "\n"


def shown(run: Run) -> dict[str, Any]:
    """What may be shown of a run, JSON types: all of it, but an emulated one has None for its times, and `no_time`."""
    fields = run.model_dump(mode="json")
    if not run.shows_time:
        fields |= dict.fromkeys(TIMES) | {"no_time": NO_TIME}
        fields["curve"] = [point | {"elapsed_s": None} for point in fields["curve"]]
        fields["counters"] = without_lock_times(fields["counters"])
    return fields


def without_lock_times(counters: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Counters of a run that shows no time."""
    return [{**row, **dict.fromkeys(LOCK_TIMES)} for row in counters]


def write(path: Path, runs: Iterable[Run]) -> None:
    """Write a whole run file; it is never seen half-written."""
    write_text(path, "".join(to_line(run) for run in runs))


def read(path: Path) -> Iterator[Run]:
    """The runs of a run file, each checked. Raises BadInput naming the file and line of the first bad one."""
    for where, line in lines.lines(path, lines.contents(path)):
        yield parse_line(line, where)


def parse_line(line: str, where: str) -> Run:
    """One line of a run file; `where` names it in the error."""
    return checked(decoded(line, where), where)


def decoded(line: str, where: str) -> dict[str, Any]:
    """As `run_lines.decoded`, by a faster parser."""
    try:
        value = from_json(line, allow_inf_nan=False)
    except ValueError:
        return lines.decoded(line, where)
    return lines.of_a_version(value, where)


def checked(value: dict[str, Any], where: str) -> Run:
    """The run that a line's object is. Parts of it may be checked already, and are models then."""
    try:
        return Run.model_validate(value)
    except ValidationError as error:
        first = first_of(error)
        field = ".".join(str(part) for part in first["loc"]) or "the run"
        raise BadInput(f"{where}: {field}: {first['msg'].removeprefix('Value error, ')}.") from error


def shares(run: Mapping[str, Any]) -> dict[str, float]:
    """Those that were measured, by what they are shares of; `run` is in the layout of a run file.

    An emulated run shows no time, nor a share of it.
    """
    by_name = {
        "updates lost": _share(_sum(run["lost"], "lost"), _sum(run["lost"], "expected")),
        "reads torn": _share(_sum(run["reads"], "torn"), _sum(run["reads"], "reads")),
    }
    if run["evidence"] != "emulated" and run["loop_s"] is not None:
        time = run["spec"]["threads"] * run["loop_s"]
        by_name["time waiting for locks"] = _share(_sum(run["counters"], "lock_waited_s"), time)
        by_name["time holding locks"] = _share(_sum(run["counters"], "lock_held_s"), time)
    return {name: share for name, share in by_name.items() if share is not None}


def _sum(rows: Iterable[Mapping[str, Any]], name: str) -> float | None:
    values = [row[name] for row in rows if row[name] is not None]
    return sum(values) if values else None


def _share(part: float | None, total: float | None) -> float | None:
    return None if part is None or not total else part / total
