"""What the process of a variant must be started with. A stand-in until tmflow.process_environment is merged."""

from __future__ import annotations

from collections.abc import Mapping

from tmflow.strategy_parameters import Value

# Parameters that only the process knows which the strategy runs in: no part of the native library's.
OF_THE_PROCESS = frozenset({"library"})


def process_environment(strategy: str, parameters: Mapping[str, Value]) -> dict[str, str]:
    """Environment variables that a process must have from its start, for this strategy with these parameters."""
    return {}
