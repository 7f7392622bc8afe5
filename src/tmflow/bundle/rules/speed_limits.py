"""The speed limit of a machine: one thread that updates private memory, which no training can beat."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tmflow.probe.document import Probe

# A run may exceed the probed speed by these factors, because of less interference or a fused update.
FACTOR, FACTOR_FUSED = 2, 4
_LONGEST = 700.0  # the exponential of more overflows


class Limits:
    """Limits from the plain loop of a probe: times by number of elements, interpolated linearly on log-log scales."""

    def __init__(self, points: Mapping[int, float]) -> None:
        ordered = sorted(points.items())
        self._elements = [math.log(elements) for elements, _ in ordered]
        self._ns = [math.log(ns) for _, ns in ordered]

    def update_s(self, elements: int, kernel: str | None) -> float:
        """The least seconds of an update of this number of elements."""
        at = math.log(elements)
        within = min(max(at, self._elements[0]), self._elements[-1])
        logarithm = float(np.interp(within, self._elements, self._ns)) + at - within  # beyond the points: proportional
        return math.exp(min(logarithm, _LONGEST)) * 1e-9 / (FACTOR_FUSED if kernel == "fused" else FACTOR)


def limits_of(probe: Probe) -> Limits | None:
    """The limits that a probe measured; None if it measured none."""
    points = {point.elements: point.ns for point in probe.limits.update_ns or ()}
    return Limits(points) if points else None
