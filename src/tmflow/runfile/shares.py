"""What full measures found of one run, as shares: of its updates, its reads, and its workers' time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def shares(run: Mapping[str, Any]) -> dict[str, float]:
    """Those that were measured, by what they are shares of; `run` is in the layout of a run file.

    An emulated run shows no time, nor a share of it.
    """
    found = {
        "updates lost": _share(_sum(run["lost"], "lost"), _sum(run["lost"], "expected")),
        "reads torn": _share(_sum(run["reads"], "torn"), _sum(run["reads"], "reads")),
    }
    if run["evidence"] != "emulated" and run["loop_s"] is not None:
        time = run["spec"]["threads"] * run["loop_s"]
        found["time waiting for locks"] = _share(_sum(run["counters"], "lock_waited_s"), time)
        found["time holding locks"] = _share(_sum(run["counters"], "lock_held_s"), time)
    return {name: share for name, share in found.items() if share is not None}


def _sum(rows: Iterable[Mapping[str, Any]], name: str) -> float | None:
    values = [row[name] for row in rows if row[name] is not None]
    return sum(values) if values else None


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole
