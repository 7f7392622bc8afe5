"""Aggregate runs to one row per point, with an interval over its rounds (columns: see `summaries`)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tmflow.analysis.run_table import CONTEXT, POINT, SERIES, WAYS, numbered
from tmflow.analysis.stats import Interval
from tmflow.analysis.variants import ordered_variants, variants
from tmflow.spec.trial import TrialSpec

NUMBERED = ("iteration", "staleness")  # integer columns of a summary, in addition to those of a point
INTEGER_FACTORS = [
    name for name, field in TrialSpec.model_fields.items() if get_args(field.annotation) == (int, type(None))
]
NOTHING = Interval(math.nan, math.nan, math.nan, 0)
ENDED = {"timeout": "timed out"}  # where a status alone does not make a sentence

AND = " + "  # separates the software labels of a point's rounds


class Rounds:
    """The rounds of a point that have a result; `rounds[name]` is a column as an array."""

    def __init__(self, column: Callable[[str], NDArray[Any]], places: NDArray[np.int64]) -> None:
        self._column, self._places = column, places

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._column(name)[self._places]


Estimate = Callable[[Rounds], tuple[Interval, str | None]]
"""Computes the estimate over the rounds of a point, and the reason if part of it is missing."""


def per_point(
    rows: pd.DataFrame, measure: str, unit: str, estimate: Estimate, along: str | None = None
) -> pd.DataFrame:
    """One summary row for each point (and each value of the column `along`), ordered by strategy and threads."""
    rows = rows.reset_index(drop=True)
    number = pd.Series(numbered(rows, POINT))
    ok = (rows["status"] == "ok").to_numpy(dtype=bool)
    incomplete = rows.loc[number.isin(number[~ok]), ["uid", "status", "reason"]].groupby(number)
    lost = {at: without_result(point) for at, point in incomplete}
    without = set(number) - set(number[ok])
    summary: list[tuple[Any, Any, Interval, int, str | None]] = [(at, None, NOTHING, 0, lost[at]) for at in without]

    # Arrays: to split a data frame costs a hundred times more, and there may be thousands of points.
    @cache
    def column(name: str) -> NDArray[Any]:
        return _array(flags(rows[name]) if name == "disturbed" else rows[name])[ok]

    groups: Mapping[Any, Any] = number[ok].groupby([number[ok], rows.loc[ok, along]] if along else number[ok]).indices
    for key, places in groups.items():
        at, value = key if along else (key, None)
        rounds = Rounds(column, places)
        interval, reason = estimate(rounds)
        missing = "; ".join(filter(None, (lost.get(at), reason))) or None
        summary.append((at, value, interval, int(rounds["disturbed"].sum()), missing))
    summary.sort(key=lambda row: row[0])
    points, values, intervals, disturbed, reasons = zip(*summary, strict=True) if summary else ((),) * 5
    table = rows.loc[~number.duplicated(), [*POINT]].iloc[list(points)].reset_index(drop=True)
    if along:
        table[along] = pd.Series(values)
    table = table.assign(measure=measure, unit=unit)
    table[["estimate", "low", "high", "rounds"]] = pd.DataFrame(intervals, columns=[*Interval._fields])
    table["disturbed_rounds"], table["reason"] = pd.Series(disturbed), pd.Series(reasons)
    labels = rows.loc[ok, ["software"]].assign(at=number[ok]).drop_duplicates().sort_values("software")
    table["software"] = labels.groupby("at")["software"].agg(AND.join).reindex(points).to_numpy()
    table["last_run_utc"] = rows["started_at_utc"].groupby(number).max().reindex(points).to_numpy()
    if along in NUMBERED:
        table[along] = table[along].astype("Int64")
    table[INTEGER_FACTORS] = table[INTEGER_FACTORS].astype("Int64")
    table["variant"] = variants(table)
    table["oversubscribed"] = table["threads"].astype("Int64") > table["hardware_threads"].astype("Int64")
    order = ["experiment", "platform", "evidence", *WAYS, *SERIES, *([along] if along else [])]
    order = [name for name in order if table[name].nunique(dropna=False) > 1] or order[:1]
    rank = {strategy: place for place, strategy in enumerate(ordered_variants(table["strategy"]))}
    return table.sort_values(
        order, kind="stable", ignore_index=True, key=lambda c: c.map(rank) if c.name == "strategy" else c
    )


def _array(column: pd.Series) -> NDArray[Any]:
    """A numeric column as floats, NaN where unknown; any other column as objects."""
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(float, na_value=math.nan)
    return column.to_numpy(object)


def without_result(point: pd.DataFrame) -> str | None:
    """Describe how the rounds of a point without a result ended, and why; None if all have a result."""
    rounds: dict[str, tuple[str, Any]] = {}
    for uid, *end in zip(*(point[name].tolist() for name in ("uid", "status", "reason")), strict=True):
        rounds.setdefault(uid, (end[0], end[1]))
    ends = Counter((ENDED.get(status, status), why) for status, why in rounds.values() if status != "ok")
    if len(ends) == 1 and ends.total() == len(rounds):
        ((ended, why),) = ends
        return f"{ended}: {why}"
    return "; ".join(f"{n} of {len(rounds)} rounds {ended}: {why}" for (ended, why), n in ends.items()) or None


def with_dataset(runs: pd.DataFrame) -> pd.DataFrame:
    """Fill in the dataset hash of runs that ended before they read the dataset.

    Such a run gets the hash of the other runs with the same context and dataset, if these agree.
    """
    unread = runs["dataset_sha256"].isna() & (runs["status"] != "ok")
    if not unread.any():
        return runs
    hashes = runs.groupby([c for c in CONTEXT if c != "dataset_sha256"] + ["dataset"], dropna=False)["dataset_sha256"]
    agreed = hashes.transform("first").where(hashes.transform("nunique") == 1)
    return runs.assign(dataset_sha256=runs["dataset_sha256"].where(~unread, agreed))


def of_measured(runs: pd.DataFrame, details: pd.DataFrame) -> pd.DataFrame:
    """Join `details` to the runs with a result, by uid, and append the runs without a result."""
    ok = runs["status"] == "ok"
    return pd.concat([runs[ok].merge(details, on="uid", validate="one_to_many"), runs[~ok]])


def flags(column: pd.Series) -> pd.Series:
    """A column of booleans; unknown counts as False."""
    return column.astype("boolean").fillna(False)
