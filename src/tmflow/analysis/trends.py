"""Trends: a measure of each point over campaigns and software versions, and the places where its level changes.

A campaign is one call of the study on one machine; a campaign that was resumed by other software counts once for each
version. The tracked points are measured at full scale. Points of different platforms, definitions or factors are never
joined. docs/trends.md explains the rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tmflow.analysis.baseline import SAME_ACCURACY
from tmflow.analysis.repeats import average_repeats
from tmflow.analysis.rounds import NOTHING, Rounds, pair_by_round, per_point, with_dataset
from tmflow.analysis.run_table import POINT, VARIANT, numbered
from tmflow.analysis.stats import (
    CONFIDENCE,
    SAME,
    Between,
    Bounds,
    Interval,
    independent_difference_interval,
    independent_ratio_interval,
    mean_interval,
    ratio_interval,
    share_interval,
    within_shares,
)
from tmflow.analysis.variants import has_defaults, variants

Measure = Literal["speed_ratio", "step_time", "accuracy", "lost"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
HIGHER_IS_BETTER = frozenset({"speed_ratio", "accuracy"})
RATIOS = frozenset({"speed_ratio", "step_time"})  # a change of these is a ratio, of the others a difference
UNITS: dict[Measure, str] = {"speed_ratio": "1", "step_time": "us", "accuracy": "fraction", "lost": "fraction"}

# The changes that are too small to matter: those within which values count as the same.
TOO_SMALL: dict[Measure, Bounds] = {
    "speed_ratio": SAME,
    "step_time": SAME,
    "accuracy": SAME_ACCURACY,
    "lost": Bounds(-0.01, 0.01),
}

LEAST_CAMPAIGNS = 6  # with fewer, the spread between campaigns is too uncertain to find a change in it
# The cost of a change point, in variances of a campaign's estimate. A series of 6 to 40 campaigns without a change then
# has a change point with a probability of about 5 % (tests/unit/analysis/test_trends.py measures it).
PENALTY = 9.9

CAMPAIGN = ("campaign_uid", "software")
# Of each campaign: its place in the order of time (from 0, per platform), its identity, commit and first run.
OF_CAMPAIGN = ("place", *CAMPAIGN, "git_commit", "began_utc")


class Change(NamedTuple):
    """A change of a point between two successive campaigns, or two chosen ones.

    before, after: the rows of `series` next to it. size: the level after over that before, or minus it (`RATIOS`); the
    bounds are NaN for a change point, and if a side has a single value.
    """

    before: pd.Series
    after: pd.Series
    size: Interval

    @property
    def is_worse(self) -> bool:
        neutral = 1.0 if self.after["measure"] in RATIOS else 0.0
        return (self.size.estimate < neutral) == (self.after["measure"] in HIGHER_IS_BETTER)


def with_campaigns(runs: pd.DataFrame) -> pd.DataFrame:
    """Add `place` and `began_utc`: the campaigns of each platform in the order of their first runs.

    runs: a table of `queries.runs` of all versions, with the column git_commit.
    """
    keys = ["platform", *CAMPAIGN]
    began = runs["started_at_utc"].fillna("").groupby(numbered(runs, keys)).transform("min")
    runs = runs.assign(began_utc=began)
    distinct = runs[[*keys, "began_utc"]].drop_duplicates().sort_values(["began_utc", *CAMPAIGN])
    place = distinct.assign(place=distinct.groupby("platform").cumcount())
    return runs.merge(place[[*keys, "place"]], on=keys, how="left", validate="many_to_one")


def values(runs: pd.DataFrame, full: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """The tracked runs of a measure, of any status, with the columns `OF_CAMPAIGN` and `value`.

    runs: a result of `with_campaigns`; full: see `queries.full_measures`. The repeats of a round are
    averaged. A run without a result, or without a baseline in its round, has the value NaN. The unit is that of
    `UNITS`; `speed_ratio` is the speed over that of the default lock of the same round, `lock` if the experiment has
    it, else `tf_lock`, which has no row itself.
    """
    measures = "full" if measure == "lost" else "usual"
    tracked = runs[(runs["evidence"] == "measured") & (runs["scale"] == "full") & (runs["measures"] == measures)]
    rows = with_dataset(tracked).merge(full[["uid", "lost_fraction"]], on="uid", how="left")
    rows = average_repeats(rows).reset_index(drop=True)
    if measure == "speed_ratio":
        return _relative_to_lock(rows)
    value = {
        "step_time": 1e6 * rows["loop_s"] / rows["iterations"],
        "accuracy": rows["final_accuracy"],
        "lost": rows["lost_fraction"],
    }[measure]
    return rows.assign(value=value.where(rows["status"] == "ok"))


def _relative_to_lock(rows: pd.DataFrame) -> pd.DataFrame:
    is_lock, is_tf_lock = has_defaults(rows, "lock"), has_defaults(rows, "tf_lock")
    has_lock = is_lock.groupby(numbered(rows, ["platform", "experiment", "definition_sha256"])).transform("any")
    is_baseline = is_lock | (is_tf_lock & ~has_lock)
    shared = [name for name in POINT if name not in VARIANT]
    paired = pair_by_round(rows, is_baseline & (rows["status"] == "ok"), shared, "loop_s", "base_s")
    ratio = (paired["base_s"] / paired["loop_s"]).where(paired["status"] == "ok")
    return paired.assign(value=ratio)[~is_baseline].reset_index(drop=True)


def series(runs: pd.DataFrame, full: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """Compute the estimate of each tracked point in each campaign; the arguments are those of `values`.

    The columns are those of a summary (see `summaries`), without a median, and `OF_CAMPAIGN`; the rows of a point are
    in the order of time. A point that a campaign did not run has no row there.
    """
    rows = values(runs, full, measure)
    if rows.empty:
        return pd.DataFrame()

    def estimate(rounds: Rounds) -> tuple[Interval, str | None]:
        present = rounds["value"][~np.isnan(rounds["value"])]
        missing = len(rounds["value"]) - len(present)
        reason = f"{missing} of {len(rounds['value'])} rounds with a result lack {_needs(measure)}" if missing else None
        return (_interval(present, measure) if len(present) else NOTHING), reason

    parts = []
    for _, part in rows.groupby(numbered(rows, ["platform", "place"])):
        campaign = {name: part[name].iloc[0] for name in OF_CAMPAIGN}
        parts.append(per_point(part, measure, UNITS[measure], estimate).assign(**campaign))
    table = pd.concat(parts, ignore_index=True)
    table["variant"] = variants(table)
    point = pd.Series(numbered(table, POINT), table.index)
    return table.assign(_point=point).sort_values(["_point", "place"], ignore_index=True).drop(columns="_point")


def _needs(measure: Measure) -> str:
    return {"speed_ratio": "the lock to compare with", "lost": "a count of lost updates"}.get(measure, "the measure")


def _interval(present: ArrayLike, measure: Measure) -> Interval:
    if measure in RATIOS:
        return ratio_interval(present, np.ones_like(present))
    return share_interval(present) if measure == "lost" else within_shares(mean_interval(present))


def points(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Split a table of `series` or `values` into its points."""
    if len(table):
        yield from (rows for _, rows in table.groupby(numbered(table, POINT), sort=False))


