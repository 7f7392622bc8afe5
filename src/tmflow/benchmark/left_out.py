"""What a benchmark did not measure, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """`elements` is None where that is so of every size; `failed`: it was to run, and something went wrong."""

    name: str
    reason: str
    failed: bool
    elements: int | None = None
    threads: int | None = None
    gradient: str | None = None
