"""Far more threads than processors under one strategy in this process: no thread may starve."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from typing import Any

from tmflow.native import loader

THREADS, PROCESSORS = 16, 2
SIZES = (1, 7_850, 100_003)


def endured(strategy: str, parameters: Sequence[str], seconds: float, *, reads: bool) -> dict[str, Any]:
    """The result of `seconds` of work by THREADS threads on PROCESSORS processors, at least one turn for each size.

    A turn is an audit in which every thread makes all of its updates, so a starving thread is waited for. With `reads`,
    every second turn has half of the threads copy the variable through the strategy while the others update it.
    parameters: in the form of the native library. JSON types.
    """
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:PROCESSORS])
    turns = [*itertools.product(SIZES, ("updates", "reads") if reads else ("updates",))]
    report = {"updates": 0, "expected": 0, "lost": 0, "doubled_or_misplaced": 0, "reads": 0, "checked": 0, "torn": 0}
    amounts = dict.fromkeys(turns, 1)
    began = time.monotonic()
    for turn in itertools.cycle(turns):
        elements, kind = turn
        started = time.monotonic()
        if kind == "updates":
            found = _updates(strategy, parameters, elements, amounts[turn])
        else:
            found = _reads(strategy, parameters, elements, amounts[turn])
        for name, n in found.items():
            report[name] += n
        took = time.monotonic() - started
        amounts[turn] = max(1, round(amounts[turn] * min(8.0, _turn_s(seconds, len(turns)) / max(took, 1e-6))))
        if turn == turns[-1] and time.monotonic() - began >= seconds:
            break
    return {**report, "seconds": time.monotonic() - began}


def _turn_s(seconds: float, turns: int) -> float:
    """The length of a turn: short enough that each size has several turns, and none delays the rest for long."""
    return min(2.0, seconds / (4 * turns))


def _updates(strategy: str, parameters: Sequence[str], elements: int, updates: int) -> dict[str, int]:
    row = loader.core().audit(strategy, THREADS, updates, elements, "float32", list(parameters))
    assert row["counted"] == THREADS * updates, row
    return {
        "updates": row["counted"],
        "expected": row["expected"],
        "lost": row["lost"],
        "doubled_or_misplaced": row["doubled"] + row["corrupt_elements"],
    }


def _reads(strategy: str, parameters: Sequence[str], elements: int, reads: int) -> dict[str, int]:
    half = THREADS // 2
    row = loader.core().measure_reads(strategy, half, THREADS - half, reads, elements, list(parameters))
    return {name: row[name] for name in ("reads", "updates", "checked", "torn")}
