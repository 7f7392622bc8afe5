"""One configuration is so many times as fast as another, on average over the workers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tmflow.claims.predicates.averages import over_threads
from tmflow.claims.statements import Curve, Statement


def ratio_within(curves: Sequence[Curve], low: float | None, high: float | None) -> list[Statement]:
    """The first's speed over that of each other lies between the bounds; None is no bound."""
    first, *others = curves
    return [
        Statement(
            f"{first.name} / {other.name} on average",
            "ratio",
            over_threads(first) / over_threads(other),
            0 if low is None else low,
            math.inf if high is None else high,
        )
        for other in others
    ]
