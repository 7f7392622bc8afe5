"""Rows that many runs share, and batches of runs of bounded size."""

from __future__ import annotations

from tmflow.store import rows


def test_a_lot_is_so_many_items() -> None:
    assert [len(lot) for lot in rows.chunks(range(2500))] == [1000, 1000, 500]
    assert list(rows.chunks([])) == []


def test_a_heavy_item_counts_as_many() -> None:
    weights = [600, 600, 1, 5000, 1]
    assert list(rows.chunks(weights, lambda weight: weight)) == [[600, 600], [1, 5000], [1]]
