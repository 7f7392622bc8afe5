"""What the models of pairs of rows share: initial values, and the scores of pairs.

The score of a pair is the inner product of the first row of an example with another one of its rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmflow.training.network import Array


def embeddings(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
    """A normal distribution of standard deviation 0.1, for the rows of pairs: the gradient of two rows of 0 is 0."""
    return rng.standard_normal(shape, np.float32) * np.float32(0.1)


def pair_scores(examples: Any, table: Any) -> Any:
    """The scores [n, m] for examples [n, 1 + m] of rows of a table [rows, width], in TensorFlow."""
    import tensorflow as tf

    rows = tf.gather(table, examples)  # the gradient of a gather is one of rows
    return tf.reduce_sum(rows[:, :1] * rows[:, 1:], 2)


def pair_scores_of_arrays(examples: Any, table: Array) -> Array:
    """The same in NumPy."""
    sums: Array = np.einsum("nw,nmw->nm", table[examples[:, 0]], table[examples[:, 1:]])
    return sums
