"""How fast one thread of a machine updates memory of its own: what no training on it can beat."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tmflow.probe.document import Probe

# A run may be so many times as fast as the probe was: it may have had a better moment, or a fused update.
FACTOR, FACTOR_FUSED = 2, 4
_LONGEST = 700.0  # the logarithm of more is no float


class Limits:
    """From the plain loop of a probe: its time by elements, between them straight lines on logarithmic scales."""

    def __init__(self, points: Mapping[int, float]) -> None:
        ordered = sorted(points.items())
        self._elements = [math.log(elements) for elements, _ in ordered]
        self._ns = [math.log(ns) for _, ns in ordered]

    def update_s(self, elements: int, kernel: str | None) -> float:
        """The least seconds that an update of so many elements takes a run."""
        at = math.log(elements)
        within = min(max(at, self._elements[0]), self._elements[-1])
        logarithm = float(np.interp(within, self._elements, self._ns)) + at - within  # beyond: as many times as long
        return math.exp(min(logarithm, _LONGEST)) * 1e-9 / (FACTOR_FUSED if kernel == "fused" else FACTOR)


def limits_of(probe: Probe) -> Limits | None:
    """The limits that a probe measured; None if it measured none."""
    points = {point.elements: point.ns for point in probe.limits.update_ns or ()}
    return Limits(points) if points else None
