"""Audit one variant in this process, over all sizes, numbers of threads and types, until there are enough updates."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tmflow.native import loader

if TYPE_CHECKING:
    from tmflow.native._core import AuditRow

SIZES = (1, 10, 7_840, 100_003)
THREADS = (1, 2, 4, 16)
DTYPES = ("float32", "float64")
ENOUGH = 10_000_000  # updates of one element, of each variant
SECONDS = 0.15  # for each combination; a variant with too few updates by then is audited again


def audited(strategy: str, parameters: Sequence[str]) -> dict[str, Any]:
    """The audit of at least ENOUGH updates of elements: their number, the time, the worst row, and all losses.

    parameters: in the form of the native library. `lost`: the counts above 0, by "E elements x T threads". JSON types.
    """
    began, done, wrong = time.monotonic(), 0, 0
    lost: Counter[str] = Counter()
    while done < ENOUGH:
        for elements, threads, dtype in itertools.product(SIZES, THREADS, DTYPES):
            for row in _audits(strategy, parameters, elements, threads, dtype):
                done += row["expected"]
                wrong += row["doubled"] + row["corrupt_elements"]
                lost[f"{elements} elements x {threads} threads"] += row["lost"]
    where = {place: n for place, n in lost.items() if n}
    return {"updates": done, "seconds": time.monotonic() - began, "doubled_or_misplaced": wrong, "lost": where}


def _audits(strategy: str, parameters: Sequence[str], elements: int, threads: int, dtype: str) -> list[AuditRow]:
    """Audit until there are enough updates of elements or the time is over; at least once."""
    rows: list[AuditRow] = []
    began = time.monotonic()
    updates = 1
    while sum(row["expected"] for row in rows) < ENOUGH:
        row = loader.core().audit(strategy, threads, updates, elements, dtype, list(parameters))
        assert row["counted"] == threads * updates, row
        rows.append(row)
        left = SECONDS - (time.monotonic() - began)
        if left < 0:
            break
        wanted = -(-ENOUGH // (threads * elements))
        updates = max(1, min(4 * updates, wanted, int(left / max(row["seconds"], 1e-6) * updates)))
    return rows
