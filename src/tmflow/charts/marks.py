"""Building blocks of charts: lines with bands and points, axes, legends, the oversubscribed region."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import altair as alt
import pandas as pd

from tmflow.analysis.variants import ordered_variants
from tmflow.charts import palette
from tmflow.charts.axes import LETTER, PHONE, Range, Ticks, is_never_seen, max_line_length, wrapped_label_expr
from tmflow.charts.layers import IN_A_ROW, SMALL_WIDTH, Chart, Layer, in_parts
from tmflow.charts.palette import Look
from tmflow.charts.tooltips import COLUMNS, hit_areas, tooltip

ENTRY = 30  # px of a legend entry in addition to its name: symbol and gap
LOG = " (log scale)"  # ends the title of an axis
BAND = 0.13  # opacity of the 95 % band: three overlapping bands stay distinguishable
TOP, BOTTOM = alt.YValue(0), alt.YValue("height")  # type: ignore[no-untyped-call]  # Altair has no types for these


class Extent(NamedTuple):
    """The direction of an interval: the channels of its ends, as drawn and as estimated, its caps and its arrows."""

    low: alt.X | alt.Y
    high: alt.X | alt.Y
    to_high: alt.X2 | alt.Y2
    estimated: tuple[alt.X, alt.X] | tuple[alt.Y, alt.Y]
    cap: dict[str, Any]
    arrows: tuple[str, str]


# Constants, because Altair takes 5 ms to build a channel.
UPRIGHT = Extent(
    *(alt.Y("bar_low:Q"), alt.Y("bar_high:Q"), alt.Y2("bar_high:Q"), (alt.Y("low:Q"), alt.Y("high:Q"))),
    cap={"width": 7, "orient": "horizontal"},
    arrows=("triangle-down", "triangle-up"),
)
ACROSS = Extent(
    *(alt.X("bar_low:Q"), alt.X("bar_high:Q"), alt.X2("bar_high:Q"), (alt.X("low:Q"), alt.X("high:Q"))),
    cap={"height": 7, "orient": "vertical"},
    arrows=("triangle-left", "triangle-right"),
)
ARROW = 45  # px² of the arrow at the end of an interval that leaves the chart
CROSS = "M-1,-1L1,1M-1,1L1,-1"
# The point style of each kind of evidence, and its sign in a legend.
KINDS: dict[str, dict[str, Any]] = {
    "measured": {"filled": True},
    "emulated": {"filled": False},
    "simulated": {"filled": False, "strokeDash": [2, 2]},
    "published": {"filled": False},  # a cross, whatever the series
}
SIGNS = {
    "measured": "\N{BLACK CIRCLE}",
    "emulated": "\N{WHITE CIRCLE}",
    "simulated": "\N{EN DASH} \N{WHITE CIRCLE} \N{EN DASH}",
    "published": "\N{MULTIPLICATION SIGN}",
}
DASHES = ([1, 0], [7, 4], [2, 3], [9, 3, 2, 3])  # of the lines of platforms that share a chart
PLATFORM = 300  # px of a platform's name in a legend
SIMULATED = [6, 4]  # of a line of simulated points
LINE = 13  # px between the lines of a label
PUBLISHED = [2, 3]  # of the line of a published number


class Along(NamedTuple):
    """The x dimension: a numeric column, its ticks and axis, and whether lines may join the points."""

    column: str
    ticks: Ticks
    axis: alt.X
    joined: bool = True


class Series(NamedTuple):
    """The column of colours and shapes, its values in the order of the legend, and their looks."""

    column: str
    names: list[str]
    looks: list[Look]


class Published(NamedTuple):
    """A number of the study's text: its words, and its place on the axis of worker threads or of values."""

    words: str
    workers: int | None = None
    value: float | None = None


def of_variants(drawn: Iterable[str]) -> Series:
    """The variants that are drawn, in the colours of their strategies."""
    names = ordered_variants(drawn)
    return Series("variant", names, palette.looks(names))


