"""Times of steps that alternate: each in every round, in another order each round, so all meet the same moments."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

LEAST_STEPS = 5

Step = Callable[[], Any]
Times = dict[str, dict[str, list[float]]]  # seconds per step by case and contestant, one for each round


def seconds_per_step(step: Step, steps: int) -> float:
    """The mean time of so many steps, in seconds."""
    began = time.perf_counter()
    for _ in range(steps):
        step()
    return (time.perf_counter() - began) / steps


def measure(steps: Mapping[str, Mapping[str, Step]], rounds: int, seconds: float) -> Times:
    """Measure every contestant of each case in each round, for about so many seconds."""
    counts = {}
    for case, of_case in steps.items():
        for name, step in of_case.items():
            seconds_per_step(step, LEAST_STEPS)  # the first steps take longer
            counts[case, name] = max(LEAST_STEPS, int(seconds / seconds_per_step(step, LEAST_STEPS)))
    times: Times = defaultdict(lambda: defaultdict(list))
    for round_number in range(1, rounds + 1):
        for case, of_case in steps.items():
            for name in random.Random(f"{round_number} {case}").sample(list(of_case), len(of_case)):
                times[case][name].append(seconds_per_step(of_case[name], counts[case, name]))
    return times
