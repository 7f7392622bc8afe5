"""The schema of a run file: one JSON object per trial and line. `ingest` reads nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError, model_validator

from tmflow.base.documents import first_of
from tmflow.base.errors import BadInput
from tmflow.base.files import write_text
from tmflow.runfile import content_hash, lines
from tmflow.spec.abort_codes import Family
from tmflow.spec.factors import ADVISED_DRIVERS
from tmflow.spec.trial import Evidence, Status, TimeDomain, TrialSpec

MOST_COUNTED = 63  # retries, failed publications and taken blocks that the op library tells apart
MAX = 2**63 - 1  # of a whole number: the columns have 64 bits
MOST_REPEATS = 100  # of a point in a round

TIMES = ("setup_s", "loop_s", "evaluation_s", "total_s")
CLOCKS = ("suspended_s", "clock_moved_s")  # of the machine
TRAFFIC = ("bytes", "transfers")  # of the phases send and receive
LOCK_TIMES = ("lock_waited_s", "lock_held_s")  # of counters
OF_SLOTS = ("elements", "inconsistent")  # of lost updates, if the optimiser keeps arrays beside the variable
NO_TIME = "an emulated run shows no time"
NO_ACCURACY = "a run of a user's own model is only timed"

# The kind of backend that an evidence needs; the other kinds of evidence have none.
BACKENDS: dict[Evidence, str] = {"emulated": "emulator", "simulated": "simulator"}


Entry = TypeVar("Entry")
Entries = Annotated[list[Entry], FailFast()]  # only the first error is reported


class _Closed(BaseModel):
    """`LATER`: fields that were added after the first runs were stored, with the value of all earlier runs."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    LATER: ClassVar[tuple[str, ...]] = ()


class ExperimentRef(_Closed):
    """The experiment of a run. Its definition (everything except the number of rounds) is hashed."""

    name: str
    scale: Literal["full", "quick", "adhoc"]
    definition_sha256: str = Field(pattern="^[0-9a-f]{64}$")
    definition: dict[str, Any]


class CampaignRef(_Closed):
    """One invocation of the study on one machine, resumed or not."""

    uid: str
    created_at_utc: str


class Software(_Closed):
    """Versions of the software; None if unreadable or absent."""

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
    """Interference during a trial; fractions are of the machine's total CPU time. None = unreadable.

    For a trial shorter than half a second, the fractions cover at least the last half second of its round.
    """

    LATER: ClassVar[tuple[str, ...]] = CLOCKS

    load1_before: float | None
    load1_after: float | None
    steal_fraction: float | None = Field(ge=0, le=1)
    others_fraction: float | None = Field(ge=0, le=1, description="CPU time used by other processes")
    suspended_s: float | None = Field(None, ge=0, description="how long the machine was suspended")
    clock_moved_s: float | None = Field(None, description="how far the wall clock was set; positive is forward")
    disturbed: bool | None = Field(description="one of these exceeds what the protocol allows")


class Backend(_Closed):
    """The emulator or simulator that replaced the hardware, with its full configuration."""

    kind: Literal["emulator", "simulator"]
    name: str = Field(min_length=1, description="the profile: the machine that it imitates")
    version: str = Field(min_length=1, description="of the emulator or simulator")
    config_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="hash of `config`")
    config: dict[str, Any]


# The fields of list entries are in alphabetical order, as in the hash: see `content_hash`.


class CurvePoint(_Closed):
    accuracy: float = Field(ge=0, le=1)
    elapsed_s: float = Field(ge=0, description="clock of the workers' loop when the pause began")
    iteration: int = Field(ge=0, le=MAX)


class Counters(_Closed):
    """Counts of one worker on one variable.

    With transactions, commits + fallbacks is the number of critical sections: one per update, or per chunk of it. None
    means unknown: a library that elides locks may report how a section ended, but not how often it tried.
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
    """The number of steps of a worker with exactly `staleness` updates by others between reading and applying."""

    staleness: int = Field(ge=0, le=MAX)
    steps: int = Field(ge=0, le=MAX)
    worker: int = Field(ge=0, le=MAX)


class Retries(_Closed):
    """The number of critical sections of a worker on a variable with exactly `retries` aborted attempts.

    Older runs of the strategies in `spec.strategies.KIND_IN_RETRIES` have here what is now in the next two lists.
    """

    retries: int = Field(ge=0, le=MOST_COUNTED, description=f"{MOST_COUNTED} stands for that many or more")
    sections: int = Field(ge=0, le=MAX)
    variable: str
    worker: int = Field(ge=0, le=MAX)


class FailedPublications(_Closed):
    """The number of a worker's updates with exactly this many private copies of the variable left unpublished."""

    failed_publications: int = Field(ge=0, le=MOST_COUNTED, description=f"{MOST_COUNTED} stands for that many or more")
    updates: int = Field(ge=0, le=MAX)
    variable: str
    worker: int = Field(ge=0, le=MAX)


