"""The facts of a machine as people read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from tmflow.base.json_objects import parse_object

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
    """fact, value: all facts of a platform, those that this version knows first; one that is missing is unknown."""
    names = [*LABELS, *(name for name in facts if name not in LABELS)]
    return pd.DataFrame(
        [(LABELS.get(name, name), format_fact(name, facts.get(name))) for name in names], columns=["fact", "value"]
    )


def format_fact(name: str, value: Any) -> str:
    """A fact with its unit."""
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
    """Whether the machine can run hardware transactions and, if not, what is known of why; in plain words.

    environments: with tm_enabled (whether any transaction of a probe committed) and mitigations_json.
    """
    capability = facts.get("tm_capability")
    if capability in WHAT:
        return _reported(WHAT[capability], environments)
    if capability != "none":
        return "Unknown: whether the processor has hardware transactions could not be read."
    if facts.get("isa") == "x86_64":
        word = _kernel_on_tsx(environments)
        return f"No: the processor reports no RTM; it never had it, or its microcode or a setting hides it.{word}"
    arm = facts.get("isa") == "aarch64"
    return f"No: {'Linux enables none on Arm' if arm else 'the processor reports no hardware transactions'}."


def _reported(what: str, environments: pd.DataFrame) -> str:
    """Whether transactions that the processor reports ever commit."""
    probes, word = environments["tm_enabled"].dropna(), _kernel_on_tsx(environments)
    if probes.any():
        ever = "" if probes.all() else f" under {int(probes.sum())} of {len(probes)} settings that were probed"
        return f"Yes: it reports {what}, and transactions of a probe committed{ever}."
    if len(probes):
        return f"No: it reports {what}, but no transaction of a probe ever committed.{word}"
    return f"Unknown: it reports {what}; whether a transaction ever commits was not probed.{word}"


def _kernel_on_tsx(environments: pd.DataFrame) -> str:
    """What the kernels said of the one vulnerability whose mitigation switches TSX off."""
    texts = environments["mitigations_json"].dropna()
    mitigations = [
        parse_object(text, "what is known of the mitigations of a kernel") for text in texts if text != "null"
    ]
    statements = sorted({str(facts["tsx_async_abort"]) for facts in mitigations if facts.get("tsx_async_abort")})
    return f" The kernel says of TSX's asynchronous abort: {'; '.join(statements)}." if statements else ""
