"""Values by round: an interval over the rounds of each point (columns: see `summaries`), and pairs of one round."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tmflow.analysis.run_table import CONTEXT, POINT, ROUND, SERIES, WAYS, numbered
from tmflow.analysis.stats import Interval
from tmflow.analysis.variants import ordered_variants, variants
from tmflow.spec.trial import TrialSpec

NUMBERED = ("iteration", "staleness")  # integer columns of a summary, in addition to those of a point
INTEGER_FACTORS = [
    name for name, field in TrialSpec.model_fields.items() if get_args(field.annotation) == (int, type(None))
]
NOTHING = Interval(math.nan, math.nan, math.nan, 0)
ENDED = {"timeout": "timed out"}  # statuses that read differently in a sentence

AND = " + "  # separates the software labels of a point's rounds


class Rounds:
    """The rounds of a point that have a result; `rounds[name]` is a column as an array."""

    def __init__(self, column: Callable[[str], NDArray[Any]], places: NDArray[np.int64]) -> None:
        self._column, self._places = column, places

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._column(name)[self._places]


Estimate = Callable[[Rounds], tuple[Interval, str | None]]
"""A function that computes the estimate over the rounds of a point, and the reason if part of it is missing."""


def per_point(
    rows: pd.DataFrame, measure: str, unit: str, estimate: Estimate, along: str | None = None
) -> pd.DataFrame:
    """One summary row for each point (and each value of the column `along`), ordered by strategy and threads."""
    rows = rows.reset_index(drop=True)
    number = pd.Series(numbered(rows, POINT))
    estimates = _estimate_points(rows, number, estimate, along)
    points, values = estimates.pop("point"), estimates.pop("value")
    table = rows.loc[~number.duplicated(), [*POINT]].iloc[points].reset_index(drop=True)
    table = table.assign(**({along: values} if along else {}), measure=measure, unit=unit)
    table = pd.concat([table, estimates], axis="columns")
    ok = rows["status"] == "ok"
    labels = rows.loc[ok, ["software"]].assign(at=number[ok]).drop_duplicates().sort_values("software")
    table["software"] = labels.groupby("at")["software"].agg(AND.join).reindex(points).to_numpy()
    table["last_run_utc"] = rows["started_at_utc"].groupby(number).max().reindex(points).to_numpy()
    integers = [*INTEGER_FACTORS, *([along] if along in NUMBERED else [])]
    table[integers] = table[integers].astype("Int64")
    table["variant"] = variants(table)
    table["oversubscribed"] = table["threads"].astype("Int64") > table["hardware_threads"].astype("Int64")
    return _sort(table, ["experiment", "platform", "evidence", *WAYS, *SERIES, *([along] if along else [])])


def _estimate_points(rows: pd.DataFrame, number: pd.Series, estimate: Estimate, along: str | None) -> pd.DataFrame:
    """The estimates in the order of the points, each with its value of `along`.

    `number` is the number of each row's point.
    """
    ok = (rows["status"] == "ok").to_numpy(dtype=bool)
    incomplete = rows.loc[number.isin(number[~ok]), ["uid", "status", "reason"]].groupby(number)
    lost = {at: without_result(point) for at, point in incomplete}
    estimates: list[tuple[Any, ...]] = [(at, None, *NOTHING, 0, lost[at]) for at in set(number) - set(number[ok])]

    # Arrays, because splitting a data frame takes a hundred times as long, and there may be thousands of points.
    @cache
    def column(name: str) -> NDArray[Any]:
        return _array(flags(rows[name]) if name == "disturbed" else rows[name])[ok]

    groups: Mapping[Any, Any] = number[ok].groupby([number[ok], rows.loc[ok, along]] if along else number[ok]).indices
    for key, places in groups.items():
        at, value = key if along else (key, None)
        rounds = Rounds(column, places)
        interval, reason = estimate(rounds)
        missing = "; ".join(filter(None, (lost.get(at), reason))) or None
        estimates.append((at, value, *interval, int(rounds["disturbed"].sum()), missing))
    columns = ["point", "value", "estimate", "low", "high", "rounds", "disturbed_rounds", "reason"]
    return pd.DataFrame(estimates, columns=columns).sort_values("point", kind="stable", ignore_index=True)


def _sort(table: pd.DataFrame, order: list[str]) -> pd.DataFrame:
    """Sort a summary by the columns that differ, strategies in their usual order."""
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


def pair_by_round(
    runs: pd.DataFrame, baseline: pd.Series, shared: Iterable[str], column: str, name: str
) -> pd.DataFrame:
    """Add a column `name`: the value that the baseline of the same round has in `column`, NaN without a baseline.

    The mask `baseline` selects the possible baselines. The baseline of a run has the same round and equal values in
    the columns `shared`; two unknown values are equal. `disturbed` is set if either of the two runs was disturbed.
    Raises ValueError if a run has several baselines.
    """
    number = numbered(runs, [*shared, *ROUND])
    bases = np.flatnonzero(baseline.to_numpy(dtype=bool))
    if len(np.unique(number[bases])) < len(bases):
        raise ValueError("a run has several baselines in its round")
    base_of = np.full(len(runs), -1, dtype=np.int64)  # by number; -1 for none
    base_of[number[bases]] = bases
    places = base_of[number]
    of_baseline = runs[[column, "disturbed"]].astype({"disturbed": "boolean"}).take(places).set_axis(runs.index)
    has_baseline = places >= 0
    return runs.assign(
        **{name: of_baseline[column].where(has_baseline)},
        disturbed=flags(runs["disturbed"]) | flags(of_baseline["disturbed"].where(has_baseline)),
    )
