"""The best speedup of a configuration, at whatever number of workers, is about so much."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tmflow.analysis.stats import CONFIDENCE, mean_interval
from tmflow.base.text import workers
from tmflow.claims.statements import Curve, Statement


def peak(curves: Sequence[Curve], low: float, high: float) -> list[Statement]:
    """The greatest geometric mean of the speedup lies between the bounds; its interval allows for the choice.

    What is looked at is the number of workers whose mean may be the greatest, that is whose upper bound is: if that
    one is below a bound, all are, however few and wild the rounds of some.
    """
    statements = []
    for curve in curves:
        speedup = curve.speedup()
        n = len(speedup.threads)
        intervals = [mean_interval(rounds, 1 - (1 - CONFIDENCE) / n) for rounds in np.log(speedup.values)]
        best = max(
            range(n),
            key=lambda point: intervals[point].high if speedup.values.shape[1] > 1 else intervals[point].estimate,
        )
        w = speedup.threads[best]
        what = f"best speedup of {curve.name}, {workers(w)}"
        statements.append(Statement(what, "ratio", speedup.at(w), low, high, chosen_of=n))
    return statements
