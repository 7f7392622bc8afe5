"""Zipf's law: the thing of rank r is drawn with a probability proportional to (r + 1) ** -skew; ranks are from 0."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Draw = Callable[[int | tuple[int, int]], NDArray[np.int64]]


def frequencies(things: int, skew: float) -> NDArray[np.float64]:
    """The probability of each rank, up to a factor: shape [things]."""
    return np.arange(1, things + 1, dtype=np.float64) ** -skew


def drawer(rng: np.random.Generator, weights: NDArray[np.float64]) -> Draw:
    """A function that draws indices of `weights` [n] with these probabilities, up to a factor, in any shape."""
    cumulative = np.cumsum(weights)
    cumulative /= cumulative[-1]
    return lambda shape: np.searchsorted(cumulative, rng.random(shape), side="right")


def draw_again_what_a_row_repeats(drawn: NDArray[np.int64], draw: Draw) -> None:
    """Replace each number that its row has before it, too, until no row [n, m] has a number twice."""
    rows = np.arange(len(drawn))
    while len(rows):
        of_rows = drawn[rows]
        again = _repeated(of_rows)
        of_rows[again] = draw(int(again.sum()))
        drawn[rows] = of_rows
        rows = rows[again.any(axis=1)]


def _repeated(drawn: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each number is one that its row has before it, too."""
    order = np.argsort(drawn, axis=1, kind="stable")
    ordered = np.take_along_axis(drawn, order, axis=1)
    repeated = np.zeros(drawn.shape, np.bool_)
    np.put_along_axis(repeated, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    return repeated
