"""A benchmark of reads as a file: all that it measured, and of which machine."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tmflow.benchmark.header import TurnsHeader
from tmflow.benchmark.rows import Closed


class Read(Closed):
    """What a read costs. us: wall time over all reads of all readers; `low` and `high` bound 95 % intervals."""

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
        """Whether it kept its promise: what is no smaller than the variable is whole."""
        return self.torn_fraction == 0 or self.promise not in ("tensor", "step")


class SavedReads(TurnsHeader):
    """All of a benchmark of reads."""

    kind: Literal["tmflow bench read"] = "tmflow bench read"
    rows: list[Read]
