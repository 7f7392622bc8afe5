"""Values by round: an interval over the rounds of each point (columns: see `summaries`), and pairs of one round."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tmflow.analysis.repeats import average_repeats
from tmflow.analysis.run_table import CONTEXT, POINT, ROUND, SERIES, WAYS, numbered
from tmflow.analysis.stats import Interval, median_of_logs
from tmflow.analysis.variants import ordered_variants, variants
from tmflow.analysis.versions import LEFT_OUT
from tmflow.base.errors import LONGEST, BadInput, Diverged
from tmflow.spec.trial import TrialSpec

NUMBERED = ("iteration", "staleness")  # integer columns of a summary, in addition to those of a point
INTEGER_FACTORS = [
    name for name, field in TrialSpec.model_fields.items() if get_args(field.annotation) == (int, type(None))
]
NOTHING = Interval(math.nan, math.nan, math.nan, 0)
ENDED = {"timeout": "timed out"}  # statuses that read differently in a sentence
DIVERGED = f"{Diverged.__name__}: "  # begins the reason of a failed run whose training diverged

AND = " + "  # separates the software labels of a point's rounds


class Rounds:
    """The rounds of a point that have a result; `rounds[name]` is a column as an array."""

    def __init__(self, column: Callable[[str], NDArray[Any]], places: NDArray[np.int64]) -> None:
        self._column, self._places = column, places

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._column(name)[self._places]


Estimate = Callable[[Rounds], tuple[Interval, str | None]]
"""A function that computes the estimate over the rounds of a point, and the reason if part of it is missing."""

Logs = Callable[[Rounds], NDArray[np.float64]]
"""A function that returns the log of each value of which the estimate of a point is the geometric mean."""


def per_point(
    rows: pd.DataFrame,
    measure: str,
    unit: str,
    estimate: Estimate,
    along: str | None = None,
    logs: Logs | None = None,
) -> pd.DataFrame:
    """One summary row for each point (and each value of the column `along`), ordered by strategy and threads.

    With `logs`, the summary has the columns of the median (see `summaries`).
    """
    rows = average_repeats(rows, along).reset_index(drop=True)
    number = pd.Series(numbered(rows, POINT))
    estimates = _estimate_points(rows, number, estimate, along, logs)
    points, values = estimates.pop("point"), estimates.pop("value")
    table = rows.loc[~number.duplicated(), [*POINT]].iloc[points].reset_index(drop=True)
    table = table.assign(**({along: values} if along else {}), measure=measure, unit=unit)
    table = pd.concat([table, estimates], axis="columns")
    ok = rows["status"] == "ok"
    labels = rows.loc[ok, ["software"]].assign(at=number[ok]).drop_duplicates().sort_values("software")
    table["software"] = labels.groupby("at")["software"].agg(AND.join).reindex(points).to_numpy()
    if LEFT_OUT in rows:
        table[LEFT_OUT] = rows[LEFT_OUT].groupby(number).first().reindex(points).to_numpy()
    table["last_run_utc"] = rows["started_at_utc"].groupby(number).max().reindex(points).to_numpy()
    integers = [*INTEGER_FACTORS, *([along] if along in NUMBERED else [])]
    table[integers] = table[integers].astype("Int64")
    table["variant"] = variants(table)
    table["oversubscribed"] = table["threads"].astype("Int64") > table["hardware_threads"].astype("Int64")
    return _sort(table, ["experiment", "platform", "evidence", *WAYS, *SERIES, *([along] if along else [])])


def _estimate_points(
    rows: pd.DataFrame, number: pd.Series, estimate: Estimate, along: str | None, logs: Logs | None
) -> pd.DataFrame:
    """The estimates in the order of the points, each with its value of `along`.

    `number` is the number of each row's point.
    """
    ok = (rows["status"] == "ok").to_numpy(dtype=bool)
    incomplete = rows.loc[number.isin(number[~ok]), [*ROUND, "status", "reason"]].groupby(number)
    lost = {at: without_result(point) for at, point in incomplete}
    results = {at: f"{n} of {n}" for at, n in rows["uid"].groupby(number).nunique().items()}
    results |= {at: rounds_with_result(point) for at, point in incomplete}
    medians = () if logs is None else ("median", "median_low", "median_high", "farthest")
    no_median = (math.nan,) * len(medians)
    estimates: list[tuple[Any, ...]] = [
        (at, None, *NOTHING, results[at], 0, lost[at], *no_median) for at in set(number) - set(number[ok])
    ]

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
        middle = no_median if logs is None or math.isnan(interval.estimate) else _median_of(logs(rounds))
        estimates.append((at, value, *interval, results[at], int(rounds["disturbed"].sum()), missing, *middle))
    columns = ["point", "value", "estimate", "low", "high", "rounds", "results", "disturbed_rounds", "reason"]
    return pd.DataFrame(estimates, columns=[*columns, *medians]).sort_values("point", kind="stable", ignore_index=True)


def _median_of(logs: NDArray[np.float64]) -> tuple[float, ...]:
    (median, low, high, _), farthest = median_of_logs(logs)
    return median, low, high, farthest


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
    """Describe how the rounds of a point without a result ended, and why; None if all have a result.

    A round whose repeats ended in several ways counts for each of them.
    """
    n_rounds, every_end = _ends(point, ROUND)
    ends = {end: n for end, n in every_end.items() if end[0] != "ok"}
    if len(ends) == 1 and every_end.total() == sum(ends.values()):
        ((ended, why),) = ends
        return f"{ended}: {why}"
    return "; ".join(f"{n} of {n_rounds} rounds {ended}: {why}" for (ended, why), n in ends.items()) or None


def rounds_with_result(point: pd.DataFrame) -> str:
    """Count the rounds of a point with a result and those without: "5 of 6 (1 diverged)"."""
    n_rounds, every_end = _ends(point, ROUND)
    ends = _without_reasons(every_end)
    n_ok = ends.pop("ok", 0)
    without = ", ".join(f"{n} {ended}" for ended, n in ends.items())
    return f"{n_ok} of {n_rounds}" + (f" ({without})" if without else "")


def count_ends(runs: pd.DataFrame) -> Counter[str]:
    """Count runs by how they ended: ok (with a result), diverged, failed, timed out, invalid or unsupported."""
    _, every_end = _ends(runs, ["uid"])
    return _without_reasons(every_end)


def _without_reasons(ends: Counter[tuple[str, Any]]) -> Counter[str]:
    counts = Counter[str]()
    for (ended, _), n in ends.items():
        counts[ended] += n
    return counts


def _ends(rows: pd.DataFrame, by: Sequence[str]) -> tuple[int, Counter[tuple[str, Any]]]:
    """The number of items of a table, which `by` identifies, and how many of them ended in each way, and why.

    An item may have several rows, and counts once for each way in which they ended.
    """
    ends: dict[tuple[Any, ...], set[tuple[str, Any]]] = {}
    for *item, status, why in zip(*(rows[name].tolist() for name in (*by, "status", "reason")), strict=True):
        diverged = status == "failed" and str(why).startswith(DIVERGED)
        end = ("diverged", why.removeprefix(DIVERGED)) if diverged else (ENDED.get(status, status), why)
        ends.setdefault(tuple(item), set()).add(end if status != "ok" else (status, None))
    return len(ends), Counter(end for of_item in ends.values() for end in of_item)


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
    Repeats are averaged before (`average_repeats`). Raises BadInput if a run has several baselines: then the database
    was changed, because it has no two specs with equal factors.
    """
    number = numbered(runs, [*shared, *ROUND])
    bases = np.flatnonzero(baseline.to_numpy(dtype=bool))
    several = pd.Series(number[bases]).duplicated().to_numpy()
    if several.any():
        campaign, round_number = (str(runs[key].iloc[bases[several][0]]) for key in ROUND)
        raise BadInput(
            f"Campaign '{campaign[:LONGEST]}' has two baselines with equal factors in round {round_number}; "
            "`tmflow db check` lists the changed rows of the database."
        )
    base_of = np.full(len(runs), -1, dtype=np.int64)  # by number; -1 for none
    base_of[number[bases]] = bases
    places = base_of[number]
    of_baseline = runs[[column, "disturbed"]].astype({"disturbed": "boolean"}).take(places).set_axis(runs.index)
    has_baseline = places >= 0
    return runs.assign(
        **{name: of_baseline[column].where(has_baseline)},
        disturbed=flags(runs["disturbed"]) | flags(of_baseline["disturbed"].where(has_baseline)),
    )
