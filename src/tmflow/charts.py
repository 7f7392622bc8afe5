"""Summaries to Altair charts: pure functions, one panel each (see `summaries.panels`), no title (see `captions`).

A chart carries the rows of its summary and nothing computed from them but where marks stand, so a table of the summary
holds exactly the numbers drawn. Rows without an estimate are not drawn; the caption names them.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from tmflow import palette, summaries
from tmflow.axes import Range, Ticks, value_range

WIDTH, HEIGHT = 620, 340  # px; a page may stretch the width
BAR, BARS = 0.7, 8  # width of a bar, as a share of the gap between neighbours on the axis; fewer bars are narrower
ABOVE = 1.12  # room for the label of the shaded region above the highest bar
ENTRY, LETTER = 30, 6  # px of an entry of the legend: its symbol and gap, and about a letter of its name
COLUMNS = ("variant", "strategy", "threads", "estimate", "low", "high", "rounds", "disturbed_rounds")


def speedup(summary: pd.DataFrame) -> alt.LayerChart:
    """Speedup over threads, with the ideal line w and the line of no gain 1."""
    ticks, shown = Ticks(summary["threads"]), value_range(summary)
    same = set(summary["measure"]) <= {"speedup"}
    over = "itself with one worker" if same else summaries.BASELINES["tf_lock"]
    ideal = pd.DataFrame({"x": np.geomspace(1, max(ticks.last, 1.001), 100)})
    ideal["ideal"] = ideal["x"]
    end = ideal[ideal["ideal"] <= 0.8 * shown.high].tail(1)
    line = alt.Chart(ideal).encode(x="x:Q", y="ideal:Q")
    return _chart(
        f"Speedup over {over} against worker threads",
        _oversubscribed(summary, ticks),
        alt.Chart(pd.DataFrame({"y": [1]})).mark_rule(color=palette.NEUTRAL, strokeWidth=1).encode(y="y:Q"),
        line.mark_line(color=palette.NEUTRAL, strokeDash=[5, 4], strokeWidth=1.5, clip=True),
        line.properties(data=end).mark_text(
            text="ideal", align="right", baseline="bottom", dx=-4, dy=-2, fontSize=11, color=palette.NEUTRAL
        ),
        _marks(summary, "threads", ticks, _threads(ticks), _values(f"Speedup over {over}", ",~f", shown), shown),
    )


def step_time(summary: pd.DataFrame) -> alt.LayerChart:
    """Microseconds per step over threads."""
    ticks, shown = Ticks(summary["threads"]), value_range(summary)
    values = _values("Wall time per step (µs)", "~s" if shown.high >= 50_000 else ",~f", shown)
    return _chart(
        "Wall time per step in microseconds against worker threads",
        _oversubscribed(summary, ticks),
        _marks(summary, "threads", ticks, _threads(ticks), values, shown),
    )


def accuracy(summary: pd.DataFrame) -> alt.LayerChart:
    """Test accuracy after the last step over threads."""
    ticks, shown = Ticks(summary["threads"]), value_range(summary)
    values = _fraction("Test accuracy after the last step", shown)
    return _chart(
        "Test accuracy after the last step against worker threads",
        _oversubscribed(summary, ticks),
        _marks(summary, "threads", ticks, _threads(ticks), values, shown),
    )


def commits(summary: pd.DataFrame) -> alt.LayerChart:
    """Share of critical sections that committed as a transaction over threads."""
    ticks, shown = Ticks(summary["threads"]), value_range(summary)
    values = _fraction("Critical sections that committed", shown)
    return _chart(
        "Share of critical sections that committed as a transaction against worker threads",
        _oversubscribed(summary, ticks),
        _marks(summary, "threads", ticks, _threads(ticks), values, shown),
    )


def failures(summary: pd.DataFrame) -> alt.LayerChart:
    """Share of attempts that aborted over threads, stacked by cause; the interval is that of all together."""
    ticks, shown = Ticks(summary["threads"]), value_range(summary)
    x = _threads(ticks)
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
    over = _oversubscribed(summary, ticks)
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
    return _chart(
        "Share of attempts that aborted against worker threads, stacked by cause",
        over,
        alt.Chart(bars)
        .mark_rect(stroke="white", strokeWidth=0.7)
        .encode(
            x=x,
            x2="end:Q",
            y=values,
            y2="top:Q",
            color=alt.Color("cause:N", scale=colours, legend=legend),
            tooltip=_tooltip(columns),
            description="says:N",
        ),
        rule.mark_rule(strokeWidth=1.5, color=palette.INK).encode(y="bar_low:Q", y2="bar_high:Q"),
        [
            rule.mark_tick(width=7, thickness=1.5, orient="horizontal", color=palette.INK).encode(y=f"{end}:Q")
            for end in ("bar_low", "bar_high")
        ],
    )


def time_to_accuracy(summary: pd.DataFrame) -> alt.LayerChart:
    """Seconds until the test accuracy first reached a target, over threads."""
    ticks, shown = Ticks(summary["threads"]), value_range(summary)
    title = f"Seconds to {summary['target'].iloc[0]:.0%} test accuracy"
    return _chart(
        f"{title} against worker threads",
        _oversubscribed(summary, ticks),
        _marks(summary, "threads", ticks, _threads(ticks), _values(title, "~g", shown), shown),
    )


def lost(summary: pd.DataFrame) -> alt.LayerChart:
    """Share of the updates of elements that were lost, over threads."""
    return _share(summary, "Updates of elements that were lost")


def torn(summary: pd.DataFrame) -> alt.LayerChart:
    """Share of the reads of variables that were torn, over threads."""
    return _share(summary, "Reads of variables that were torn")


def _share(summary: pd.DataFrame, title: str) -> alt.LayerChart:
    ticks, shown = Ticks(summary["threads"]), value_range(summary)
    values = _values(title, "~%" if shown.high > 0.03 else ".1%", shown)
    return _chart(
        f"{title} against worker threads",
        _oversubscribed(summary, ticks),
        _marks(summary, "threads", ticks, _threads(ticks), values, shown),
    )


def curve(summary: pd.DataFrame) -> alt.LayerChart:
    """Test accuracy over the steps of all workers together; one number of threads."""
    ticks = Ticks(summary["iteration"].dropna(), may_be_log=False)
    axis = alt.Axis(format="~s" if ticks.last >= 10_000 else ",d", tickCount=6, grid=False)
    x = alt.X("x:Q", title="Steps of all workers together", axis=axis, scale=ticks.scale())
    shown = value_range(summary)
    values = _fraction("Test accuracy", shown)
    return _chart("Test accuracy against steps", _marks(summary, "iteration", ticks, x, values, shown))


def staleness(summary: pd.DataFrame) -> alt.LayerChart:
    """Share of steps by how many updates of others landed between reading and applying; one number of threads."""
    ticks = Ticks(summary["staleness"].dropna(), may_be_log=False)
    axis = alt.Axis(tickMinStep=1, format="d", grid=False)
    x = alt.X("x:Q", title="Updates by others between reading and applying", axis=axis, scale=ticks.scale())
    shown = value_range(summary)
    return _chart(
        "Share of steps against staleness",
        _marks(summary, "staleness", ticks, x, _values("Share of steps", "~%", shown), shown),
    )


def _threads(ticks: Ticks) -> alt.X:
    title = "Worker threads (log scale)" if ticks.log else "Worker threads"
    axis = alt.Axis(values=ticks.values, format="d", labelOverlap="greedy", grid=False)
    return alt.X("x:Q", title=title, scale=ticks.scale(), axis=axis)


def _values(title: str, tick_format: str, shown: Range) -> alt.Y:
    return alt.Y(
        "estimate:Q",
        title=f"{title} (log scale)" if shown.log else title,
        axis=alt.Axis(format=tick_format, tickCount=6),
        scale=alt.Scale(domain=[shown.low, shown.high], nice=False, type="log" if shown.log else "linear"),
    )


def _fraction(title: str, shown: Range) -> alt.Y:
    return _values(title, "~%" if shown.high - shown.low > 0.1 else ".1%", shown)


def _oversubscribed(summary: pd.DataFrame, ticks: Ticks) -> list[alt.Chart]:
    """The shaded, labelled region of more workers than hardware threads; nothing where there is none."""
    over = summary[summary["oversubscribed"].fillna(False)]
    if over.empty:
        return []
    hardware, first = int(over["hardware_threads"].iloc[0]), int(over["threads"].min())
    left, right = ticks.scale().domain
    start = max(left, ticks.between(hardware, first))
    region = alt.Chart(pd.DataFrame({"x": [start], "end": [right]}))
    label = region.mark_text(
        text=["oversubscribed:", f"more than {hardware} hardware threads"],
        align="right",
        baseline="top",
        dx=-5,
        dy=5,
        fontSize=11,
        color=palette.NEUTRAL,
    )
    return [
        region.mark_rect(color=palette.NEUTRAL, opacity=0.15).encode(x="x:Q", x2="end:Q"),
        label.encode(x="end:Q", y=alt.value(0)),
    ]


def _marks(summary: pd.DataFrame, along: str, ticks: Ticks, x: alt.X, y: alt.Y, shown: Range) -> list[alt.Chart]:
    """Lines, interval bars and points of the variants, stepped aside from each other so that equals stay visible.

    A bar that leaves the range shown ends at its edge, without a cap.
    """
    drawn = summary[summary["estimate"].notna()]
    columns = list(dict.fromkeys((*COLUMNS, along)))
    data = drawn[columns].assign(x=ticks.aside(drawn[along], drawn["variant"]))
    size = 70 if len(ticks.values) <= 8 else 35
    bounded, single = data[data["low"].notna()], data[data["low"].isna()]
    colour, shape = _looks(data["variant"])
    base = alt.Chart(data).encode(x=x, y=y, color=colour)
    bars = bounded.assign(bar_low=bounded["low"].clip(shown.low), bar_high=bounded["high"].clip(upper=shown.high))
    caps = alt.Chart().encode(x=x, color=colour).mark_tick(width=7, thickness=1.5, orient="horizontal")
    points = base.encode(shape=shape, tooltip=_tooltip(columns))
    layers = [
        base.mark_line(strokeWidth=1.5, opacity=0.8),
        alt.Chart(bars).mark_rule(strokeWidth=1.5).encode(x=x, color=colour, y="bar_low:Q", y2="bar_high:Q"),
        caps.properties(data=bounded[bounded["low"] >= shown.low]).encode(y="low:Q"),
        caps.properties(data=bounded[bounded["high"] <= shown.high]).encode(y="high:Q"),
        points.properties(data=bounded).mark_point(filled=True, size=size, opacity=1),
        points.properties(data=single).mark_point(filled=False, size=size, opacity=1),  # hollow: no interval
    ]
    return layers[:5] if single.empty else layers


def _tooltip(columns: list[str]) -> list[alt.Tooltip]:
    return [alt.Tooltip(c, format=".4~g") if c in {"estimate", "low", "high"} else alt.Tooltip(c) for c in columns]


def _looks(variants: pd.Series) -> tuple[alt.Color, alt.Shape]:
    names = palette.ordered(variants)
    looks = palette.looks(names)
    room = ENTRY + LETTER * max(map(len, names))
    legend = alt.Legend(
        title=None,
        orient="bottom",
        direction="horizontal",
        columns=alt.ExprRef(f"max(1, min(width > 480 ? 6 : 3, floor(width / {room})))"),
        labelLimit=alt.ExprRef("width"),
        symbolOpacity=1,
    )
    colours = alt.Scale(domain=names, range=[look.colour for look in looks])
    shapes = alt.Scale(domain=names, range=[look.shape for look in looks])
    return alt.Color("variant:N", scale=colours, legend=legend), alt.Shape("variant:N", scale=shapes, legend=legend)


def _chart(describe: str, *parts: Any) -> alt.LayerChart:
    """The layers, flattened, as one chart; `describe` is what a screen reader says of it."""
    layers = [layer for part in parts for layer in (part if isinstance(part, list) else [part])]
    return alt.LayerChart(layer=layers, description=describe, width=WIDTH, height=HEIGHT)
