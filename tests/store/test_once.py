"""Rows that many runs share, and lots of runs that are not too many at once."""

from __future__ import annotations

from tmflow.store import dedup


def test_a_lot_is_so_many_items() -> None:
    assert [len(lot) for lot in dedup.chunks(range(2500))] == [1000, 1000, 500]
    assert list(dedup.chunks([])) == []


def test_a_heavy_item_counts_as_many() -> None:
    weights = [600, 600, 1, 5000, 1]
    assert list(dedup.chunks(weights, lambda weight: weight)) == [[600, 600], [1, 5000], [1]]
