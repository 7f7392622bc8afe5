"""The order of the data: equal for every number of workers, every image once per epoch (except the remainder)."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tmflow.training.data import batch_starts, permutation


@given(st.integers(0, 1000), st.integers(1, 50), st.integers(50, 400), st.integers(1, 500))
def test_batches_lie_inside_and_do_not_overlap_within_an_epoch(seed: int, batch: int, images: int, steps: int) -> None:
    starts = batch_starts(seed, images, batch, steps)
    assert len(starts) == steps
    assert starts.min() >= 0
    assert starts.max() + batch <= images
    epoch = np.sort(starts[: max((images - batch) // batch, 1)])
    assert (np.diff(epoch) >= batch).all()


def test_order_is_fixed_by_the_seed_alone() -> None:
    assert (batch_starts(1, 1000, 10, 300) == batch_starts(1, 1000, 10, 300)).all()
    assert (batch_starts(1, 1000, 10, 300)[:200] == batch_starts(1, 1000, 10, 200)).all()
    assert (batch_starts(1, 1000, 10, 300) != batch_starts(2, 1000, 10, 300)).any()
    assert sorted(permutation(3, 100)) == list(range(100))


def test_epochs_differ() -> None:
    starts = batch_starts(1, 1000, 10, 2 * 99)
    assert (starts[:99] != starts[99:]).any()
