"""Repeats: the trials of a point in a round are averaged, because a round is one value of a point.

Repeats of a round share its process and its moment, so they are not independent values. Their average has less of the
noise between trials; the spread of the averages over the rounds has the rest, so intervals over rounds stay valid.
Times are averaged on the log (a geometric mean), as ratios of times are; accuracies and shares arithmetically.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from tmflow.analysis.run_table import ROUND, numbered
from tmflow.spec.trial import TrialSpec

# What a round has one value of: a point, in all columns that can tell two apart and that the table has.
CELL = (
    *("experiment", "scale", "definition_sha256", "platform", "evidence", "backend"),
    *(*TrialSpec.model_fields, *ROUND),
)
TIMES = ("setup_s", "loop_s", "evaluation_s", "total_s", "reached_s")  # averaged on the log
# Averaged arithmetically; also the time in a phase and what it transfers, because phases add up. All other columns are
# those of the first repeat with a result.
SHARES = (
    *("final_accuracy", "accuracy", "share", "lost_fraction", "torn_fraction", "inconsistent_fraction"),
    *("phase_us", "transfers", "bytes"),
)


def average_repeats(rows: pd.DataFrame, along: str | None = None) -> pd.DataFrame:
    """One row with a result for each point and round (and value of the column `along`), from rows of single trials.

    Rows without a result stay as they are: if only some repeats have a result, the average is theirs. An average is
    disturbed if one of its repeats was. A table without repeats is returned as it is.
    """
    if rows.empty or "repeat" not in rows or rows["repeat"].max() == 1:
        return rows
    ok = (rows["status"] == "ok").to_numpy(dtype=bool)
    results = rows[ok]
    number = numbered(results, [name for name in (*CELL, *([along] if along else [])) if name in rows])
    first = ~pd.Series(number).duplicated().to_numpy()  # in the order of their numbers
    averages = results[first].copy()
    for name in (*TIMES, *SHARES):
        if name in rows:
            averages[name] = averaged(results[name].to_numpy(float, na_value=np.nan), number, on_log=name in TIMES)
    if "disturbed" in rows:
        averages["disturbed"] = results["disturbed"].astype("boolean").groupby(number).max().array  # NA: all unknown
    if "started_at_utc" in rows:
        averages["started_at_utc"] = results["started_at_utc"].groupby(number).max().to_numpy()
    if ok.all():
        return averages
    order = np.concatenate([np.flatnonzero(ok)[first], np.flatnonzero(~ok)]).argsort(kind="stable")
    return pd.concat([averages, rows[~ok]]).iloc[order]


def averaged(values: NDArray[np.float64], group: NDArray[np.int64], *, on_log: bool) -> NDArray[np.float64]:
    """The mean of the values of each group (0, 1, ...) that are known; NaN for a group without a known value.

    on_log: the geometric mean. A group of one value has exactly this value.
    """
    present = ~np.isnan(values)
    counts = np.bincount(group[present], minlength=int(group.max(initial=-1)) + 1)
    terms = np.log(values[present]) if on_log else values[present]
    with np.errstate(invalid="ignore"):
        means = np.bincount(group[present], terms, minlength=len(counts)) / counts
    averages = np.exp(means) if on_log else means
    single = present & (counts[group] == 1)
    averages[group[single]] = values[single]
    return np.asarray(averages)


def spread(values: NDArray[np.float64], group: NDArray[np.int64]) -> NDArray[np.float64]:
    """The standard deviation of the values of each group (0, 1, ...); NaN for a group of one."""
    counts = np.bincount(group)
    residuals = values - (np.bincount(group, values) / counts)[group]
    squares = np.bincount(group, residuals**2)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.sqrt(squares / np.where(counts > 1, counts - 1, np.nan)))


def mean_time(seconds: ArrayLike) -> float:
    """The average of the times of a point in a round; of one time, exactly this time."""
    times = np.asarray(seconds, dtype=float)
    return float(averaged(times, np.zeros(times.size, dtype=np.int64), on_log=True)[0])
