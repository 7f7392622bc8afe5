"""Benchmark files of updates, reads and steps: the rows, the header, and reading and writing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tmflow.base.documents import document
from tmflow.base.errors import BadInput
from tmflow.base.files import write_json
from tmflow.benchmark.plan import Gradient
from tmflow.native import registry
from tmflow.platform.facts import environment_facts, platform_facts
from tmflow.platform.software import software
from tmflow.runfile.record import MachineState, Software
from tmflow.spec.strategies import Value


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class InCell(Closed):
    elements: int
    threads: int
    gradient: Gradient = Field(
        "constant", description="fresh: written before every update; older files lack this field and mean constant"
    )
    oversubscribed: bool = Field(description="more threads than CPUs that the process may use")
    rounds: int
    gb_per_s: float = Field(description="12 bytes per element and update, over the time; 10^9 bytes")


class Copied(InCell):
    """Copies with the traffic of an update. us: wall time over all copies of all threads; bounds: None for 1 round."""

    reference: Literal["memcpy"] = "memcpy"
    memcpy_us: float
    memcpy_low: float | None
    memcpy_high: float | None
    us_by_round: list[float | None] | None = Field(None, description="None in files that lack it")

    @property
    def name(self) -> str:
        return self.reference


class Written(InCell):
    """The writing of gradients. us: wall time over all gradients of all threads; bounds: None for one round."""

    reference: Literal["gradient_writing"] = "gradient_writing"
    writing_us: float
    writing_low: float | None
    writing_high: float | None
    us_by_round: list[float | None]
    gb_per_s: float = Field(description="4 bytes per element, over the time; 10^9 bytes")

    @property
    def name(self) -> str:
        return self.reference


class _Timed(InCell):
    """The cost of updates. us: wall time over all updates of all threads; ratios: to another row, paired by round.

    For a fresh gradient, `us` is that time minus the time of writing alone in the same round. `low` and `high` bound
    95 % intervals on the log scale; they are None with one round. Counts are sums over all rounds.
    """

    parameters: dict[str, Value]
    us_per_update: float
    us_low: float | None
    us_high: float | None
    us_by_round: list[float | None] = Field(description="None where it had no turn")
    us_with_writing_by_round: list[float | None] | None = Field(None, description="None where the gradient is constant")
    turn_by_round: list[int] | None = Field(None, description="its place in the order of the round, from 0 on")
    ratio_to: str | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    best_mutex: str | None = Field(None, description="the fastest plain mutex of this size and number of threads")
    memcpy_ratio: float | None = Field(None, description="over the copy's time")
    memcpy_ratio_low: float | None = None
    memcpy_ratio_high: float | None = None
    updates: int
    lost_fraction: float
    doubled: int = Field(description="updates of one element that were applied twice")
    corrupt_elements: int = Field(description="elements that no set of updates explains")
    commits: int
    fallbacks: int
    aborts: dict[str, int] = Field(description="by raw status")
    attempts_known: bool = Field(description="every abort was counted")
    commit_fraction: float | None = Field(description="of commits and fallbacks; None where there are no transactions")
    aborts_per_commit: float | None = Field(description="None where no transaction committed, or aborts are not known")
    aborts_per_update: float | None = Field(description="None where there are no transactions, or aborts are not known")


class TimedVariant(_Timed):
    """A strategy with its parameters."""

    variant: str
    strategy: str
    consistency: str

    @property
    def name(self) -> str:
        return self.variant

    @property
    def kept(self) -> bool:
        """Whether it kept its guarantee."""
        return self.consistency == "none" or (self.lost_fraction, self.doubled, self.corrupt_elements) == (0, 0, 0)


class TimedReference(_Timed):
    """A loop that is not a strategy, for comparison."""

    reference: str

    @property
    def name(self) -> str:
        return self.reference


Timed = TimedVariant | TimedReference
ByteRate = Copied | Written  # measured in addition to updates
Row = Timed | ByteRate


def json_fields(row: Row) -> dict[str, Any]:
    """The fields printed by `--json`; references use the fields of variants, so that readers need no second case."""
    fields = row.model_dump(mode="json")
    if isinstance(row, TimedReference):  # each uses a mutex
        fields |= {"variant": row.name, "strategy": row.name.partition(":")[0], "consistency": "tensor"}
    return fields


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Something not measured. elements: None for every size; failed: it should have run, but an error occurred."""

    name: str
    reason: str
    failed: bool
    elements: int | None = None
    threads: int | None = None
    gradient: str | None = None


class Header(Closed):
    """The header of a saved benchmark of any kind."""

    schema_version: Literal[1] = 1
    kind: str
    measured_at_utc: str
    rounds: int
    cpus_allowed: int
    platform: dict[str, Any]
    environment: dict[str, Any]
    software: Software
    left_out: list[LeftOut]


class TurnsHeader(Header):
    """The header of a benchmark in shuffled turns; `machine` records other load during the benchmark."""

    seed: int
    machine: MachineState


def facts_here() -> dict[str, Any]:
    """The platform, the environment and the software of this process, for a new benchmark."""
    build = registry.build_info()
    return {
        "platform": platform_facts(),
        "environment": environment_facts(registry.tm_probe()),
        "software": software(compiler=build.compiler, cflags=build.cflags),
    }


class Saved(TurnsHeader):
    """A saved benchmark of updates."""

    kind: Literal["tmflow bench apply"] = "tmflow bench apply"
    rows: list[TimedVariant | TimedReference | Copied | Written] = Field(description="as printed with --json")


class Read(Closed):
    """The cost of a read. us: wall time over all reads of all readers; low, high: bounds of 95 % intervals."""

    name: str
    variant: str
    strategy: str
    consistent: bool = Field(description="through the strategy; else a plain copy")
    consistency: str = Field(description="of such a read")
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
    checked: int = Field(description="reads that were checked; the check is not timed")
    torn_fraction: float = Field(description="of those, with elements that were never in the variable together")
    rounds: int

    @property
    def kept(self) -> bool:
        """Whether it kept its guarantee: no torn reads if the guarantee covers the variable."""
        return self.torn_fraction == 0 or self.consistency not in ("tensor", "step")


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
    consistency: str = Field(description="of updates of the model's large variables")
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


Benchmark = Saved | SavedReads | SavedSteps
KINDS: dict[str, type[Benchmark]] = {
    "tmflow bench apply": Saved,
    "tmflow bench step": SavedSteps,
    "tmflow bench read": SavedReads,
}


def write_benchmark(path: Path, benchmark: Header) -> None:
    write_json(path, benchmark.model_dump(mode="json"))


def _rename_old_keys(content: Any) -> None:
    """Rename the key `promise` of a row, which earlier versions wrote, to `consistency`."""
    rows = content.get("rows") if isinstance(content, dict) else None
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and "promise" in row:
            row.setdefault("consistency", row.pop("promise"))


def read_benchmark(path: Path) -> Benchmark:
    """Read a saved benchmark of any kind. Raises BadInput if the file is missing or something else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise BadInput(f"{path} is no file of `{' --save`, `'.join(KINDS)} --save`: it is not JSON.") from error
    _rename_old_keys(content)
    kind = str(content.get("kind")) if isinstance(content, dict) else "missing"
    if kind not in KINDS:
        raise BadInput(f"{path}: kind is {kind!r}, but should be {' or '.join(map(repr, KINDS))}.")
    return document(KINDS[kind], content, str(path))
