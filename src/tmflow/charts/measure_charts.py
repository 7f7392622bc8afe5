"""One chart for each measure: pure functions from one panel (see `variants.panels`) to an untitled Altair chart.

A chart holds the rows of its summary and, computed from them, only the positions of marks: a table of the summary shows
exactly the numbers drawn. Rows without an estimate are not drawn; the caption names them.
"""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from tmflow.analysis import summaries
from tmflow.analysis.run_table import numbered
from tmflow.charts import palette
from tmflow.charts.axes import Range, Ticks, value_range
from tmflow.charts.dot_rows import draw_shares
from tmflow.charts.facets import facets
from tmflow.charts.marks import Along, Chart, Layer, fraction_axis, lines, of_variants, threads_axis, values_axis
from tmflow.charts.stacked_bars import stacked

TITLES = {
    "speedup": f"Speedup over {summaries.BASELINES['same'].replace('the same configuration', 'the same strategy')}",
    "speedup_vs_tf_lock": f"Speedup over {summaries.BASELINES['tf_lock']}",
    "step_time": "Wall time per step (µs)",
    "accuracy": "Final test accuracy",
    "accuracy_curve": "Test accuracy",
    "commits": "Critical sections committed transactionally",
    "lost": "Lost updates of elements",
    "torn": "Torn reads of variables",
    "staleness": "Share of steps",
}
STEPS = "Steps of all workers together"
BEHIND = "Updates by others between reading and applying"


def values(summary: pd.DataFrame, shown: Range) -> alt.Y:
    """The y axis of a summary."""
    title = title_of(summary)
    if summary["measure"].iloc[0] == "staleness":
        return values_axis(title, "~%", shown)
    if summary["unit"].iloc[0] == "fraction":
        return fraction_axis(title, shown)
    if summary["unit"].iloc[0] == "s":
        return values_axis(title, "~g", shown)
    return values_axis(title, "~s" if shown.high >= 50_000 else ",~f", shown)


def title_of(summary: pd.DataFrame) -> str:
    """The title of the y axis of a summary, with its unit."""
    if "target" not in summary:
        return TITLES[summary["measure"].iloc[0]]
    targets = summary["target"].unique()
    return f"Seconds to {targets[0]:.0%} test accuracy" if len(targets) == 1 else "Seconds to a test accuracy"


def speedup(summary: pd.DataFrame) -> Chart:
    """Speedup over threads, with the ideal line w and the line of no gain 1."""
    ticks, shown = Ticks(summary["threads"]), value_range(summary)
    return _over_threads(summary, [no_gain(), *ideal(ticks, shown)])


def no_gain() -> alt.Chart:
    """The line of a speedup of 1."""
    rule: alt.Chart = Layer(pd.DataFrame({"y": [1]})).mark_rule(color=palette.NEUTRAL, strokeWidth=1)
    return rule.encode(y=alt.Y("y:Q"))


def ideal(ticks: Ticks, shown: Range) -> list[alt.Chart]:
    """The labelled line of ideal speedup."""
    points = pd.DataFrame({"x": np.geomspace(1, max(ticks.last, 1.001), 100)})
    points["ideal"] = points["x"]
    end = points[points["ideal"] <= 0.8 * shown.high].tail(1)
    line = Layer(points).encode(x=alt.X("x:Q"), y=alt.Y("ideal:Q"))
    return [
        line.mark_line(color=palette.NEUTRAL, strokeDash=[5, 4], strokeWidth=1.5, clip=True),
        line.properties(data=end).mark_text(
            text="ideal", align="right", baseline="bottom", dx=-4, dy=-2, fontSize=11, color=palette.NEUTRAL
        ),
    ]


def step_time(summary: pd.DataFrame) -> Chart:
    """Microseconds per step over threads."""
    return _over_threads(summary)


def accuracy(summary: pd.DataFrame) -> Chart:
    """Test accuracy after the last step over threads."""
    return _over_threads(summary)


def commits(summary: pd.DataFrame) -> Chart:
    """Share of critical sections that committed as a transaction over threads."""
    return _over_threads(summary)


