"""The chart of a trend: a measure of the points of a variant over campaigns, with the change points as marked rules."""

from __future__ import annotations

import json
from collections.abc import Sequence

import altair as alt
import pandas as pd

from tmflow.analysis.regressions import range_of, size_in_words
from tmflow.analysis.stats import SAME
from tmflow.analysis.trends import LEAST_CAMPAIGNS, Change, is_beyond
from tmflow.base.text import from_to, listed, several, workers
from tmflow.charts import captions, palette
from tmflow.charts.axes import Range, Ticks, value_range
from tmflow.charts.captions import Caption
from tmflow.charts.figures import Figure
from tmflow.charts.layers import Layer
from tmflow.charts.marks import Along, labelled_rule, lines, values_axis
from tmflow.charts.series import Series

TITLES: dict[str, str] = {
    "speed_ratio": "Speed relative to the lock",
    "step_time": "Time per step (µs)",
    "accuracy": "Test accuracy",
    "lost": "Lost updates",
}
UPRIGHT_FROM = 7  # campaigns from which the labels below the axis are slanted
COMMIT = 7  # digits of a commit below the axis
CHANGE = [2, 3]  # dashes of the rule of a change point


def draw(
    panel: pd.DataFrame, changes: Sequence[Change], revision: str, label: str = "", experiment: str | None = None
) -> Figure:
    """Draw the points of one variant, which differ only in the number of workers.

    panel: rows of `trends.series` with at least one estimate; changes: the change points of its points. experiment: its
    title, in place of its id.
    """
    places = sorted(panel["place"].unique())
    position = {place: at for at, place in enumerate(places)}
    rows = panel.assign(
        position=panel["place"].map(position),
        workers=[workers(n) for n in panel["threads"]],
        day=panel["began_utc"].str[:10],
    )
    drawn = rows[rows["estimate"].notna()]
    names = [workers(n) for n in sorted(drawn["threads"].unique())]
    shown = value_range(rows)
    chart = lines(
        [(label, rows)],
        Series("workers", names, palette.of_numbers(len(names))),
        f"{TITLES[rows['measure'].iloc[0]]} over campaigns, a colour for each number of workers",
        _along(rows, len(places)),
        _values(rows, shown),
        shown,
        behind=[*_same(rows), *_rules(changes, position)],
        tooltip_columns=("threads", "day", "software", "campaign_uid"),
    )
    return Figure(
        chart, _caption(panel, changes, shown, revision, label, experiment or panel["experiment"].iloc[0]), panel
    )


def _caption(
    panel: pd.DataFrame, changes: Sequence[Change], shown: Range, revision: str, label: str, name: str
) -> Caption:
    first, rounds = panel.iloc[0], panel.loc[panel["estimate"].notna(), "rounds"]
    disturbed = int(panel["disturbed_rounds"].max())
    parts = [
        f"{from_to(int(rounds.min()), int(rounds.max()), 'round')} of a campaign",
        "bars: 95 % t intervals over rounds" + (", paired within a round" if first["measure"] == "speed_ratio" else ""),
        "bars that leave the chart end in an arrow" if shown.cuts else "",
        f"up to {several(disturbed, 'disturbed round')} in a point" if disturbed else "",
    ]
    lines = [
        captions.workload(first),
        *change_sentences(panel, changes),
        captions.NOTES["speed_ratio"] if first["measure"] == "speed_ratio" else "",
        captions.MEASURED_IN_FULL if first["measures"] == "full" else "",
        captions.provenance(panel),
        f"{'; '.join(filter(None, parts))}.",
        captions.dated(panel["last_run_utc"], revision),
    ]
    return Caption(f"{TITLES[first['measure']]} over campaigns – {name}", [line for line in lines if line])


def _along(rows: pd.DataFrame, n: int) -> Along:
    """The axis of campaigns in the order of time, each with its day and commit."""
    campaigns = rows.drop_duplicates("position").sort_values("position")
    names = [
        [began[:10], commit[:COMMIT] if pd.notna(commit) else "commit unknown"]
        for began, commit in zip(campaigns["began_utc"], campaigns["git_commit"], strict=True)
    ]
    ticks = Ticks(range(n), log=False)
    axis = alt.Axis(
        values=ticks.values,
        labelExpr=f"{json.dumps(names)}[datum.value]",
        labelAngle=0 if n < UPRIGHT_FROM else -35,
        labelOverlap="greedy",
        grid=False,
    )
    return Along(
        "position", ticks, alt.X("x:Q", title="Campaign: first day and commit", scale=ticks.scale(), axis=axis)
    )


def _values(rows: pd.DataFrame, shown: Range) -> alt.Y:
    fraction = rows["unit"].iloc[0] == "fraction"
    form = (".1%" if shown.high - shown.low <= 0.1 else "~%") if fraction else ",~g"
    return values_axis(TITLES[rows["measure"].iloc[0]], form, shown)


def _same(rows: pd.DataFrame) -> list[alt.Chart]:
    """The band of speeds that are equivalent to the lock's."""
    if rows["measure"].iloc[0] != "speed_ratio":
        return []
    band = Layer(pd.DataFrame({"low": [SAME.low], "high": [SAME.high]})).mark_rect(color=palette.NEUTRAL, opacity=0.2)
    return [band.encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))]


def _rules(changes: Sequence[Change], position: dict[int, int]) -> list[alt.Chart]:
    """A dotted rule between the campaigns of each change, which says how many numbers of workers changed there."""
    by_place: dict[tuple[int, int], list[Change]] = {}
    for change in changes:
        ends = (position[change.before["place"]], position[change.after["place"]])
        by_place.setdefault(ends, []).append(change)
    layers: list[alt.Chart] = []
    for (before, after), of_place in sorted(by_place.items(), key=lambda item: item[0]):
        layers += labelled_rule((before + after) / 2, _short(of_place), CHANGE)
    return layers


def _short(changes: Sequence[Change]) -> str:
    kinds = [word for word, worse in (("worse", True), ("better", False)) if worse in {it.is_worse for it in changes}]
    return f"{listed(kinds)}: {workers(*sorted(int(change.after['threads']) for change in changes))}"


def change_sentences(panel: pd.DataFrame, changes: Sequence[Change]) -> list[str]:
    """What the detector says about the points of a panel, and how many campaigns it takes."""
    n = int(panel[panel["estimate"].notna()].groupby("threads")["place"].nunique().max())
    if n < LEAST_CAMPAIGNS:
        return [
            f"{several(n, 'campaign')} of a point: a change point is looked for from {LEAST_CAMPAIGNS} campaigns on, "
            "because the spread between fewer is too uncertain."
        ]
    if not changes:
        return ["No change point: no level changes by more than the spread between campaigns explains."]
    return ["Dotted: change points.", *map(sentence, changes)]


def sentence(change: Change) -> str:
    """The size of a change in words, its interval if it has one, and its commits."""
    size = size_in_words(change.after["measure"], change.size)
    range_ = range_of(change.before, change.after)
    return f"{workers(int(change.after['threads'])).capitalize()}: {size}, {judgement(change)}; {range_}."


def judgement(change: Change) -> str:
    """Whether a change is for worse or for better, as far as its interval, if it has one, can tell."""
    if pd.notna(change.size.low) and not is_beyond(change.size, change.after["measure"], worse=change.is_worse):
        return "which is not beyond what is too small to matter"
    return "worse" if change.is_worse else "better"
