"""Summaries to Altair charts: pure functions, one panel each (see `variants.panels`), no title (see `captions`).

A chart carries the rows of its summary and nothing computed from them but where marks stand, so a table of the summary
holds exactly the numbers drawn. Rows without an estimate are not drawn; the caption names them.
"""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd

from tmflow import palette, summaries
from tmflow.axes import Ticks, value_range
from tmflow.marks import Chart, fraction_axis, layered, lines, oversubscribed, threads_axis, tooltip, values_axis
from tmflow.ranked import ranked

BAR, BARS = 0.7, 8  # width of a bar, as a share of the gap between neighbours on the axis; fewer bars are narrower
ABOVE = 1.12  # room for the label of the shaded region above the highest bar


def speedup(summary: pd.DataFrame) -> Chart:
    """Speedup over threads, with the ideal line w and the line of no gain 1."""
    ticks, shown = Ticks(summary["threads"]), value_range(summary)
    same = set(summary["measure"]) <= {"speedup"}
    over = "itself with one worker" if same else summaries.BASELINES["tf_lock"]
    ideal = pd.DataFrame({"x": np.geomspace(1, max(ticks.last, 1.001), 100)})
    ideal["ideal"] = ideal["x"]
    end = ideal[ideal["ideal"] <= 0.8 * shown.high].tail(1)
    line = alt.Chart(ideal).encode(x="x:Q", y="ideal:Q")
    return lines(
        summary,
        f"Speedup over {over} against worker threads",
        "threads",
        ticks,
        threads_axis(ticks),
        values_axis(f"Speedup over {over}", ",~f", shown),
        shown,
        behind=[
            alt.Chart(pd.DataFrame({"y": [1]})).mark_rule(color=palette.NEUTRAL, strokeWidth=1).encode(y="y:Q"),
            line.mark_line(color=palette.NEUTRAL, strokeDash=[5, 4], strokeWidth=1.5, clip=True),
            line.properties(data=end).mark_text(
                text="ideal", align="right", baseline="bottom", dx=-4, dy=-2, fontSize=11, color=palette.NEUTRAL
            ),
        ],
    )


def step_time(summary: pd.DataFrame) -> Chart:
    """Microseconds per step over threads."""
    shown = value_range(summary)
    values = values_axis("Wall time per step (µs)", "~s" if shown.high >= 50_000 else ",~f", shown)
    return _over_threads(summary, "Wall time per step in microseconds", values)


def accuracy(summary: pd.DataFrame) -> Chart:
    """Test accuracy after the last step over threads."""
    title = "Test accuracy after the last step"
    return _over_threads(summary, title, fraction_axis(title, value_range(summary)))


def commits(summary: pd.DataFrame) -> Chart:
    """Share of critical sections that committed as a transaction over threads."""
    values = fraction_axis("Critical sections that committed", value_range(summary))
    return _over_threads(summary, "Share of critical sections that committed as a transaction", values)