def change_places(levels: ArrayLike) -> list[int]:
    """Find the places where the level of a series changes; each is the index of the first value of the new level.

    levels: at least `LEAST_CAMPAIGNS` estimates in the order of time; ratios and times as logs. This is the exact
    minimum of the squared distances to the level of each segment plus `PENALTY` variances for each change point. The
    variance is estimated from the differences of neighbours, which a few changes hardly enlarge.
    Sources: Killick, Fearnhead and Eckley, JASA 107 (2012) 1590 (PELT); von Neumann, Annals of Mathematical Statistics
    12 (1941) 367 (the variance). Raises ValueError for fewer values.
    """
    signal = np.asarray(levels, dtype=float)
    if signal.size < LEAST_CAMPAIGNS:
        raise ValueError(f"{signal.size} values are too few: a change point needs {LEAST_CAMPAIGNS}")
    variance = float((np.diff(signal) ** 2).sum() / (2 * (signal.size - 1)))
    if variance == 0:
        return []
    from ruptures import KernelCPD  # takes a second to import

    detector = KernelCPD(kernel="linear", min_size=1)  # the linear kernel's cost is the squared distance to the level
    *places, _ = detector.fit(signal.reshape(-1, 1)).predict(pen=PENALTY * variance)
    return [int(place) for place in places]


def change_points(point: pd.DataFrame) -> list[Change]:
    """The change points of a point, in the order of time; none if it has fewer campaigns than `LEAST_CAMPAIGNS`.

    point: the rows of one point of `series`. The size of a change compares the mean levels of the segments around it;
    it has no interval, because the place was chosen where the difference is large.
    """
    rows = point[point["estimate"].notna()]
    if len(rows) < LEAST_CAMPAIGNS:
        return []
    in_logs = rows["measure"].iloc[0] in RATIOS
    levels = np.log(rows["estimate"].to_numpy(float)) if in_logs else rows["estimate"].to_numpy(float)
    places = change_places(levels)
    bounds = [0, *places, len(rows)]
    changes = []
    for start, place, end in zip(bounds, places, bounds[2:], strict=False):
        step = float(levels[place:end].mean() - levels[start:place].mean())
        size = float(np.exp(step)) if in_logs else step
        changes.append(Change(rows.iloc[place - 1], rows.iloc[place], NOTHING._replace(estimate=size)))
    return changes


def compare(before: ArrayLike, after: ArrayLike, measure: Measure, confidence: float = CONFIDENCE) -> Interval:
    """Compare the values of a point's rounds in two campaigns: after over before, or minus it (`RATIOS`).

    Unknown values are left out. Rounds of two campaigns are never pairs, so this is Welch's interval. `NOTHING` if
    a side has no value.
    """
    between: Between = independent_ratio_interval if measure in RATIOS else independent_difference_interval
    first, second = (
        sample[~np.isnan(sample)] for sample in (np.asarray(side, dtype=float) for side in (before, after))
    )
    return between(second, first, confidence) if len(first) and len(second) else NOTHING


def newest_change(point: pd.DataFrame, rounds: pd.DataFrame) -> Change | None:
    """Compare the two newest campaigns of a point that have an estimate; None if there are fewer than two.

    point: the rows of one point of `series`; rounds: those of `values`, or a table with other points, too.
    """
    rows = point[point["estimate"].notna()]
    if len(rows) < 2:
        return None
    before, after = rows.iloc[-2], rows.iloc[-1]
    both = pd.concat([point.head(1)[[*POINT]], rounds[[*POINT]]], ignore_index=True)
    of_point = rounds[numbered(both, POINT)[1:] == 0]
    first, second = (of_point.loc[of_point["place"] == side["place"], "value"] for side in (before, after))
    return Change(before, after, compare(first, second, after["measure"]))


def is_beyond(interval: Interval, measure: Measure, *, worse: bool) -> bool:
    """Whether a change lies with its whole interval beyond the changes that are `TOO_SMALL`, for worse or for better.

    False without bounds.
    """
    low, high = TOO_SMALL[measure]
    down = worse == (measure in HIGHER_IS_BETTER)
    return bool(interval.high < low if down else interval.low > high)
