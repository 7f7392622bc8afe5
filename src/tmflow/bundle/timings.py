"""Checks the times of all runs of a bundle for patterns that fabricated times have and clocks do not produce.

Each rule needs a share of many runs, so that no coincidence rejects a bundle. The bounds are far from measurements: in
2,041 runs of 333 points on a virtual machine no two times were equal, the standard deviation of a point's times over
its rounds was 0.8 % or more (median 6 %), and none of 1,519 pairs that differ only in threads scaled within 0.1 % of
exactly.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tmflow.runfile.record import Run

MIN_RUNS = 20  # below, coincidences are too likely
MIN_ROUNDS = 3
MIN_POINTS = 8  # points with at least `MIN_ROUNDS` rounds; pairs of runs that differ only in threads
MAX_EQUAL = 3
MAX_EQUAL_SHARE = 0.05  # times in nanoseconds are almost never equal
FEW_DIGITS = 4
MAX_ROUND_SHARE = 0.5
MIN_MEDIAN_SD = 0.0005  # of the logarithm of a point's times
EXACT = 0.001  # tolerance between the logarithms of a speedup and of the ratio of threads
MAX_EXACT_SHARE = 0.25
SHORTEST_S, LONGEST_S = 1e-9, 1e9
_HALF = 16  # hex digits of a hash that are kept: 8 bytes
_NO_DIGIT = 1e-9  # relative; above the error of a decimal number in binary

Floats = NDArray[np.float64]
Ids = NDArray[np.uint64]


class Timings:
    """The wall-clock time of each run's loop with its point and round, 36 bytes per run."""

    def __init__(self) -> None:
        self._points = array("Q")
        self._families = array("Q")
        self._threads = array("i")
        self._rounds = array("Q")
        self._loop_s = array("d")

    def add(self, run: Run, spec_sha256: str, family_sha256: str) -> None:
        """Add a run if a clock measured its time. Specs of one family differ only in threads."""
        if run.time_domain != "wall" or not run.shows_time or not SHORTEST_S <= (run.loop_s or 0) <= LONGEST_S:
            return  # other rules reject impossible times
        definition = int(run.experiment.definition_sha256[:_HALF], 16)
        self._points.append(definition ^ int(spec_sha256[:_HALF], 16))
        self._families.append(definition ^ int(family_sha256[:_HALF], 16))
        self._threads.append(run.spec.threads)
        self._rounds.append(run.round)
        self._loop_s.append(run.loop_s or 0)

    def merge(self, later: Timings) -> None:
        """Append the times of other members."""
        for name, values in vars(later).items():
            getattr(self, name).extend(values)

    def contradictions(self) -> Iterator[str]:
        """Yield a sentence for each pattern that no clock produces."""
        loop_s = np.asarray(self._loop_s)
        if len(loop_s) < MIN_RUNS:
            return
        yield from _equal(loop_s)
        yield from _rounded(loop_s)
        yield from _without_noise(np.asarray(self._points), np.log(loop_s))
        yield from _scaling_exactly(
            np.asarray(self._families), np.asarray(self._rounds), np.asarray(self._threads), np.log(loop_s)
        )


def _equal(loop_s: Floats) -> Iterator[str]:
    """Times that are equal to the last digit."""
    _, counts = np.unique(loop_s, return_counts=True)
    n_equal = counts[counts > 1].sum()
    if n_equal > MAX_EQUAL and (share := n_equal / len(loop_s)) > MAX_EQUAL_SHARE:
        yield f"{share:.0%} of the times equal those of other runs to the last digit; no clock does that."


def _rounded(loop_s: Floats) -> Iterator[str]:
    """Times with few digits."""
    digits = loop_s / 10.0 ** (np.floor(np.log10(loop_s)) + 1 - FEW_DIGITS)
    share = np.mean(np.abs(digits - np.round(digits)) < _NO_DIGIT * digits)
    if share > MAX_ROUND_SHARE:
        yield f"{share:.0%} of the times have {FEW_DIGITS} digits or fewer; a clock gives more."


def _without_noise(points: Ids, log_s: Floats) -> Iterator[str]:
    """Rounds of a point with almost equal times."""
    _, at, counts = np.unique(points, return_inverse=True, return_counts=True)
    means = np.bincount(at, log_s) / counts
    often = counts >= MIN_ROUNDS
    sds = np.sqrt(np.bincount(at, (log_s - means[at]) ** 2)[often] / (counts[often] - 1))
    if len(sds) >= MIN_POINTS and (median := np.median(sds)) < MIN_MEDIAN_SD:
        yield (
            f"the rounds of a point differ by {median:.2%} only (median of {len(sds)} points); "
            "no machine repeats itself so exactly."
        )


def _scaling_exactly(families: Ids, rounds: Ids, threads: NDArray[np.int32], log_s: Floats) -> Iterator[str]:
    """Runs of a round that differ only in threads and scale exactly."""
    order = np.lexsort((threads, rounds, families))
    families, rounds, threads = families[order], rounds[order], threads[order]
    work = log_s[order] + np.log(threads)  # equal for a family that scales exactly
    pairs = (np.diff(families) == 0) & (np.diff(rounds) == 0) & (np.diff(threads) > 0)
    n = np.count_nonzero(pairs)
    if n >= MIN_POINTS and (share := np.mean(np.abs(np.diff(work)[pairs]) < EXACT)) > MAX_EXACT_SHARE:
        yield f"{share:.0%} of {n} pairs of runs that differ only in threads scale exactly; no machine does that."
