"""What can be read off one curve of accuracies."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike


def first_at(target: float, seconds: ArrayLike, accuracies: ArrayLike) -> float:
    """When a curve, in the order of time, first was at a target; NaN if it never was.

    Between the last point below the target and the first that is not, the accuracy is taken to rise straight; before
    the first point nothing is known, so that point's time counts.
    """
    times, heights = np.asarray(seconds, dtype=float), np.asarray(accuracies, dtype=float)
    reached = heights >= target
    if not reached.any():
        return math.nan
    first = int(reached.argmax())
    if first == 0:
        return float(times[0])
    share = (target - heights[first - 1]) / (heights[first] - heights[first - 1])
    return float(times[first - 1] + share * (times[first] - times[first - 1]))
