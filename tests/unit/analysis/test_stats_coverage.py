"""The coverage of the intervals under simulated noise is at least the nominal level.

Each simulation repeats an experiment of two configurations whose true ratio is known. Limits are more than three
standard errors of the simulation away from the expected value, or allow for three standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from tmflow.analysis.stats import equivalent, joint_ratio_intervals, mean_interval, ratio_interval

REPEATS = 5000
ROUNDS = pytest.mark.parametrize("rounds", [6, 8, 12])
BOUND = 0.05

Noise = Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.float64]]
Pairs = tuple[NDArray[np.float64], NDArray[np.float64]]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Independent noise of 3 % for each configuration, on the log."""
    return rng.normal(0, 0.03, shape)


def heavy(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The same spread in the middle, but the tails of a t distribution with 3 degrees: some runs are 20 % off."""
    return 0.03 * rng.standard_t(3, shape)


NOISE = pytest.mark.parametrize("noise", [normal, heavy], ids=["normal", "heavy-tailed"])


def simulated(noise: Noise, ratio: float, rounds: int) -> Pairs:
    """Times of two configurations, (repeats, rounds) each: the lognormal state of the machine in a round slows both."""
    rng = np.random.default_rng(rounds)
    shape = (REPEATS, rounds)
    machine = rng.normal(math.log(0.2), 0.3, shape)
    return np.exp(machine + math.log(ratio) + noise(rng, shape)), np.exp(machine + noise(rng, shape))


def standard_error(share: float) -> float:
    return math.sqrt(share * (1 - share) / REPEATS)


@ROUNDS
@NOISE
def test_ratio_intervals_cover_at_93_to_97_percent(noise: Noise, rounds: int) -> None:
    pairs = zip(*simulated(noise, 1.25, rounds), strict=True)
    covered = sum(low <= 1.25 <= high for _, low, high, _ in (ratio_interval(a, b) for a, b in pairs)) / REPEATS
    assert 0.93 <= covered <= 0.97  # 0.95 and 0.96 are expected: 3 to 4 standard errors away


@ROUNDS
@NOISE
@pytest.mark.parametrize("ratio", [1 + BOUND, 1 / (1 + BOUND)], ids=["slower", "faster"])
def test_equivalence_is_seldom_declared_at_the_bound(noise: Noise, ratio: float, rounds: int) -> None:
    pairs = zip(*simulated(noise, ratio, rounds), strict=True)
    declared = sum(equivalent(a, b, BOUND) for a, b in pairs) / REPEATS
    assert declared <= 0.05 + 3 * standard_error(0.05)  # exactly 5 % is expected where the noise is small


def test_equivalence_is_declared_where_it_holds() -> None:
    """A test that never declares equivalence would be wrong in 0 % of cases."""
    declared = sum(equivalent(a, b) for a, b in zip(*simulated(normal, 1.0, 12), strict=True)) / REPEATS
    assert declared > 0.8


@ROUNDS
def test_noise_on_one_side_is_covered_too_seldom(rounds: int) -> None:
    """Only one of two configurations stalls, in a tenth of its runs, for 20 %."""
    rng = np.random.default_rng(rounds)
    shape = (REPEATS, rounds)
    stalls = np.where(rng.random(shape) < 0.1, rng.exponential(0.2, shape), 0.0)
    means = [mean_interval(row) for row in rng.normal(0, 0.02, shape) + stalls]
    assert sum(low <= 0.1 * 0.2 <= high for _, low, high, _ in means) / REPEATS < 0.90


def test_joint_intervals_cover_all_points_at_once() -> None:
    """Eight points against one baseline, in the same rounds; intervals of single points miss one far too often."""
    rng = np.random.default_rng(8)
    repeats, points, rounds = 800, 8, 6
    machine = rng.normal(0, 0.3, (repeats, 1, rounds))
    baseline = np.exp(machine + normal(rng, (repeats, 1, rounds))).repeat(points, axis=1)
    others = np.exp(machine + normal(rng, (repeats, points, rounds)))
    joint = sum(
        all(low <= 1 <= high for _, low, high, _ in joint_ratio_intervals(*pair))
        for pair in zip(others, baseline, strict=True)
    )
    single = sum(
        all(low <= 1 <= high for _, low, high, _ in map(ratio_interval, *pair))
        for pair in zip(others, baseline, strict=True)
    )
    assert joint / repeats >= 0.95
    assert single / repeats < 0.90
