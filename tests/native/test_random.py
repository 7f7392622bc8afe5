"""Random updates of a slice of a larger array: the sums, the surrounding memory and the counters are exactly right."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from variants import STRATEGIES, Variant, variants_of

from tmflow.native import loader
from tmflow.spec.strategies import parameters_of

pytestmark = pytest.mark.random

GUARD = 12345.0  # an element that no update may touch


@st.composite
def cases(draw: st.DrawFn, variants: list[Variant]) -> tuple[Variant, Any, int, int, list[int]]:
    """A variant with a random chunk, a type, the position of the slice, and the number of updates of each thread."""
    variant = draw(st.sampled_from(variants))
    elements = draw(st.integers(0, 40) | st.integers(0, 5000))
    if any(parameter.startswith("chunk=") for parameter in variant.parameters):
        others = tuple(parameter for parameter in variant.parameters if not parameter.startswith("chunk="))
        chunk = draw(st.integers(1, max(1, elements + 1)))
        variant = Variant(variant.strategy, (*others, f"chunk={chunk}"), variant.keeps_updates)
    updates = draw(st.lists(st.integers(0, 20), min_size=1, max_size=6))
    return variant, draw(st.sampled_from([np.float32, np.float64])), draw(st.integers(0, 40)), elements, updates


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(data=st.data())
def test_any_slice_under_any_threads(strategy: str, data: st.DataObject) -> None:
    variant, dtype, offset, elements, updates = data.draw(cases(variants_of(strategy)))
    around = np.full(offset + elements + 40, GUARD, dtype)
    inside = around[offset : offset + elements]
    inside[:] = 0
    threads = len(updates)
    # Small integers that differ by thread and element: every sum is exact in either type.
    deltas = [(np.arange(elements) % 7 + thread + 1).astype(dtype) for thread in range(threads)]
    region = loader.core().Region(inside, workers=threads)

    def work(thread: int) -> None:
        for _ in range(updates[thread]):
            region.apply(strategy, -1.0, deltas[thread], thread, variant.parameters)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    region.settle()

    expected = sum(n * delta for n, delta in zip(updates, deltas, strict=True)) + np.zeros(elements, dtype)
    if variant.keeps_updates or threads == 1:
        np.testing.assert_array_equal(inside, expected)
    else:
        assert (inside <= expected).all()
    assert (around[:offset] == GUARD).all()
    assert (around[offset + elements :] == GUARD).all()
    assert len(around) == offset + elements + 40
    for n, row in zip(updates, region.counters(), strict=True):
        assert row["updates"] == n
        known = row["attempts"] is not None  # glibc does not report them
        assert not known or row["attempts"] == row["commits"] + sum(row["aborts"].values())
        if variant.has_transactions:
            sections = n * variant.sections(elements)
            # An empty variable: no array, or one with no element.
            assert sections <= row["commits"] + row["fallbacks"] <= max(sections, n)
            if "budget" in (fallbacks := parameters_of(strategy)):
                assert row["attempts"] <= max(sections, n) * int(variant.value("budget") or fallbacks["budget"])
