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
SOME = 2_000  # of them are tried in `make test`, and all in `make test-deep`
AT_ONCE = 100  # mutants that a process looks at before it is given others


@pytest.mark.parametrize(
    "n", [pytest.param(SOME, marks=pytest.mark.slow), pytest.param(N, marks=[pytest.mark.deep, pytest.mark.slow])]
)
def test_no_mutant_harms(n: int, tmp_path: Path) -> None:
    parts = [range(first, n, n // AT_ONCE) for first in range(n // AT_ONCE)]
    # They are started afresh, so that they have no more memory than they need.
    with ProcessPoolExecutor(4, multiprocessing.get_context("spawn")) as pool:
        found = list(chain.from_iterable(pool.map(outcomes, parts, repeat(str(tmp_path)))))
    wrong = [sentence for outcome in found for sentence in outcome.wrong]
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:50])
    assert not set(KINDS) - {outcome.kind for outcome in found}
    imported = Counter(outcome.kind for outcome in found if outcome.imported)
    assert n < N or not set(KINDS) - set(imported)  # one in eight is imported, so that it takes many for each kind
    assert imported.total() >= n // 20
    assert n // 10 < sum(outcome.sound for outcome in found) < n // 2
