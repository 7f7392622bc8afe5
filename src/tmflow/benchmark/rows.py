"""The rows that a benchmark prints and saves, and their header."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tmflow.benchmark.subjects import Gradient
from tmflow.native import registry
from tmflow.platform.environment import environment_facts
from tmflow.platform.facts import platform_facts
from tmflow.platform.software import software
from tmflow.runfile.record import MachineState, Software
from tmflow.spec.strategies import Value


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class InCell(Closed):
    elements: int
    threads: int
    gradient: Gradient = Field(
        "constant", description="fresh: written anew before every update; constant also in files of before it was kept"
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
    us_by_round: list[float | None] | None = Field(None, description="None in files of before it was kept")

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

    Where the gradient is fresh, `us` is that time less the time of the writing alone in the same round.
    `low` and `high` bound 95 % intervals on the log scale, None with one round. Counts are of all rounds together.
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
    doubled: int = Field(description="units of one update of one element that are there once too often")
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
    promise: str

    @property
    def name(self) -> str:
        return self.variant

    @property
    def kept(self) -> bool:
        """Whether it kept its guarantee."""
        return self.promise == "none" or (self.lost_fraction, self.doubled, self.corrupt_elements) == (0, 0, 0)


class TimedReference(_Timed):
    """A loop that is no strategy, for comparison."""

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
        fields |= {"variant": row.name, "strategy": row.name.partition(":")[0], "promise": "tensor"}
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