def lines(
    parts: Sequence[tuple[str, pd.DataFrame]],
    series: Series,
    describe: str,
    along: Along,
    y: alt.Y,
    shown: Range,
    behind: Sequence[alt.Chart] = (),
    tooltip_columns: Sequence[str] = (),
) -> Chart:
    """Draw a line for each value of a series; several parts become small charts with their labels.

    Coinciding points are dodged, so that all stay visible. An interval that leaves the range ends in an arrow.
    The optional column `line` groups rows into lines; the optional column `dash` distinguishes platforms by dashes.
    describe: text for screen readers; behind: layers in the background; tooltip_columns: in addition to `COLUMNS`.
    """
    small = len(parts) > 1
    colour, shape = looks(series, _legend(series.names, small) if series.names != [""] else None)
    rows = pd.concat([part for _, part in parts])
    columns = [*dict.fromkeys((*COLUMNS, *(tooltip_columns or [along.column])))]
    kept = [*dict.fromkeys((*columns, series.column, *(name for name in ("line", "dash") if name in rows)))]
    size = 70 if len(along.ticks.values) <= 8 else 35
    x, layers = along.axis, []
    for _, part in parts:
        drawn = part[part["estimate"].notna()]
        data = drawn[kept].assign(x=along.ticks.dodge(drawn[along.column], drawn[series.column], series.names))
        bars = clip_bars(data[data["low"].notna() & ~is_never_seen(drawn)], shown)
        shares = "unit" in drawn and bool((drawn["unit"] == "fraction").all())
        tips = tooltip(columns, y["title"].removesuffix(LOG), shares=shares)
        points = Layer(data).encode(x=x, y=y, color=colour, shape=shape, tooltip=tips)
        layers.append(
            [
                *(oversubscribed(part, along.ticks, shown) if along.column == "threads" else []),
                *behind,
                *(_joined(data, bars, x, y, colour, rows) if along.joined else []),
                *error_bars(Layer().encode(x=x, color=colour), bars),
                hit_areas(points),  # below the points: where two are close, the tooltip is that of the visible one
                *points_of(points, data, rows, size),
            ]
        )
    return in_parts(describe, [label for label, _ in parts], layers)


def along_threads(threads: Iterable[int]) -> Along:
    """The x dimension of worker threads."""
    ticks = Ticks(threads)
    return Along("threads", ticks, numbers_axis("Worker threads", ticks))


def numbers_axis(title: str, ticks: Ticks) -> alt.X:
    """An x axis with a tick for each number."""
    full_title = f"{title}{LOG}" if ticks.log else title
    integral = all(isinstance(value, int) for value in ticks.values)
    form = "d" if integral and ticks.last < 10_000 else "~s" if integral else "~r"
    axis = alt.Axis(values=ticks.values, format=form, labelOverlap="greedy", grid=False)
    return alt.X("x:Q", title=full_title, scale=ticks.scale(), axis=axis)


def values_axis(title: str, tick_format: str, shown: Range) -> alt.Y:
    """The y axis of estimates in the range shown."""
    kind = {"type": "log"} if shown.log else {"type": "linear", "zero": False}  # otherwise a band reaches down to 0
    return alt.Y(
        "estimate:Q",
        title=f"{title}{LOG}" if shown.log else title,
        axis=alt.Axis(format=tick_format, tickCount=6),
        scale=alt.Scale(domain=[shown.low, shown.high], nice=False, **kind),
    )


