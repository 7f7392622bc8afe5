"""What a predicate looks at: one configuration over numbers of workers and rounds."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


class Curve(NamedTuple):
    """Values of shape (points, rounds): point i has `threads[i]` workers; item j of all curves is the same round.

    NaN where a round has no such value; a predicate that compares values gets none.
    """

    name: str
    threads: tuple[int, ...]
    values: Values

    def at(self, threads: int) -> Values:
        """The values of that number of workers, one for each round that has it."""
        values: Values = self.values[self.threads.index(threads)]
        return values[~np.isnan(values)]

    def speedup(self) -> Self:
        """Of a curve of speeds: each value over that of one worker in the same round."""
        return self._replace(values=self.values / self.at(1))