class TakenBlocks(_Closed):
    """The number of a worker's updates that found exactly this many blocks of the variable taken by another thread."""

    taken_blocks: int = Field(ge=0, le=MOST_COUNTED, description=f"{MOST_COUNTED} stands for that many or more")
    updates: int = Field(ge=0, le=MAX)
    variable: str
    worker: int = Field(ge=0, le=MAX)


class Reads(_Closed):
    """A worker's reads of a variable; a torn read returns elements that the variable never held at the same time."""

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
    """Lost updates of a variable, counted by shadow counters that are updated like its blocks."""

    LATER: ClassVar[tuple[str, ...]] = OF_SLOTS

    elements: int | None = Field(None, ge=1, le=MAX, description="of the variable; None without such arrays")
    expected: int = Field(ge=0, le=MAX, description="element updates of all elements and workers")
    inconsistent: int | None = Field(
        None,
        ge=0,
        le=MAX,
        description="elements whose weight contains other updates than the optimiser's arrays; None without these",
    )
    lost: int = Field(ge=0, le=MAX, description="those that concurrent updates overwrote")
    variable: str

    @model_validator(mode="after")
    def _lost_ones_were_made(self) -> Self:
        if self.lost > self.expected:
            raise ValueError(f"lost {self.lost} is more than expected {self.expected}")
        return self

    @model_validator(mode="after")
    def _inconsistent_ones_are_elements(self) -> Self:
        if (self.inconsistent is None) != (self.elements is None):
            raise ValueError("inconsistent and elements belong together")
        if self.inconsistent is not None and self.elements is not None and self.inconsistent > self.elements:
            raise ValueError(f"inconsistent {self.inconsistent} is more than elements {self.elements}")
        return self


class Process(_Closed):
    """A process of a cluster: a parameter server, which holds variables, or a worker."""

    cpu_s: float | None = Field(None, ge=0, description="processor time in the trial, with set-up and evaluation")
    exit: int | None = Field(None, ge=-64, le=255, description="code or, negative, signal; None: it served to the end")
    host: str
    index: int = Field(ge=0, le=MAX)
    loop_s: float | None = Field(None, ge=0, description="of a worker's steps, by its own clock")
    role: Literal["server", "worker"]
    steps: int | None = Field(None, ge=0, le=MAX, description="of a worker, with steps whose gradient was dropped")


class Phase(_Closed):
    """A part of a worker's steps: its mean over the traced steps. All phases together are the step."""

    LATER: ClassVar[tuple[str, ...]] = TRAFFIC

    bytes: int | None = Field(None, ge=0, le=MAX, description="of the elements of these tensors")
    phase: Literal["receive", "compute", "send", "queue", "apply", "other"]
    samples: int = Field(ge=1, le=MAX, description="traced steps")
    seconds: float = Field(ge=0, description="mean of a step")
    transfers: int | None = Field(None, ge=0, le=MAX, description="tensors that tasks send each other in a step")
    worker: int = Field(ge=0, le=MAX)


class Run(_Closed):
    """A recorded trial. An empty list means not measured; a 0 inside one means measured zero."""

    LATER: ClassVar[tuple[str, ...]] = (
        *("repeat", "backend", "fused", "retries", "failed_publications", "taken_blocks", "reads", "lost"),
        *("processes", "phases"),
    )

    schema_version: Literal[1] = 1
    uid: str = Field(min_length=8, description="created by the runner (UUID4), never reused")
    campaign: CampaignRef
    experiment: ExperimentRef
    round: int = Field(ge=1, le=MAX)
    repeat: int = Field(1, ge=1, le=MOST_REPEATS, description="number of this trial among those of its point and round")
    ordinal: int = Field(ge=0, le=MAX, description="position in the round's shuffled order")
    order_seed: int = Field(ge=0, le=MAX, description="seed of that shuffle")
    trial_seed: int = Field(ge=0, le=MAX, description="spec.seed + round - 1")
    resumed: bool = Field(description="continues an interrupted round, or a training from its last checkpoint")
    started_at_utc: str
    spec: TrialSpec
    dataset_sha256: str | None
    evidence: Evidence
    time_domain: TimeDomain
    backend: Backend | None = Field(None, description="only emulated and simulated runs: what replaced the hardware")
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
    final_accuracy: float | None = Field(None, ge=0, le=1, description="None of a run that is only timed")
    fused: list[str] = Field([], description="variables whose updates were fused with their gradients")
    curve: Entries[CurvePoint] = []
    counters: Entries[Counters] = []
    aborts: Entries[Abort] = []
    staleness: Entries[Staleness] = []
    retries: Entries[Retries] = []
    failed_publications: Entries[FailedPublications] = []
    taken_blocks: Entries[TakenBlocks] = []
    reads: Entries[Reads] = []
    lost: Entries[Lost] = []
    processes: Entries[Process] = []
    phases: Entries[Phase] = []

    @model_validator(mode="after")
    def _error_xor_result(self) -> Self:
        ok = self.status == "ok"
        if self.spec.driver in ADVISED_DRIVERS and self.final_accuracy is not None:
            raise ValueError(f"a run of driver {self.spec.driver} is only timed, and has no final_accuracy")
        has_result = self.final_accuracy is not None or self.spec.driver in ADVISED_DRIVERS
        if ok and (self.loop_s is None or not has_result or self.reason is not None):
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
    def trial(self) -> tuple[str, int]:
        """What identifies the run in its round: the hash of its spec, and its repeat."""
        return self.spec.sha256, self.repeat

    @property
    def shows_time(self) -> bool:
        """Whether the run's times are meaningful; those of an emulated run measure the emulator."""
        return self.evidence != "emulated"

    @property
    def content_sha256(self) -> str:
        """The hash of the run's content: equal hashes mean equal runs."""
        return content_hash.sha256(self, {})