def failures(summary: pd.DataFrame) -> Chart:
    """Share of attempts that aborted over threads, stacked by cause, with the interval of their sum."""
    ticks = Ticks(summary["threads"])
    along = Along("threads", ticks, threads_axis(ticks))
    describe = "Share of attempts that aborted against worker threads, stacked by cause"
    return stacked([("", summary)], palette.CAUSES, describe, along, value_range(summary))


def time_to_accuracy(summary: pd.DataFrame) -> Chart:
    """Seconds until the test accuracy first reached a target, over threads."""
    return _over_threads(summary)


def lost(summary: pd.DataFrame) -> alt.LayerChart:
    """Share of the updates of elements that were lost, by variant and threads."""
    return draw_shares(summary, TITLES["lost"])


def torn(summary: pd.DataFrame) -> alt.LayerChart:
    """Share of the reads of variables that were torn, by variant and threads."""
    return draw_shares(summary, TITLES["torn"])


def curve(summary: pd.DataFrame) -> Chart:
    """Test accuracy over the steps of all workers together; one number of threads."""
    return _lines(summary, "Test accuracy against steps", steps(summary))


def steps(summary: pd.DataFrame, log: bool = False) -> Along:
    """The x dimension of the steps at which the accuracy was measured."""
    ticks = Ticks(summary["iteration"].dropna(), log)
    axis = alt.Axis(format="~s" if ticks.last >= 10_000 else ",d", tickCount=6, grid=False)
    title = f"{STEPS} (log scale)" if ticks.log else STEPS
    return Along("iteration", ticks, alt.X("x:Q", title=title, axis=axis, scale=ticks.scale()))


def staleness(summary: pd.DataFrame) -> Chart:
    """Share of steps by how many updates of others landed between reading and applying; one number of threads."""
    placed = place_ranges(summary)
    placed = placed.assign(line=number_lines(placed, ["variant"]))
    return _lines(placed, "Share of steps against staleness", ranges(placed), ("staleness", "up_to"))


def place_ranges(summary: pd.DataFrame) -> pd.DataFrame:
    """Add the column `place`: the position of each range of staleness; all ranges are equally wide."""
    places = summary["staleness"].map(lambda bound: summaries.place_of(int(bound)), na_action="ignore")
    return summary.assign(place=places.astype("Int64"))


def number_lines(placed: pd.DataFrame, of: Sequence[str]) -> pd.Series:
    """Number the lines: rows share a number if a line may join them; a line ends before a range without steps."""
    series = pd.Series(numbered(placed, of), index=placed.index)
    ordered = placed.assign(series=series).sort_values(["series", "place"], kind="stable")
    follows = ordered.groupby("series")["place"].diff().eq(1).fillna(False)
    return (~follows.astype(bool)).cumsum().reindex(placed.index)


def ranges(placed: pd.DataFrame) -> Along:
    """The x dimension of the ranges of staleness."""
    places = placed["place"].dropna()
    ticks = Ticks(range(places.min(), places.max() + 1) if len(places) else (), log=False)
    names = [summaries.range_at(int(place)) for place in ticks.values]
    labels = [str(first) if first == last else f"{first}\N{EN DASH}{last}" for first, last in names]
    axis = alt.Axis(values=ticks.values, labelExpr=f"{labels}[datum.value - {ticks.first}]", grid=False)
    return Along("place", ticks, alt.X("x:Q", title=BEHIND, axis=axis, scale=ticks.scale()))


def _over_threads(summary: pd.DataFrame, behind: Sequence[alt.Chart] = ()) -> Chart:
    ticks = Ticks(summary["threads"])
    along = Along("threads", ticks, threads_axis(ticks))
    return _lines(summary, f"{title_of(summary)} against worker threads", along, behind=behind)


def _lines(
    summary: pd.DataFrame,
    describe: str,
    along: Along,
    tooltip_columns: Sequence[str] = (),
    behind: Sequence[alt.Chart] = (),
) -> Chart:
    """Draw a line for each variant, in facets (see `facets`) if there are many."""
    parts, shown = facets(summary), value_range(summary)
    drawn = pd.concat([part.loc[part["estimate"].notna(), "variant"] for _, part in parts])
    return lines(parts, of_variants(drawn), describe, along, values(summary, shown), shown, behind, tooltip_columns)
