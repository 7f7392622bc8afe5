"""Regressions: the points that became worse since a date, a commit or a campaign.

For each point, the newest campaign since then is compared with the last one before. A change counts only if its whole
interval lies beyond the changes that are too small to matter; the intervals hold jointly for all compared points.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tmflow.analysis.run_table import POINT, VARIANT, numbered
from tmflow.analysis.stats import Interval, bounded, joint_confidence
from tmflow.analysis.trends import MEASURES, OF_CAMPAIGN, RATIOS, Measure, compare, is_beyond
from tmflow.analysis.variants import name_of, variants
from tmflow.base.errors import LONGEST, BadInput, unknown
from tmflow.base.text import interval, printable, several, workers
from tmflow.spec.trial import TrialSpec

DEFAULT: tuple[Measure, ...] = ("speed_ratio", "accuracy", "lost")
"""The measures that do not depend on how fast the machine was on a day."""

DATE = re.compile(r"\d{4}-\d\d-\d\d")
LEAST_DIGITS = 4  # of the beginning of a campaign's uid or of a commit
SHOWN = 10  # digits of a commit in a sentence
WORDS: dict[Measure, str] = {
    "speed_ratio": "speed relative to the lock",
    "step_time": "time per step",
    "accuracy": "test accuracy",
    "lost": "share of lost updates",
}


class Compared(NamedTuple):
    """A point that was measured before and since: the positions of its rows in a table of `trends.values`.

    `before` are those of the last campaign before, `after` those of the newest one since.
    """

    measure: Measure
    rows: pd.DataFrame
    before: NDArray[np.intp]
    after: NDArray[np.intp]


class Regression(NamedTuple):
    """A point that became worse; `change` is after over before, or minus it (`trends.RATIOS`)."""

    measure: Measure
    label: str
    before: pd.Series
    after: pd.Series
    change: Interval

    @property
    def size(self) -> float:
        """The size of the change in either direction; of a ratio that of its log."""
        return abs(math.log(self.change.estimate) if self.measure in RATIOS else self.change.estimate)

    def as_json(self) -> dict[str, Any]:
        factors = self.after[list(TrialSpec.model_fields)].dropna()
        estimate, low, high = bounded(self.change)
        return {
            **{name: self.after[name] for name in ("platform", "experiment", "definition_sha256")},
            "measure": self.measure,
            "factors": {str(name): _plain(value) for name, value in factors.items()},
            "change": estimate,
            "low": low,
            "high": high,
            "kind": "ratio" if self.measure in RATIOS else "difference",
            **{
                side: {name: _plain(row[name]) for name in OF_CAMPAIGN if name != "place"}
                for side, row in (("before", self.before), ("after", self.after))
            },
        }

    def sentence(self) -> str:
        """What became worse, by how much, and between which commits."""
        size = size_in_words(self.measure, self.change)
        return f"{self.after['platform']}: {self.label}: {size}; {range_of(self.before, self.after)}"


def size_in_words(measure: Measure, change: Interval) -> str:
    """The size of a change and its interval, if it has one, in words."""
    estimate, low, high = bounded(change)
    if measure in RATIOS:
        return f"{WORDS[measure]} {interval(estimate, low, high)} times that before"
    bounds = "" if low is None or high is None else f" [{low:+.3g}, {high:+.3g}]"
    return f"{WORDS[measure]} changed by {estimate:+.3g}{bounds}"


def measures_of(names: Sequence[str] | None) -> tuple[Measure, ...]:
    """The measures with these names, `DEFAULT` without names. Raises BadInput for a name that is none."""
    for name in names or ():
        if name not in MEASURES:
            raise unknown("measure", name[:LONGEST], MEASURES)
    return tuple(measure for measure in MEASURES if measure in names) if names else DEFAULT


def document(since: str, compared: Sequence[Compared], regressions: Sequence[Regression]) -> dict[str, Any]:
    """The result for programs: how many points were compared, by measure, and those that became worse."""
    counts = Counter(pair.measure for pair in compared)
    return {
        "since": since,
        "compared": dict(counts),
        "regressions": [regression.as_json() for regression in regressions],
    }


def sentences(since: str, compared: Sequence[Compared], regressions: Sequence[Regression]) -> list[str]:
    """The result for people."""
    counts = Counter(pair.measure for pair in compared)
    of = "; ".join(f"{WORDS[measure]} of {several(n, 'point')}" for measure, n in counts.items())
    became = several(len(regressions), "point") if regressions else "no point"
    return [
        f"Since {since}, {became} became worse. Compared: {of}.",
        *(f"  {printable(regression.sentence())}" for regression in regressions),
    ]


def range_of(before: pd.Series, after: pd.Series) -> str:
    """The commits between which a change lies, and the campaigns that measured them; rows with `OF_CAMPAIGN`."""
    first, second = (str(row["git_commit"])[:SHOWN] if pd.notna(row["git_commit"]) else None for row in (before, after))
    if first is None or second is None:
        commits = f"from {before['software']} to {after['software']}, of which a commit is unknown"
    elif first == second:
        commits = f"both measured at commit {first}, so no commit explains it"
    else:
        commits = f"commits {first}..{second}"
    return f"{commits} (campaigns of {before['began_utc'][:10]} and {after['began_utc'][:10]})"


def first_places(runs: pd.DataFrame, since: str) -> dict[str, int]:
    """The place of the first campaign since `since`, by platform; platforms without the commit or campaign have none.

    runs: a result of `trends.with_campaigns`. since: a date (YYYY-MM-DD, or a time, in UTC), from which campaigns count
    that began then or later; or the beginning of a commit or of a campaign's uid, after which campaigns count. Raises
    BadInput if it is neither.
    """
    campaigns = runs[["platform", *OF_CAMPAIGN]].drop_duplicates()
    if DATE.match(since):
        began = campaigns[campaigns["began_utc"] < _utc(since)]
        last = began.groupby("platform")["place"].max()
        return {platform: int(last.get(platform, -1)) + 1 for platform in campaigns["platform"].unique()}
    matching = campaigns[_matches(campaigns, since)]
    return {str(platform): int(place) + 1 for platform, place in matching.groupby("platform")["place"].max().items()}


def _utc(since: str) -> str:
    """A date or time as the database has it, whose texts sort by time. Raises BadInput for an impossible one."""
    try:
        time = datetime.fromisoformat(since)
        time = time.astimezone(UTC) if time.tzinfo else time
        return f"{time.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
    except (ValueError, OverflowError) as error:
        raise BadInput(f"--since '{since[:LONGEST]}' is no date: give one such as 2026-11-01.") from error


def _matches(campaigns: pd.DataFrame, since: str) -> pd.Series:
    """The campaigns that the beginning of a uid or of a commit names."""
    for column, what in (("campaign_uid", "campaign"), ("git_commit", "commit")):
        matches = campaigns[column].fillna("").str.startswith(since) & (len(since) >= LEAST_DIGITS)
        names = sorted(set(campaigns.loc[matches, column]))
        if since in names:
            return campaigns[column] == since
        if len(names) > 1:
            raise BadInput(
                f"--since '{since}' begins several names of a {what}: {', '.join(names[:3])}; give more of it."
            )
        if names:
            return matches
    raise BadInput(
        f"--since '{since[:LONGEST]}' is neither a date such as 2026-11-01, nor the beginning (at least {LEAST_DIGITS} "
        "characters) of a commit or campaign with measured runs in the database."
    )


def pairs(tables: Mapping[Measure, pd.DataFrame], places: Mapping[str, int]) -> list[Compared]:
    """The points with values both before and since; tables: of `trends.values`; places: see `first_places`."""
    return [pair for measure, rows in tables.items() for pair in _pairs(measure, rows, places)]


def _pairs(measure: Measure, rows: pd.DataFrame, places: Mapping[str, int]) -> Iterator[Compared]:
    rows = rows[rows["value"].notna() & rows["platform"].isin(list(places))].reset_index(drop=True)
    place = rows["place"].to_numpy()
    is_since = place >= rows["platform"].map(places).to_numpy()
    # Positions, because splitting a data frame of so many columns takes a hundred times as long.
    for at in map(np.asarray, rows.groupby(numbered(rows, POINT)).indices.values()):
        before, after = at[~is_since[at]], at[is_since[at]]
        if len(before) and len(after):
            last, newest = (side[place[side] == place[side].max()] for side in (before, after))
            yield Compared(measure, rows, last, newest)


def worse(compared: Sequence[Compared]) -> list[Regression]:
    """The points that became worse beyond doubt: by measure, the largest change first."""
    confidence = joint_confidence(max(len(compared), 1))
    changes = [(pair, _change(pair, confidence)) for pair in compared]
    regressed = [(pair, change) for pair, change in changes if is_beyond(change, pair.measure, worse=True)]
    regressions: list[Regression] = []
    for measure in MEASURES:
        of_measure = [(pair, change) for pair, change in regressed if pair.measure == measure]
        labels = _labels([pair for pair, _ in of_measure])
        parts = [
            Regression(measure, label, pair.rows.iloc[pair.before[-1]], pair.rows.iloc[pair.after[-1]], change)
            for (pair, change), label in zip(of_measure, labels, strict=True)
        ]
        regressions += sorted(parts, key=lambda regression: -regression.size)
    return regressions


def _change(pair: Compared, confidence: float) -> Interval:
    value = pair.rows["value"].to_numpy(float)
    return compare(value[pair.before], value[pair.after], pair.measure, confidence)


def _labels(regressed: Sequence[Compared]) -> list[str]:
    """The strategy, workers and experiment of points of one table, and the factors that tell them from others of it."""
    if not regressed:
        return []
    rows = regressed[0].rows
    experiment, point = numbered(rows, ["platform", "experiment", "definition_sha256"]), numbered(rows, POINT)
    at = [int(pair.after[0]) for pair in regressed]
    is_wanted = np.isin(experiment, experiment[at]) & ~pd.Series(point).duplicated().to_numpy()
    others = [name for name in TrialSpec.model_fields if name not in ("threads", *VARIANT)]
    labels: dict[int, str] = {}
    for _, group in rows[is_wanted].groupby(experiment[is_wanted]):
        shown = [name for name in others if group[name].nunique(dropna=False) > 1]
        for place, variant, row in zip(group.index, variants(group), group.to_dict("records"), strict=True):
            factors = [f"{name_of(name)} {row[name]}" for name in shown if pd.notna(row[name])]
            labels[point[place]] = ", ".join([variant, workers(row["threads"]), row["experiment"], *factors])
    return [labels[point[place]] for place in at]


def _plain(value: Any) -> Any:
    """A value of a table as JSON has it."""
    if pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value