def oversubscribed(summary: pd.DataFrame, ticks: Ticks, shown: Range | None = None) -> list[alt.Chart]:
    """The shaded, labelled region of more workers than hardware threads; no layers if there is none.

    There is also none if platforms differ in their hardware threads. The label is at the top, or at the bottom if the
    points of the region lie above the middle of the range.
    """
    over = summary[summary["oversubscribed"].fillna(False)]
    if over.empty or summary["hardware_threads"].nunique(dropna=False) > 1:
        return []
    hardware, first = int(over["hardware_threads"].iloc[0]), int(over["threads"].min())
    left, right = ticks.scale().domain
    start = max(left, ticks.between(hardware, first))
    middle = shown and ((shown.low * shown.high) ** 0.5 if shown.log else (shown.low + shown.high) / 2)
    below = middle is not None and bool(over["estimate"].mean() > middle)
    region = Layer(pd.DataFrame({"x": [start], "end": [right]}))
    label = region.mark_text(
        text=["oversubscribed:", f"more than {hardware} hardware threads"],
        align="right",
        baseline="bottom" if below else "top",
        dx=-5,
        dy=-5 - LINE if below else 5,  # the baseline is that of the first of two lines
        fontSize=11,
        color=palette.NEUTRAL,
    )
    return [
        region.mark_rect(color=palette.NEUTRAL, opacity=0.15).encode(x=alt.X("x:Q"), x2=alt.X2("end:Q")),
        label.encode(x=alt.X("end:Q"), y=BOTTOM if below else TOP),
    ]


def published_marks(numbers: Iterable[Published], ticks: Ticks, shown: Range) -> list[alt.Chart]:
    """The labelled lines of the published numbers that lie within the axes, over worker threads."""
    left, right = ticks.scale().domain
    layers: list[alt.Chart] = []
    for number in numbers:
        if number.workers is not None and left <= number.workers <= right:
            line = Layer(pd.DataFrame({"x": [number.workers]})).encode(x=alt.X("x:Q"))
            label = line.mark_text(
                text=number.words,
                angle=270,
                align="right",
                baseline="bottom",
                dx=-6,
                dy=-3,
                fontSize=11,
                color=palette.INK,
            )
            layers += [line.mark_rule(color=palette.INK, strokeDash=PUBLISHED), label.encode(y=TOP)]
        if number.value is not None and shown.low <= number.value <= shown.high:
            line = Layer(pd.DataFrame({"x": [right], "y": [number.value]})).encode(y=alt.Y("y:Q"))
            label = line.mark_text(
                text=number.words, align="right", baseline="bottom", dx=-6, dy=-3, fontSize=11, color=palette.INK
            )
            layers += [line.mark_rule(color=palette.INK, strokeDash=PUBLISHED), label.encode(x=alt.X("x:Q"))]
    return layers


def clip_bars(bounded: pd.DataFrame, shown: Range) -> pd.DataFrame:
    """Add the ends of each interval within the range shown: `bar_low` and `bar_high`."""
    return bounded.assign(bar_low=bounded["low"].clip(shown.low), bar_high=bounded["high"].clip(upper=shown.high))


def error_bars(layer: alt.Chart, bars: pd.DataFrame, extent: Extent = UPRIGHT) -> list[alt.Chart]:
    """Draw the intervals of `clip_bars`: a rule with a cap at each end, or an arrow where the interval is cut.

    layer: has the other position and the colour, but no data. Vega-Lite's `errorbar` would cap a cut end too.
    """
    rule = layer.properties(data=bars).mark_rule(strokeWidth=1.5).encode(extent.low, extent.to_high)
    caps, arrows = [], []
    cuts = (bars["bar_low"] > bars["low"], bars["bar_high"] < bars["high"])
    ends = zip(cuts, extent.estimated, (extent.low, extent.high), extent.arrows, strict=True)
    for cut, estimated, drawn, shape in ends:
        caps.append(layer.properties(data=bars[~cut]).mark_tick(thickness=1.5, **extent.cap).encode(estimated))
        if cut.any():
            cut_ends = layer.properties(data=bars[cut]).encode(drawn)
            arrows.append(cut_ends.mark_point(shape=shape, filled=True, size=ARROW, opacity=1))
    return [rule, *caps, *arrows]


