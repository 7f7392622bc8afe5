"""The facts of a run file that have columns of their own, with their types and ranges.

None means unreadable. Facts that are not listed here are kept too, in `facts_json`, and count for identity.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

_MAX = 2**63 - 1  # the columns have 64 bits

Positive = Annotated[int, Field(gt=0, le=_MAX)] | None
NotNegative = Annotated[int, Field(ge=0, le=_MAX)] | None


class _Facts(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class PlatformFacts(_Facts):
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
