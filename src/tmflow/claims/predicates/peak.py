"""The best speedup of a configuration, at whatever number of workers, is about so much."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tmflow.claims.curve import Curve
from tmflow.claims.statement import Statement
from tmflow.claims.wording import workers


def peak(curves: Sequence[Curve], low: float, high: float) -> list[Statement]:
    """The greatest geometric mean of the speedup lies between the bounds; its interval allows for the choice."""
    statements = []
    for curve in curves:
        speedup = curve.speedup()
        best = int(np.log(speedup.values).mean(axis=1).argmax())
        w, n = speedup.threads[best], len(speedup.threads)
        what = f"best speedup of {curve.name}, {workers(w)}"
        statements.append(Statement(what, "ratio", speedup.at(w), low, high, chosen_of=n))
    return statements
