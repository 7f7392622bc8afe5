"""The audit of every variant over millions of updates: nothing lost, doubled or misplaced by those that promise it."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from variants import STRATEGIES, Variant, variants_of

from tmflow.native import loader

if TYPE_CHECKING:
    from tmflow.native._core import AuditRow

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1800)]

SIZES = (1, 10, 7_840, 100_003)
THREADS = (1, 2, 4, 16)
DTYPES = ("float32", "float64")
ENOUGH = 10_000_000  # updates of one element, of each variant
SECONDS = 0.15  # for each combination; a variant that has not made enough updates by then begins again


def audits(variant: Variant, elements: int, threads: int, dtype: str) -> list[AuditRow]:
    """Audits until there are enough updates of elements or the time is over; at least one."""
    rows: list[AuditRow] = []
    began = time.monotonic()
    updates = 1
    while sum(row["expected"] for row in rows) < ENOUGH:
        row = loader.core().audit(variant.strategy, threads, updates, elements, dtype, variant.parameters)
        assert row["counted"] == threads * updates, (str(variant), row)
        rows.append(row)
        left = SECONDS - (time.monotonic() - began)
        if left < 0:
            break
        wanted = -(-ENOUGH // (threads * elements))
        updates = max(1, min(4 * updates, wanted, int(left / max(row["seconds"], 1e-6) * updates)))
    return rows


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_update_is_kept_or_known_to_be_lost(strategy: str, capsys: pytest.CaptureFixture[str]) -> None:
    for variant in variants_of(strategy):
        began, done = time.monotonic(), 0
        lost: Counter[tuple[int, int]] = Counter()
        while done < ENOUGH:
            for elements, threads, dtype in itertools.product(SIZES, THREADS, DTYPES):
                for row in audits(variant, elements, threads, dtype):
                    done += row["expected"]
                    assert row["doubled"] == 0, (str(variant), row)
                    assert row["corrupt_elements"] == 0, (str(variant), row)
                    assert row["lost"] == 0 or not variant.keeps_updates, (str(variant), row)
                    lost[elements, threads] += row["lost"]
        seconds = time.monotonic() - began
        where = ", ".join(f"{e} elements x {t} threads" for (e, t), n in sorted(lost.items()) if n) or "none"
        with capsys.disabled():
            print(f"\n{variant}: {done:.2e} updates of an element in {seconds:.1f} s; lost: {where}", end="")
        assert not any(lost[elements, 1] for elements in SIZES), "one thread has nobody to lose to"
        assert variant.keeps_updates or lost.total() > 0, f"{variant} lost nothing: the audit saw no threads at once"
