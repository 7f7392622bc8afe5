"""Update elements: the share of all updated elements whose update committed in a transaction.

An update changes every element of a variable, or some rows of the only one. A share of updates counts the ten elements
of a bias like the millions of a weight matrix, so most updates may commit while almost no element is updated in a
transaction. These shares count elements.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pandas as pd

from tmflow.analysis.rounds import Rounds, of_measured, per_point, with_dataset
from tmflow.analysis.run_table import POINT, Records, numbered
from tmflow.analysis.stats import Interval, mean_interval, within_shares
from tmflow.analysis.summaries import TRANSACTIONAL
from tmflow.base.text import interval
from tmflow.spec.models import MODELS
from tmflow.spec.trial import TrialSpec
from tmflow.training.models import load_network
from tmflow.training.network import Layout

# The factors that determine the variables of a run; the numbers are None for models that do not have them.
NUMBERS = ["matrix", "hidden", "image_size", "features", "users", "items", "words", "width"]
SHAPE = ["model", "layout", "shapes", *NUMBERS]


def variable_sizes(runs: pd.DataFrame) -> pd.DataFrame:
    """The elements of each variable of each run: uid, variable, elements. `runs` has the columns uid and `SHAPE`."""

    @cache
    def sizes(model: str, layout: str, shapes: str | None, numbers: tuple[int | None, ...]) -> list[tuple[str, int]]:
        if model not in MODELS:  # a run of another version of tmflow
            return []
        # Only these factors matter, and a complete spec would be checked for each shape.
        factors: dict[str, Any] = dict(zip(NUMBERS, numbers, strict=True))
        factors |= {"model": model, "layout": layout, "shapes": shapes}
        spec = TrialSpec.model_construct(**factors)
        variables = Layout(load_network(model).variables(spec), joined=layout == "joined").variables
        return [(variable.name, math.prod(variable.shape)) for variable in variables]

    def whole_number(value: Any) -> int | None:
        return None if pd.isna(value) else int(value)

    rows = [
        (uid, *variable)
        for uid, model, layout, shapes, *numbers in runs[["uid", *SHAPE]].itertuples(index=False)
        for variable in sizes(model, layout, None if pd.isna(shapes) else shapes, tuple(map(whole_number, numbers)))
    ]
    return pd.DataFrame(rows, columns=["uid", "variable", "elements"])


def committed_elements(runs: pd.DataFrame, counts: pd.DataFrame, *, by_variable: bool = False) -> pd.DataFrame:
    """Summarise the share of a run's updated elements whose update committed in a transaction (see `summaries`).

    `counts`: see `queries.variable_transactions`. The other elements were updated under the mutex. An update in chunks
    counts by its share of committed sections. by_variable: one row for each `variable` and its own elements. Strategies
    without transactions have no row; a run is left out if a variable of its counts is unknown here.
    """
    tried = runs[runs["strategy"].isin(TRANSACTIONAL)]
    sized = counts[counts["uid"].isin(tried["uid"])].merge(variable_sizes(tried), on=["uid", "variable"], how="left")
    numbers = sized[["updates", "commits", "fallbacks", "elements"]].astype(float)
    sections = numbers["commits"] + numbers["fallbacks"].fillna(0)
    updated = numbers["updates"] * numbers["elements"]
    sized = sized.assign(updated=updated, committed=updated * numbers["commits"] / sections.where(sections > 0))
    keys = ["uid", "variable"] if by_variable else ["uid"]
    incomplete = sized.loc[sized[["updated", "committed"]].isna().any(axis="columns"), "uid"]
    totals = sized[~sized["uid"].isin(incomplete)].groupby(keys)[["updated", "committed"]].sum()
    share = (totals["committed"] / totals["updated"].where(totals["updated"] > 0)).dropna()
    rows = of_measured(with_dataset(tried), share.rename("share").reset_index())

    def estimate(rounds: Rounds) -> tuple[Interval, str | None]:
        return within_shares(mean_interval(rounds["share"])), None

    along = "variable" if by_variable else None
    return per_point(rows, "elements", "fraction", estimate, along)


def with_elements(summary: pd.DataFrame, records: Records) -> pd.DataFrame:
    """Add to a summary of these records the column `elements`: the share of `committed_elements` under `htm`.

    It is NaN for other strategies and where the share is unknown. A summary without `htm` stays as it is.
    """
    if not (summary["strategy"] == "htm").any():
        return summary
    runs = records.runs
    shares = committed_elements(runs[runs["strategy"] == "htm"], records.variables)
    point = numbered(pd.concat([summary[[*POINT]], shares[[*POINT]]], ignore_index=True), POINT)
    share_of = dict(zip(point[len(summary) :], shares["estimate"], strict=True))
    return summary.assign(elements=[share_of.get(number, math.nan) for number in point[: len(summary)]])


def sentence(summary: pd.DataFrame) -> str | None:
    """Describe the share under `htm`; `summary`: a result of `committed_elements`. None without an estimate.

    A variant with several points has the range of its estimates, without those of oversubscribed runs.
    """
    eligible = summary[(summary["strategy"] == "htm") & summary["estimate"].notna()]
    eligible = eligible[~eligible["oversubscribed"].fillna(False).astype(bool)]
    parts = []
    for variant, points in eligible.groupby("variant", sort=False):
        shares = [100 * points[name] for name in ("estimate", "low", "high")]
        if len(points) == 1:
            estimate, low, high = (float(share.iloc[0]) for share in shares)
            share = f"{estimate:.3g}" if math.isnan(low) or low == high else interval(estimate, low, high)
        else:
            share = " to ".join(dict.fromkeys(map(_two_digits, (shares[0].min(), shares[0].max()))))
        parts.append(f"{variant} {share} %")
    return f"Of the updated elements, committed transactions updated: {'; '.join(parts)}." if parts else None


def _two_digits(percent: float) -> str:
    """Format a percentage with two significant digits; from 99.5 on it is 100, not 1e+02."""
    return f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"
