"""How a study's trials go against their estimates, whatever becomes of some of them."""

from __future__ import annotations

from bisect import insort
from itertools import accumulate

# Until so many seconds of the estimate are measured, what they took in truth says little of the rest.
TRUSTED_S = 30.0


class Pace:
    """Trials that are done, by how many times as long as estimated each took; and what it was estimated at."""

    def __init__(self) -> None:
        self._ratios = [(1.0, TRUSTED_S)]

    def add(self, estimated_s: float, took_s: float) -> None:
        """A trial is done."""
        insort(self._ratios, (took_s / estimated_s, estimated_s))

    @property
    def slower(self) -> float:
        """How many times as long as estimated it takes: the median, in which a trial weighs what it was estimated at.

        So of one that was to take a second and hung for minutes no more than a second goes astray.
        """
        middle = sum(estimated_s for _, estimated_s in self._ratios) / 2
        until = accumulate(estimated_s for _, estimated_s in self._ratios)
        return next(ratio for (ratio, _), weight in zip(self._ratios, until, strict=True) if weight >= middle)
