"""Noise of a platform: how much the time of the same point varies between rounds.

The deviation of a run is the log of its loop time divided by the geometric mean of its point. A point is all runs with
the same factors, experiment, definition and software. Deviations exist only for measured runs with the usual measures,
with at most `threads` workers if that is known, and for points with two rounds or more.
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
COVERED = 0.99  # share of the deviations that the range of the bins covers


class Noise(NamedTuple):
    """Spreads as fractions of the time: 0.02 is 2 %. None where there are too few rounds."""

    runs: int
    points: int
    rounds: int
    between: float | None
    """Standard deviation of the deviations, pooled over points."""
    within: float | None
    """The same after subtracting the mean deviation of each round, as a paired ratio does."""


def deviations(runs: pd.DataFrame, threads: int | None) -> pd.DataFrame:
    """The runs that have a deviation (see the module), with `deviation` and `n`, the rounds of their point."""
    timed = runs[(runs["status"] == "ok") & (runs["evidence"] == "measured") & (runs["measures"] == "usual")]
    timed = timed[timed["loop_s"].notna() & ((timed["threads"] <= threads) if threads else True)]
    logs = pd.Series(np.log(timed["loop_s"].to_numpy(dtype=float)), index=timed.index)
    of_point = logs.groupby([timed[name] for name in POINTS], dropna=False)
    timed = timed.assign(deviation=logs - of_point.transform("mean"), n=of_point.transform("size"))
    return timed[timed["n"] > 1]


def noise(runs: pd.DataFrame) -> Noise:
    """Compute the spreads of the runs that `deviations` returns."""
    points = runs.groupby([*POINTS], dropna=False).ngroups
    rounds = runs.groupby([*PROCESS], dropna=False)["deviation"]
    free = len(runs) - points
    residual = runs["deviation"] - rounds.transform("mean")
    still_free = free - rounds.ngroups + len(runs[[*POINTS[:4]]].drop_duplicates())
    return Noise(
        len(runs),
        points,
        rounds.ngroups,
        math.sqrt((runs["deviation"] ** 2).sum() / free) if free > 0 else None,
        math.sqrt((residual**2).sum() / still_free) if still_free > 0 else None,
    )


def histogram(runs: pd.DataFrame) -> pd.DataFrame:
    """low, high, runs, share: bins of the deviations in per cent of the time; the outermost take the outliers."""
    per_cent = 100 * np.expm1(runs["deviation"].to_numpy(dtype=float) * np.sqrt(runs["n"] / (runs["n"] - 1)))
    reach = max(float(np.quantile(np.abs(per_cent), COVERED)), 0.5)
    counts, edges = np.histogram(np.clip(per_cent, -reach, reach), BINS, (-reach, reach))
    return pd.DataFrame({"low": edges[:-1], "high": edges[1:], "runs": counts, "share": counts / counts.sum()})
