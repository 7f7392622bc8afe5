"""What charts are made of: lines with intervals and points, axes, a legend, the oversubscribed region."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from tmflow import palette
from tmflow.axes import Range, Ticks
from tmflow.facets import facets

Chart = alt.LayerChart | alt.ConcatChart

WIDTH, HEIGHT = 620, 340  # px; a page may stretch the width
SMALL_WIDTH, SMALL_HEIGHT, IN_A_ROW = 290, 200, 2  # of the parts of a chart
ENTRY, LETTER = 30, 6  # px of an entry of the legend: its symbol and gap, and about a letter of its name
COLUMNS = ("variant", "strategy", "threads", "estimate", "low", "high", "rounds", "disturbed_rounds")


def lines(
    summary: pd.DataFrame,
    describe: str,
    along: str,
    ticks: Ticks,
    x: alt.X,
    y: alt.Y,
    shown: Range,
    behind: Sequence[alt.Chart] = (),
    told: Sequence[str] = (),
) -> Chart:
    """A line for each variant over the column `along`; in parts (see `facets`) where they are many.

    describe: what a screen reader says of it; behind: what else is drawn; told: columns of a tooltip beside the usual.
    """
    parts = facets(summary)
    small = len(parts) > 1
    drawn = pd.concat([part.loc[part["estimate"].notna(), "variant"] for _, part in parts])
    names = palette.ordered(drawn)
    colour_and_shape = looks(names, _legend(names, small))
    layers = [
        [
            *(oversubscribed(part, ticks) if along == "threads" else []),
            *behind,
            *_marks(part, along, ticks, x, y, shown, colour_and_shape, told),
        ]
        for _, part in parts
    ]
    if not small:
        return layered(describe, *layers[0])
    charts = [
        alt.LayerChart(
            layer=its,
            title=alt.TitleParams(label, anchor="start", fontSize=12, fontWeight="normal"),
            width=SMALL_WIDTH,
            height=SMALL_HEIGHT,
        )
        for (label, _), its in zip(parts, layers, strict=True)
    ]
    return alt.ConcatChart(concat=charts, columns=IN_A_ROW, description=describe)


def layered(describe: str, *layers: alt.Chart, height: int = HEIGHT) -> alt.LayerChart:
    """The layers as one chart; `describe` is what a screen reader says of it."""
    return alt.LayerChart(layer=list(layers), description=describe, width=WIDTH, height=height)


def threads_axis(ticks: Ticks) -> alt.X:
    """Numbers of workers."""
    title = "Worker threads (log scale)" if ticks.log else "Worker threads"
    axis = alt.Axis(values=ticks.values, format="d", labelOverlap="greedy", grid=False)
    return alt.X("x:Q", title=title, scale=ticks.scale(), axis=axis)


def values_axis(title: str, tick_format: str, shown: Range) -> alt.Y:
    """Estimates, in the range shown."""
    return alt.Y(
        "estimate:Q",
        title=f"{title} (log scale)" if shown.log else title,
        axis=alt.Axis(format=tick_format, tickCount=6),
        scale=alt.Scale(domain=[shown.low, shown.high], nice=False, type="log" if shown.log else "linear"),
    )


def fraction_axis(title: str, shown: Range) -> alt.Y:
    """Estimates of a share in per cent, with a decimal where they are close together."""
    return values_axis(title, "~%" if shown.high - shown.low > 0.1 else ".1%", shown)


def oversubscribed(summary: pd.DataFrame, ticks: Ticks) -> list[alt.Chart]:
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


def _marks(
    summary: pd.DataFrame,
    along: str,
    ticks: Ticks,
    x: alt.X,
    y: alt.Y,
    shown: Range,
    colour_and_shape: tuple[alt.Color, alt.Shape],
    told: Sequence[str],
) -> list[alt.Chart]:
    """Lines, interval bars and points of the variants, stepped aside from each other so that equals stay visible.

    A bar that leaves the range shown ends at its edge, without a cap.
    """
    drawn = summary[summary["estimate"].notna()]
    columns = [*dict.fromkeys((*COLUMNS, *(told or [along])))]
    data = drawn[columns].assign(x=ticks.aside(drawn[along], drawn["variant"]))
    size = 70 if len(ticks.values) <= 8 else 35
    bounded, single = data[data["low"].notna()], data[data["low"].isna()]
    colour, shape = colour_and_shape
    base = alt.Chart(data).encode(x=x, y=y, color=colour)
    bars = bounded.assign(bar_low=bounded["low"].clip(shown.low), bar_high=bounded["high"].clip(upper=shown.high))
    caps = alt.Chart().encode(x=x, color=colour).mark_tick(width=7, thickness=1.5, orient="horizontal")
    points = base.encode(shape=shape, tooltip=tooltip(columns))
    layers = [
        base.mark_line(strokeWidth=1.5, opacity=0.8),
        alt.Chart(bars).mark_rule(strokeWidth=1.5).encode(x=x, color=colour, y="bar_low:Q", y2="bar_high:Q"),
        caps.properties(data=bounded[bounded["low"] >= shown.low]).encode(y="low:Q"),
        caps.properties(data=bounded[bounded["high"] <= shown.high]).encode(y="high:Q"),
        points.properties(data=bounded).mark_point(filled=True, size=size, opacity=1),
        points.properties(data=single).mark_point(filled=False, size=size, opacity=1),  # hollow: no interval
    ]
    return layers[:5] if single.empty else layers


def tooltip(columns: list[str]) -> list[alt.Tooltip]:
    """These columns, by their names."""
    return [alt.Tooltip(c, format=".4~g") if c in {"estimate", "low", "high"} else alt.Tooltip(c) for c in columns]


def looks(names: Sequence[str], legend: alt.Legend | None) -> tuple[alt.Color, alt.Shape]:
    """Colours and shapes of the variants of these names, with one legend for both, or none."""
    of_names = palette.looks(names)
    colours = alt.Scale(domain=names, range=[look.colour for look in of_names])
    shapes = alt.Scale(domain=names, range=[look.shape for look in of_names])
    return alt.Color("variant:N", scale=colours, legend=legend), alt.Shape("variant:N", scale=shapes, legend=legend)


def _legend(names: Sequence[str], small: bool) -> alt.Legend:
    """Of the variants; of all parts of a chart together if `small`."""
    room = ENTRY + LETTER * max(map(len, names), default=0)
    whole = IN_A_ROW * SMALL_WIDTH
    return alt.Legend(
        title=None,
        orient="bottom",
        direction="horizontal",
        columns=max(1, whole // room)
        if small
        else alt.ExprRef(f"max(1, min(width > 480 ? 6 : 3, floor(width / {room})))"),
        labelLimit=whole if small else alt.ExprRef("width"),
        symbolOpacity=1,
    )
