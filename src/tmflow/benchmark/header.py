"""What every saved benchmark says beside its rows: when, of which machine, and what is missing."""

from __future__ import annotations

from typing import Any, Literal

from tmflow.benchmark.left_out import LeftOut
from tmflow.benchmark.rows import Closed
from tmflow.native import registry
from tmflow.platform.environment import environment_facts
from tmflow.platform.facts import platform_facts
from tmflow.platform.software import software
from tmflow.runfile.record import MachineState, Software


class Header(Closed):
    """A saved benchmark of any kind, but for its rows."""

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
    """One of rounds in turns, in an order that `seed` shuffled. `machine` is what else the machine did meanwhile."""

    seed: int
    machine: MachineState


def facts_here() -> dict[str, Any]:
    """The platform, the environment and the software of a benchmark that was measured just now."""
    build = registry.build_info()
    return {
        "platform": platform_facts(),
        "environment": environment_facts(registry.tm_probe()),
        "software": software(compiler=build.compiler, cflags=build.cflags),
    }
