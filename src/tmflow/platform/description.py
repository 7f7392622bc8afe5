"""Descriptions of a machine for people: its facts with units, and whether it runs hardware transactions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from tmflow.base.documents import parse_object

UNKNOWN = "unknown"
LABELS = {
    "cpu_model": "Processor",
    "cpu_vendor": "Vendor",
    "isa": "Instruction set",
    "cpu_family": "Family",
    "cpu_model_no": "Model number",
    "cpu_stepping": "Stepping",
    "sockets": "Sockets",
    "numa_nodes": "NUMA nodes",
    "cores_physical": "Cores",
    "threads_logical": "Hardware threads",
    "l1d_bytes": "L1 data cache, of one core",
    "l1d_ways": "Ways of the L1 data cache",
    "l2_bytes": "L2 cache, one instance",
    "l3_bytes": "L3 cache, one instance",
    "cacheline_bytes": "Cache line",
    "memory_bytes": "Memory",
    "freq_max_hz": "Highest frequency",
    "tm_capability": "Hardware transactions reported",
}
UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
WHAT = {"rtm": "Intel TSX (RTM)", "htm": "POWER hardware transactions"}


def described(facts: Mapping[str, Any]) -> pd.DataFrame:
    """fact, value: all facts of a platform, first those with a label; a missing fact is "unknown"."""
    names = [*LABELS, *(name for name in facts if name not in LABELS)]
    return pd.DataFrame(
        [(LABELS.get(name, name), format_fact(name, facts.get(name))) for name in names], columns=["fact", "value"]
    )


def format_fact(name: str, value: Any) -> str:
    """Format a fact with its unit."""
    if value is None or (not isinstance(value, dict | list) and pd.isna(value)):
        return UNKNOWN
    if name.endswith("_bytes") and isinstance(value, int):
        size, unit = next(((size, unit) for size, unit in UNITS if value >= size), (1, "bytes"))
        return f"{value / size:g} {unit}"
    if name.endswith("_hz") and isinstance(value, int):
        return f"{value / 1e9:g} GHz"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


def transactions(facts: Mapping[str, Any], environments: pd.DataFrame) -> str:
    """Describe whether the machine can run hardware transactions and, if not, the known reasons.

    environments: with tm_enabled (whether any transaction of a probe committed) and mitigations_json.
    """
    capability = facts.get("tm_capability")
    if capability in WHAT:
        on_tsx = _mitigation_of_tsx(environments)
        what, probes = WHAT[capability], environments["tm_enabled"].dropna()
        if probes.any():
            ever = "" if probes.all() else f" under {int(probes.sum())} of {len(probes)} settings that were probed"
            return f"Yes: it reports {what}, and transactions of a probe committed{ever}."
        if len(probes):
            return f"No: it reports {what}, but no transaction of a probe ever committed.{on_tsx}"
        return f"Unknown: it reports {what}; whether a transaction ever commits was not probed.{on_tsx}"
    if capability != "none":
        return "Unknown: whether the processor has hardware transactions could not be read."
    if facts.get("isa") == "x86_64":
        reason = "it never had it, or its microcode or a setting hides it"
        return f"No: the processor reports no RTM; {reason}.{_mitigation_of_tsx(environments)}"
    arm = facts.get("isa") == "aarch64"
    return f"No: {'Linux enables none on Arm' if arm else 'the processor reports no hardware transactions'}."


def _mitigation_of_tsx(environments: pd.DataFrame) -> str:
    """The kernel's report on the vulnerability whose mitigation disables TSX, as a sentence; empty without a report."""
    texts = environments["mitigations_json"].dropna()
    mitigations = [parse_object(text, "the record of the mitigations of a kernel") for text in texts if text != "null"]
    statements = sorted({str(kernel["tsx_async_abort"]) for kernel in mitigations if kernel.get("tsx_async_abort")})
    return f" The kernel says of TSX's asynchronous abort: {'; '.join(statements)}." if statements else ""
