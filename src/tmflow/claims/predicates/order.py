"""Several configurations, the slowest first: each is faster than the one before it, on average over the workers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tmflow.claims.predicates.averages import over_threads
from tmflow.claims.statements import Curve, Statement


def order(curves: Sequence[Curve], bound: float) -> list[Statement]:
    """Each is more than `bound` faster than the one before, so that what is equivalent is in no order."""
    return [
        Statement(f"{b.name} / {a.name} on average", "ratio", over_threads(b) / over_threads(a), low=1 + bound)
        for a, b in pairwise(curves)
    ]
