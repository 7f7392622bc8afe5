"""How noisy a platform is: by how much the same point takes longer in one round than in another.

The deviation of a run is the log of its loop's time over the geometric mean of its point: the runs of any round with
the same factors, experiment, definition and software. Only measured runs with the usual measures have one, on no more
workers than `threads` if that is known, and only of points with two rounds or more.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

from tmflow.analysis.run_table import ROUND
from tmflow.spec.trial import TrialSpec

POINTS = ("experiment", "scale", "definition_sha256", "software_sha256", *TrialSpec.model_fields)
PROCESS = ("experiment", "scale", "definition_sha256", *ROUND)
BINS = 41  # odd: one is around 0
COVERED = 0.99  # of the deviations that the bins between the outermost cover


class Noise(NamedTuple):
    """Spreads as fractions of the time: 0.02 is 2 %. None where there are too few rounds to tell."""

    runs: int
    points: int
    rounds: int
    between: float | None
    """Standard deviation of the deviations, pooled over points."""
    within: float | None
    """What of it is left within a round: once the mean deviation of each round is taken out, as a paired ratio does."""


def deviations(runs: pd.DataFrame, threads: int | None) -> pd.DataFrame:
    """Those runs that have one, with `deviation` and `n`, the rounds of their point; see the module."""
    timed = runs[(runs["status"] == "ok") & (runs["evidence"] == "measured") & (runs["measures"] == "usual")]
    timed = timed[timed["loop_s"].notna() & ((timed["threads"] <= threads) if threads else True)]
    logs = pd.Series(np.log(timed["loop_s"].to_numpy(dtype=float)), index=timed.index)
    of_point = logs.groupby([timed[name] for name in POINTS], dropna=False)
    found = timed.assign(deviation=logs - of_point.transform("mean"), n=of_point.transform("size"))
    return found[found["n"] > 1]


def noise(found: pd.DataFrame) -> Noise:
    """The spreads of `deviations`."""
    points = found.groupby([*POINTS], dropna=False).ngroups
    rounds = found.groupby([*PROCESS], dropna=False)["deviation"]
    free = len(found) - points
    left = found["deviation"] - rounds.transform("mean")
    still_free = free - rounds.ngroups + len(found[[*POINTS[:4]]].drop_duplicates())
    return Noise(
        len(found),
        points,
        rounds.ngroups,
        math.sqrt((found["deviation"] ** 2).sum() / free) if free > 0 else None,
        math.sqrt((left**2).sum() / still_free) if still_free > 0 else None,
    )


def histogram(found: pd.DataFrame) -> pd.DataFrame:
    """low, high, runs, share: deviations in per cent of the time, in bins; those farther out are in the outermost."""
    per_cent = 100 * np.expm1(found["deviation"].to_numpy(dtype=float) * np.sqrt(found["n"] / (found["n"] - 1)))
    reach = max(float(np.quantile(np.abs(per_cent), COVERED)), 0.5)
    counts, edges = np.histogram(np.clip(per_cent, -reach, reach), BINS, (-reach, reach))
    return pd.DataFrame({"low": edges[:-1], "high": edges[1:], "runs": counts, "share": counts / counts.sum()})