def _joined(
    data: pd.DataFrame, bars: pd.DataFrame, x: alt.X, y: alt.Y, colour: alt.Color, everything: pd.DataFrame
) -> list[alt.Chart]:
    """A band and a line through the points of each line."""
    detail = alt.Detail("line:N") if "line" in data else alt.Undefined
    band = Layer(bars).mark_area(opacity=BAND, clip=True)
    layers = [band.encode(UPRIGHT.low, UPRIGHT.to_high, x=x, color=colour, detail=detail)]
    platforms = list(dict.fromkeys(everything["dash"])) if "dash" in everything else []
    for kind, rows in data.groupby("evidence", sort=False):
        line = Layer(rows).encode(x=x, y=y, color=colour, detail=detail)
        if len(platforms) > 1:
            dashes = alt.Scale(domain=platforms, range=list(DASHES[: len(platforms)]))
            legend = alt.Legend(
                title=None,
                orient="top",
                direction="vertical",
                symbolType="stroke",
                labelLimit=PLATFORM,
                labelExpr=wrapped_label_expr(platforms, PLATFORM),
            )
            line = line.encode(strokeDash=alt.StrokeDash("dash:N", scale=dashes, legend=legend))
        dash = SIMULATED if kind == "simulated" and len(platforms) < 2 else alt.Undefined
        layers.append(line.mark_line(strokeWidth=1.5, opacity=0.8, strokeDash=dash))
    return layers


def points_of(points: alt.Chart, data: pd.DataFrame, everything: pd.DataFrame, size: int) -> list[alt.Chart]:
    """Draw the points in the style of their kind of evidence, with a legend unless everything is measured.

    points: the encoded layer; everything: the rows of all parts of the chart.
    """
    kinds = [kind for kind in KINDS if kind in set(everything.loc[everything["estimate"].notna(), "evidence"])]
    if kinds != ["measured"]:
        signs = " : ".join(f"datum.label == '{kind}' ? '{SIGNS[kind]} {kind}'" for kind in kinds)
        legend = alt.Legend(
            title=None, orient="top", direction="horizontal", symbolSize=0, labelExpr=f"{signs} : datum.label"
        )
        opaque = alt.Scale(domain=kinds, range=[1] * len(kinds))
        points = points.encode(opacity=alt.Opacity("evidence:N", sort=kinds, scale=opaque, legend=legend))
    crosses = points.encode(shape=alt.ShapeValue(CROSS))
    return [
        (crosses if kind == "published" else points)
        .properties(data=points_of_kind)
        .mark_point(size=size, **KINDS[kind])
        for kind in kinds
        if len(points_of_kind := data[data["evidence"] == kind])
    ]


def looks(series: Series, legend: alt.Legend | None) -> tuple[alt.Color, alt.Shape]:
    """The colour and shape channels of a series, with a shared legend or none."""
    colours = alt.Scale(domain=series.names, range=[look.colour for look in series.looks])
    shapes = alt.Scale(domain=series.names, range=[look.shape for look in series.looks])
    field = f"{series.column}:N"
    return alt.Color(field, scale=colours, legend=legend), alt.Shape(field, scale=shapes, legend=legend)


def _legend(names: Sequence[str], small: bool) -> alt.Legend:
    """The legend of the names; `small`: shared by several small charts."""
    width = IN_A_ROW * SMALL_WIDTH
    room = ENTRY + LETTER * max_line_length(names, width)
    return alt.Legend(
        title=None,
        orient="bottom",
        direction="horizontal",
        columns=max(1, width // room)
        if small
        else alt.ExprRef(f"max(1, min(width > 480 ? 6 : 3, floor(width / {room})))"),
        labelLimit=width if small else alt.ExprRef("width - 24"),
        labelExpr=wrapped_label_expr(names, width, None if small else PHONE),
        symbolOpacity=1,
    )
