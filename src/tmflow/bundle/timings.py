"""Checks the times of all runs of a bundle for patterns that fabricated times have and clocks do not produce.

Each rule requires the pattern in a share of many runs, so that no coincidence rejects a bundle. The bounds are far from
measurements: in 2,041 runs of 333 points on a virtual machine, no two times were equal, the standard deviation of a
point's times over its rounds was 0.8 % or more (median 6 %), and none of 1,519 pairs that differ only in threads was
within 0.1 % of exact scaling.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

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
_HALF = 16  # hex digits kept of a hash: 8 bytes
_NO_DIGIT = 1e-9  # relative; above the rounding error of a decimal number in binary

# A run with a measured time, 36 bytes: the hashes of its point and its family, threads, round, and the loop's time.
_RUN = np.dtype([("point", "u8"), ("family", "u8"), ("threads", "i4"), ("round", "u8"), ("loop_s", "f8")])
_pack = Struct("=QQiQd").pack

Floats = NDArray[np.float64]
Runs = NDArray[np.void]


class Timings:
    """The wall-clock time of each run's loop with its point and round."""

    def __init__(self) -> None:
        self._runs = bytearray()

    def add(self, run: Run, spec_sha256: str, family_sha256: str) -> None:
        """Add a run if a clock measured its time. Specs of one family differ only in threads."""
        if run.time_domain != "wall" or not run.shows_time or not SHORTEST_S <= (run.loop_s or 0) <= LONGEST_S:
            return  # other rules reject impossible times
        definition, point, family = (
            int(sha256[:_HALF], 16) for sha256 in (run.experiment.definition_sha256, spec_sha256, family_sha256)
        )
        self._runs += _pack(definition ^ point, definition ^ family, run.spec.threads, run.round, run.loop_s)

    def merge(self, later: Timings) -> None:
        """Append the times of other members."""
        self._runs += later._runs

    def contradictions(self) -> Iterator[str]:
        """Yield a sentence for each pattern that no clock produces."""
        runs = np.frombuffer(self._runs, _RUN)
        if len(runs) >= MIN_RUNS:
            yield from _equal(runs["loop_s"])
            yield from _rounded(runs["loop_s"])
            yield from _without_noise(runs)
            yield from _scaling_exactly(runs)


def _equal(loop_s: Floats) -> Iterator[str]:
    """Find times that are equal to the last digit."""
    _, counts = np.unique(loop_s, return_counts=True)
    n_equal = counts[counts > 1].sum()
    if n_equal > MAX_EQUAL and (share := n_equal / len(loop_s)) > MAX_EQUAL_SHARE:
        yield f"{share:.0%} of the times equal those of other runs to the last digit; no clock does that."


def _rounded(loop_s: Floats) -> Iterator[str]:
    """Find times with few digits."""
    digits = loop_s / 10.0 ** (np.floor(np.log10(loop_s)) + 1 - FEW_DIGITS)
    share = np.mean(np.abs(digits - np.round(digits)) < _NO_DIGIT * digits)
    if share > MAX_ROUND_SHARE:
        yield f"{share:.0%} of the times have {FEW_DIGITS} digits or fewer; a clock gives more."


def _without_noise(runs: Runs) -> Iterator[str]:
    """Find points whose rounds have almost equal times."""
    log_s = np.log(runs["loop_s"])
    _, at, counts = np.unique(runs["point"], return_inverse=True, return_counts=True)
    means = np.bincount(at, log_s) / counts
    often = counts >= MIN_ROUNDS
    sds = np.sqrt(np.bincount(at, (log_s - means[at]) ** 2)[often] / (counts[often] - 1))
    if len(sds) >= MIN_POINTS and (median := np.median(sds)) < MIN_MEDIAN_SD:
        yield (
            f"the rounds of a point differ by {median:.2%} only (median of {len(sds)} points); "
            "no machine repeats itself so exactly."
        )


def _scaling_exactly(runs: Runs) -> Iterator[str]:
    """Find runs of a round that differ only in threads and scale exactly."""
    runs = runs[np.lexsort((runs["threads"], runs["round"], runs["family"]))]
    work = np.log(runs["loop_s"]) + np.log(runs["threads"])  # equal for a family that scales exactly
    pairs = (np.diff(runs["family"]) == 0) & (np.diff(runs["round"]) == 0) & (np.diff(runs["threads"]) > 0)
    n = np.count_nonzero(pairs)
    if n >= MIN_POINTS and (share := np.mean(np.abs(np.diff(work)[pairs]) < EXACT)) > MAX_EXACT_SHARE:
        yield f"{share:.0%} of {n} pairs of runs that differ only in threads scale exactly; no machine does that."
