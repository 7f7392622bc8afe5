"""How many updates make a measurement: enough to tell, and no more."""

from __future__ import annotations

import math
from collections.abc import Callable

TARGET_S = 0.03  # of one measurement: hundreds of times what waking the threads takes
MAX_UPDATES = 1_000_000_000


def calibrated(seconds: Callable[[int], float]) -> int:
    """How many updates of each thread take about TARGET_S; `seconds` tells what a number of updates takes.

    The first are slower than the rest (cold caches, pages that are not there), so a guess is trusted only once it
    took half of the target.
    """
    updates = 1
    while (took := max(seconds(updates), 1e-9)) < TARGET_S / 2 and updates < MAX_UPDATES:
        updates = min(updates * 32, math.ceil(updates * TARGET_S / took), MAX_UPDATES)
    return min(max(1, round(updates * TARGET_S / took)), MAX_UPDATES)