Positive = Annotated[int, Field(gt=0, le=MAX)] | None
NotNegative = Annotated[int, Field(ge=0, le=MAX)] | None


class _Facts(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class PlatformFacts(_Facts):
    """The facts of a machine that are columns; it may have others."""

    isa: str
    cpu_vendor: str | None = None
    cpu_model: str | None = None
    cpu_family: NotNegative = None
    cpu_model_no: NotNegative = None
    cpu_stepping: NotNegative = None
    sockets: Positive = None
    numa_nodes: Positive = None
    cores_physical: Positive = None
    threads_logical: Positive = None
    l1d_bytes: Positive = None
    l1d_ways: Positive = None
    l2_bytes: Positive = None
    l3_bytes: Positive = None
    cacheline_bytes: Positive = None
    memory_bytes: Positive = None
    freq_max_hz: Positive = None
    tm_capability: Literal["none", "rtm", "htm", "unknown"]


class EnvironmentFacts(_Facts):
    """The facts of a machine's software and settings that are columns; it may have others."""

    os: str | None = None
    kernel: str | None = None
    libc: str | None = None
    microcode: str | None = None
    governor: str | None = None
    turbo: bool | None = None
    cpus_allowed: Positive = None
    smt: bool | None = None
    thp: str | None = None
    mitigations: dict[str, Any] | None = None
    virtualisation: str | None = None
    aslr: NotNegative = None
    tm_enabled: bool | None = None


def _as_backend(kind: str | None) -> str:
    return f"a backend of kind '{kind}'" if kind else "no backend"


def to_line(run: Run) -> str:
    """The run as one line of a run file."""
    return json.dumps(run.model_dump(mode="json"), sort_keys=True, allow_nan=False) + "\n"


def shown(run: Run) -> dict[str, Any]:
    """The fields of a run for display, in JSON types; an emulated run has None for its times, and `no_time`."""
    fields = run.model_dump(mode="json")
    if not run.shows_time:
        fields |= dict.fromkeys(TIMES) | {"no_time": NO_TIME}
        fields["curve"] = [point | {"elapsed_s": None} for point in fields["curve"]]
        fields["counters"] = without_lock_times(fields["counters"])
    return fields


def without_lock_times(counters: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Counters without lock times, for a run that shows no time."""
    return [{**row, **dict.fromkeys(LOCK_TIMES)} for row in counters]


def write(path: Path, runs: Iterable[Run]) -> None:
    """Write a run file atomically."""
    write_text(path, "".join(to_line(run) for run in runs))


def read(path: Path) -> Iterator[Run]:
    """Read and check the runs of a run file. Raises BadInput with the file and line of the first bad run."""
    for where, line in lines.lines(path, lines.contents(path)):
        yield parse_line(line, where)


def parse_line(line: str, where: str) -> Run:
    """Decode and check one line of a run file; errors name it by `where`."""
    try:
        return Run.model_validate(lines.decoded(line, where))
    except ValidationError as error:
        first = first_of(error)
        field = ".".join(str(part) for part in first["loc"]) or "the run"
        raise BadInput(f"{where}: {field}: {first['msg'].removeprefix('Value error, ')}.") from error


def shares(run: Mapping[str, Any]) -> dict[str, float]:
    """The shares that were measured, by name; `run` has the fields of a run file.

    An emulated run has no shares of time.
    """

    def total(name: str, column: str) -> float | None:
        values = [entry[column] for entry in run[name] if entry[column] is not None]
        return sum(values) if values else None

    parts = {
        "updates lost": (total("lost", "lost"), total("lost", "expected")),
        "elements inconsistent with the optimiser": (total("lost", "inconsistent"), total("lost", "elements")),
        "reads torn": (total("reads", "torn"), total("reads", "reads")),
    }
    if run["evidence"] != "emulated" and run["loop_s"] is not None:
        time = run["spec"]["threads"] * run["loop_s"]
        parts["time waiting for locks"] = (total("counters", "lock_waited_s"), time)
        parts["time holding locks"] = (total("counters", "lock_held_s"), time)
    return {name: part / base for name, (part, base) in parts.items() if part is not None and base}