def failures(summary: pd.DataFrame) -> alt.LayerChart:
    """Share of attempts that aborted over threads, stacked by cause; the interval is that of all together."""
    ticks, shown = Ticks(summary["threads"]), value_range(summary)
    x = threads_axis(ticks)
    known = summary[summary["estimate"].notna()]
    parts = known[(known["cause"] != summaries.ANY) & known.groupby("cause")["estimate"].transform("max").gt(0)]
    whole = known[(known["cause"] == summaries.ANY) & known["low"].notna()]
    order = [cause for cause in palette.CAUSES if cause in set(parts["cause"])]
    columns = ["variant", "threads", "cause", "estimate", "low", "high", "rounds", "disturbed_rounds"]
    bars = parts[columns].sort_values("cause", key=lambda causes: causes.map(order.index), kind="stable")
    bars["top"] = bars.groupby("threads")["estimate"].cumsum()
    bars["bottom"] = bars["top"] - bars["estimate"]
    half = BAR / 2 * min(1, len(ticks.values) / BARS)
    bars["x"], bars["end"] = ([ticks.move(w, side) for w in bars["threads"]] for side in (-half, half))
    bars["says"] = [
        f"{workers} workers, {cause.replace('_', ' ')}: {share:.3%} of attempts"
        for workers, cause, share in zip(bars["threads"], bars["cause"], bars["estimate"], strict=True)
    ]
    colours = alt.Scale(domain=order, range=[palette.CAUSES[cause] for cause in order])
    legend = alt.Legend(
        title=None, orient="bottom", direction="horizontal", labelExpr="replace(datum.label, /_/g, ' ')"
    )
    over = oversubscribed(summary, ticks)
    values = alt.Y(
        "bottom:Q",
        title="Attempts that aborted",
        axis=alt.Axis(format="~%", tickCount=6),
        scale=alt.Scale(domain=[0, shown.high * (ABOVE if over else 1)], nice=False),
    )
    spread = whole.assign(
        x=whole["threads"], bar_low=whole["low"].clip(shown.low), bar_high=whole["high"].clip(upper=shown.high)
    )
    rule = alt.Chart(spread[["x", *columns, "bar_low", "bar_high"]]).encode(x=x)
    return layered(
        "Share of attempts that aborted against worker threads, stacked by cause",
        *over,
        alt.Chart(bars)
        .mark_rect(stroke="white", strokeWidth=0.7)
        .encode(
            x=x,
            x2="end:Q",
            y=values,
            y2="top:Q",
            color=alt.Color("cause:N", scale=colours, legend=legend),
            tooltip=tooltip(columns),
            description="says:N",
        ),
        rule.mark_rule(strokeWidth=1.5, color=palette.INK).encode(y="bar_low:Q", y2="bar_high:Q"),
        *(
            rule.mark_tick(width=7, thickness=1.5, orient="horizontal", color=palette.INK).encode(y=f"{end}:Q")
            for end in ("bar_low", "bar_high")
        ),
    )


def time_to_accuracy(summary: pd.DataFrame) -> Chart:
    """Seconds until the test accuracy first reached a target, over threads."""
    title = f"Seconds to {summary['target'].iloc[0]:.0%} test accuracy"
    return _over_threads(summary, title, values_axis(title, "~g", value_range(summary)))


def lost(summary: pd.DataFrame) -> alt.LayerChart:
    """Share of the updates of elements that were lost, by variant and threads."""
    return ranked(summary, "Updates of elements that were lost")


def torn(summary: pd.DataFrame) -> alt.LayerChart:
    """Share of the reads of variables that were torn, by variant and threads."""
    return ranked(summary, "Reads of variables that were torn")


def curve(summary: pd.DataFrame) -> Chart:
    """Test accuracy over the steps of all workers together; one number of threads."""
    ticks, shown = Ticks(summary["iteration"].dropna(), may_be_log=False), value_range(summary)
    axis = alt.Axis(format="~s" if ticks.last >= 10_000 else ",d", tickCount=6, grid=False)
    x = alt.X("x:Q", title="Steps of all workers together", axis=axis, scale=ticks.scale())
    values = fraction_axis("Test accuracy", shown)
    return lines(summary, "Test accuracy against steps", "iteration", ticks, x, values, shown)


def staleness(summary: pd.DataFrame) -> Chart:
    """Share of steps by how many updates of others landed between reading and applying; one number of threads.

    Ranges of staleness stand side by side, each as wide as one.
    """
    places = summary["staleness"].map(lambda its: summaries.place_of(int(its)), na_action="ignore").astype("Int64")
    known = places.dropna()
    ticks = Ticks(range(known.min(), known.max() + 1) if len(known) else (), may_be_log=False)
    names = [summaries.range_at(place) for place in ticks.values]
    told = [str(first) if first == last else f"{first}\N{EN DASH}{last}" for first, last in names]
    axis = alt.Axis(values=ticks.values, labelExpr=f"{told}[datum.value - {ticks.first}]", grid=False)
    x = alt.X("x:Q", title="Updates by others between reading and applying", axis=axis, scale=ticks.scale())
    shown = value_range(summary)
    values = values_axis("Share of steps", "~%", shown)
    placed, told_too = summary.assign(place=places), ("staleness", "up_to")
    return lines(placed, "Share of steps against staleness", "place", ticks, x, values, shown, told=told_too)


def _over_threads(summary: pd.DataFrame, describe: str, values: alt.Y) -> Chart:
    ticks = Ticks(summary["threads"])
    describe = f"{describe} against worker threads"
    return lines(summary, describe, "threads", ticks, threads_axis(ticks), values, value_range(summary))
