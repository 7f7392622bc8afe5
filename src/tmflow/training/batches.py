"""The order of a trial's data: it depends on (seed, batch), not on the strategy, threads or driver.

The training set is permuted once per trial seed, so that every batch is a contiguous slice and needs no copy inside
the timed loop. Epoch e cuts the permuted set into batches from a random offset and visits them in random order. Step k
of worker w out of n takes batch w + k * n of that sequence: all workers together see the same data as one worker.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tmflow.base.errors import Unsupported


def permutation(seed: int, images: int) -> NDArray[np.int64]:
    """The order of the training images of a trial: shape [images]."""
    return np.random.default_rng([seed, 0]).permutation(images)


def batch_starts(seed: int, images: int, batch: int, steps: int) -> NDArray[np.int64]:
    """First image of each of the trial's `steps` batches in the permuted set: shape [steps].

    Raises Unsupported if the training set is smaller than a batch.
    """
    if batch > images:
        raise Unsupported(f"a batch of {batch} does not fit a training set of {images} images")
    per_epoch = max((images - batch) // batch, 1)
    rng = np.random.default_rng([seed, 1])
    epochs = []
    for _ in range(-(-steps // per_epoch)):
        offset = rng.integers(0, min(batch, images - batch + 1))
        epochs.append(offset + batch * rng.permutation(per_epoch))
    return np.concatenate(epochs)[:steps]
