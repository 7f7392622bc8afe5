"""Rows of runs to one row for each point, with an interval over its rounds (`summaries` says what the columns are)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import get_args

import pandas as pd

from tmflow import palette
from tmflow.point import CONTEXT, POINT, SERIES, WAYS
from tmflow.spec import TrialSpec
from tmflow.stats import Interval
from tmflow.variants import variants

NUMBERED = ("iteration", "staleness")  # columns of a summary, beside those of a point, that are whole numbers
WHOLE = [name for name, field in TrialSpec.model_fields.items() if get_args(field.annotation) == (int, type(None))]
NOTHING = Interval(math.nan, math.nan, math.nan, 0)
ENDED = {"timeout": "timed out"}  # where a status alone does not make a sentence

Estimate = Callable[[pd.DataFrame], tuple[Interval, str | None]]
"""The estimate over the rounds of a point, and what is missing of it."""


def per_point(
    rows: pd.DataFrame, measure: str, unit: str, estimate: Estimate, along: str | None = None
) -> pd.DataFrame:
    """One summary row for each point (and each value of the column `along`), ordered by strategy and threads."""
    summary = []
    for key, point in rows.groupby([*POINT], dropna=False, sort=False):
        lost = _lost(point)
        results = point[point["status"] == "ok"]
        parts = results.groupby(along) if along else [(None, results)]
        for value, rounds in parts if len(results) else [(None, results)]:
            interval, reason = estimate(rounds) if len(rounds) else (NOTHING, None)
            summary.append(
                {
                    **dict(zip(POINT, key, strict=True)),
                    **({along: value} if along else {}),
                    "measure": measure,
                    "unit": unit,
                    "estimate": interval.estimate,
                    "low": interval.low,
                    "high": interval.high,
                    "rounds": interval.n,
                    "disturbed_rounds": int(flags(rounds["disturbed"]).sum()),
                    "reason": "; ".join(filter(None, (lost, reason))) or None,
                    "last_run_utc": point["started_at_utc"].max(),
                }
            )
    keys = [*POINT, *([along] if along else [])]
    columns = [*keys, "measure", "unit", "estimate", "low", "high", "rounds", "disturbed_rounds", "reason"]
    table = pd.DataFrame(summary, columns=[*columns, "last_run_utc"])
    if along in NUMBERED:
        table[along] = table[along].astype("Int64")
    table[WHOLE] = table[WHOLE].astype("Int64")
    table["variant"] = variants(table)
    table["oversubscribed"] = table["threads"].astype("Int64") > table["hardware_threads"].astype("Int64")
    order = ["experiment", "platform", "evidence", *WAYS, *SERIES, *([along] if along else [])]
    rank = {strategy: place for place, strategy in enumerate(palette.ordered(table["strategy"]))}
    return table.sort_values(
        order, kind="stable", ignore_index=True, key=lambda c: c.map(rank) if c.name == "strategy" else c
    )


def _lost(point: pd.DataFrame) -> str | None:
    """How the rounds of a point that have no result ended, and why; None where all have one."""
    rounds = point.drop_duplicates("uid")
    lost = rounds[rounds["status"] != "ok"]
    ends = Counter(zip(lost["status"].replace(ENDED), lost["reason"], strict=True))
    if len(ends) == 1 and len(lost) == len(rounds):
        ((ended, why),) = ends
        return f"{ended}: {why}"
    return "; ".join(f"{n} of {len(rounds)} rounds {ended}: {why}" for (ended, why), n in ends.items()) or None


def with_dataset(runs: pd.DataFrame) -> pd.DataFrame:
    """A run that ended before it had read its dataset has no hash of it: it gets that of its fellows, if they agree."""
    fellows = runs.groupby([c for c in CONTEXT if c != "dataset_sha256"] + ["dataset"], dropna=False)["dataset_sha256"]
    agreed = fellows.transform("first").where(fellows.transform("nunique") == 1)
    unread = runs["dataset_sha256"].isna() & (runs["status"] != "ok")
    return runs.assign(dataset_sha256=runs["dataset_sha256"].where(~unread, agreed))


def of_measured(runs: pd.DataFrame, details: pd.DataFrame) -> pd.DataFrame:
    """The details of the runs that have a result, each with its run; and the runs that have none."""
    ok = runs["status"] == "ok"
    return pd.concat([runs[ok].merge(details, on="uid", validate="one_to_many"), runs[~ok]])


def flags(column: pd.Series) -> pd.Series:
    """Flags with unknown taken as not set."""
    return column.astype("boolean").fillna(False)
