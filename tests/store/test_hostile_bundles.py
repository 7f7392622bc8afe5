"""Bundles that were damaged or made to do harm: none is believed, and none comes into the database by a part."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, repeat
from pathlib import Path

import pytest

from tests.support.hostile_checks import outcomes
from tests.support.mutations import KINDS

N = 10_000
AT_ONCE = 100  # mutants that a process looks at before it is given others


@pytest.mark.slow
def test_no_mutant_harms(tmp_path: Path) -> None:
    parts = [range(first, N, N // AT_ONCE) for first in range(N // AT_ONCE)]
    # They are started afresh, so that they have no more memory than they need.
    with ProcessPoolExecutor(4, multiprocessing.get_context("spawn")) as pool:
        found = list(chain.from_iterable(pool.map(outcomes, parts, repeat(str(tmp_path)))))
    wrong = [sentence for outcome in found for sentence in outcome.wrong]
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:50])
    imported = Counter(outcome.kind for outcome in found if outcome.imported)
    assert not set(KINDS) - set(imported)
    assert imported.total() >= 500
    assert N // 10 < sum(outcome.sound for outcome in found) < N // 2
