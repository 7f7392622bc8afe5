"""Building blocks of charts: lines with bands and points, axes, legends, the oversubscribed region."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import pandas as pd

from tmflow.analysis.variants import name_of
from tmflow.charts import palette
from tmflow.charts.axes import Range, Ticks, is_never_seen, log_ticks, wrapped_label_expr
from tmflow.charts.layers import Chart, Layer, in_parts
from tmflow.charts.series import DASHES, SHOWN, Series, choice_of, choosable, legend_of, looks
from tmflow.charts.tooltips import COLUMNS, columns_of, hit_areas, tooltip, words_of_divergence, workers_of

LOG = " (log scale)"  # ends the title of an axis
BAND = 0.13  # opacity of the 95 % band: three overlapping bands stay distinguishable
TOP = alt.YValue(0)  # type: ignore[no-untyped-call]  # Altair has no types for it


AXES = {
    "batch": "Images per step (batch)",
    "matrix": "Pixels per image (matrix)",
    "iterations": "Steps in all",
    "steps_per_call": "Steps in a call of TensorFlow",
    "step_us": "Work in a step (us)",
    "servers": "Parameter servers",
    "backup_workers": "Backup workers",
    "slowdown": "Slowdown of the last worker (times)",
    "block": "Elements per block",
    "grain": "Elements per critical section",
    "nonzeros": "Features of an example (nonzeros)",
    "users": "Users",
    "items": "Items",
    "words": "Words",
    "negatives": "Words drawn at random in an example (negatives)",
    "width": "Elements of a row (width)",
    "skew": "Skew of the frequencies",
    "budget": "Attempts before the mutex is taken (budget)",
}


class Extent(NamedTuple):
    """The direction of an interval: the channels of its ends, as drawn, as estimated and of the test; caps, arrows."""

    low: alt.X | alt.Y
    high: alt.X | alt.Y
    to_high: alt.X2 | alt.Y2
    estimated: tuple[alt.X, alt.X] | tuple[alt.Y, alt.Y]
    test: alt.X | alt.Y
    to_test: alt.X2 | alt.Y2
    cap: dict[str, Any]
    arrows: tuple[str, str]


TEST = ("test_low", "test_high")  # columns of the interval of an equivalence test (see `analysis.baseline`)
# Constants, because Altair takes 5 ms to build a channel.
UPRIGHT = Extent(
    *(alt.Y("bar_low:Q"), alt.Y("bar_high:Q"), alt.Y2("bar_high:Q"), (alt.Y("low:Q"), alt.Y("high:Q"))),
    *(alt.Y("test_low:Q"), alt.Y2("test_high:Q")),
    cap={"width": 5, "orient": "horizontal"},
    arrows=("triangle-down", "triangle-up"),
)
ACROSS = Extent(
    *(alt.X("bar_low:Q"), alt.X("bar_high:Q"), alt.X2("bar_high:Q"), (alt.X("low:Q"), alt.X("high:Q"))),
    *(alt.X("test_low:Q"), alt.X2("test_high:Q")),
    cap={"height": 5, "orient": "vertical"},
    arrows=("triangle-left", "triangle-right"),
)
TEST_WIDTH = 5  # px: width of the interval of an equivalence test, which lies on the 95 % interval
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
# The n-th series of a colour has the n-th pattern; the column has n.
OF_ONE_COLOUR = alt.StrokeDash(
    "nth:O", scale=alt.Scale(domain=[0, 1, 2, 3], range=list(map(list, DASHES))), legend=None
)
PLATFORM = 300  # px of a platform's name in a legend
SIMULATED = [6, 4]  # of a line of simulated points
BAR_STEP, BAR_SPREAD = 4, 20  # px between the intervals of neighbouring series at the same x, and of all together
SIDEWAYS = {"xOffset": alt.ExprRef("datum.beside")}
COINCIDE = 0.02  # points closer than this share of the axis coincide
RIM, RIMS = 50, 5  # px² that each point below another is larger, and the most points that this applies to
POINT_SIZE = alt.Size("size:Q", scale=None, legend=None)
DIVERGENCE = alt.Tooltip("diverged:N", title="rounds that diverged")
PUBLISHED = [2, 3]  # of the line of a published number
FEWEST = 3  # ticks of `log_ticks` on an axis; a narrower range has others
LINE_OF_TITLE, OF_SMALL = 52, 30  # characters of a line of the title of a y axis, which is as high as its chart
CROWD = 20  # the most lines of a part that are drawn with intervals


class Along(NamedTuple):
    """The x dimension: a numeric column, its ticks and axis, and whether lines may join the points."""

    column: str
    ticks: Ticks
    axis: alt.X
    joined: bool = True


class Published(NamedTuple):
    """A number of the study's text: its words, and its place on the axis of worker threads or of values."""

    words: str
    workers: int | None = None
    value: float | None = None


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

    Points stand at their true x. Of points that coincide, the first in the legend is the largest and lies below the
    others, so that each has a visible rim; their intervals stand side by side, a few px apart. Names along x have no
    true x: their points are dodged. A point of which rounds diverged is hollow, and no line joins it. An interval that
    leaves the range ends in an arrow. The legend shows and hides series; there are bands for up to `SHOWN` of them.
    A part with very many lines has no intervals (see `is_crowded`).

    The optional column `line` groups rows into lines; the optional column `dash` distinguishes platforms by dashes.
    describe: text for screen readers; behind: layers in the background; tooltip_columns: in addition to `COLUMNS`.
    """
    small = len(parts) > 1
    rows = pd.concat([part for _, part in parts])
    colour, shape = looks(series, legend_of(series.names, small) if series.names != [""] else None)
    others = tooltip_columns or [along.column]
    optional = [name for name in ("line", "dash", *TEST) if name in rows]
    kept = [*dict.fromkeys((*COLUMNS, *others, series.column, *optional))]
    size = 70 if len(along.ticks.values) <= 8 else 35
    shares = "unit" in rows and bool((rows["unit"] == "fraction").all())
    tip_columns = [*dict.fromkeys((*columns_of(rows), *others))]
    tips = tooltip(tip_columns, y["title"].removesuffix(LOG), shares=shares, workers=workers_of(rows["driver"]))
    title = textwrap.wrap(y["title"], OF_SMALL if small else LINE_OF_TITLE)
    y = y.title(title) if len(title) > 1 else y
    x, layers = along.axis, []
    for _, part in parts:
        drawn = part[part["estimate"].notna()]
        data = drawn[kept].assign(**place_points(drawn, series, along, shown, size))
        estimated = data["low"].notna() & ~is_never_seen(drawn) & (not is_crowded(part))
        bars = clip_bars(data[estimated], shown)
        complete, survivors = data[data["diverged"].isna()], data[data["diverged"].notna()]
        points = Layer(complete).encode(x=x, y=y, color=colour, shape=shape, size=POINT_SIZE, tooltip=tips)
        hollow = points.properties(data=survivors).encode(tooltip=[*tips, DIVERGENCE])
        joined = along.joined and len(complete)
        layers.append(
            [
                *(oversubscribed(part, along.ticks) if along.column == "threads" else []),
                *behind,
                *(_joined(complete, bars[bars["diverged"].isna()], x, y, colour, series, rows) if joined else []),
                *error_bars(Layer().encode(x=x, color=colour), bars, offset=SIDEWAYS),
                *equivalence_bars(Layer().encode(x=x, color=colour), data, offset=SIDEWAYS),
                *(hit_areas(layer) for layer in (points, hollow) if len(layer.data)),  # below the points: where two
                *points_of(points, complete, rows, size),  # are close, the tooltip is that of the visible one
                *points_of(hollow, survivors, rows, size, hollow=True),
            ]
        )
    choice = choice_of(series, len(parts))
    if choice:
        layers = [choosable(layer, series, part) for part, layer in enumerate(layers)]
    return in_parts(describe, [label for label, _ in parts], layers, choice)


def is_crowded(part: pd.DataFrame) -> bool:
    """Whether a part of a chart has so many lines that their intervals would hide them."""
    return "line" in part and part.loc[part["estimate"].notna(), "line"].nunique() > CROWD


def place_points(drawn: pd.DataFrame, series: Series, along: Along, shown: Range, size: int) -> dict[str, Any]:
    """The columns that place the points of a part: `x`, `size` in px², `beside`, `nth` and `diverged`.

    beside: px from a point to its interval. nth: how many names before that of the point have its colour; from 4 on, it
    starts again at 0. diverged: how many of its rounds diverged, in words; None if none did.
    """
    place, most = drawn[series.column].map(series.places), min(len(series.names), SHOWN)
    step = min(BAR_STEP, BAR_SPREAD / max(most - 1, 1)) if along.joined else 0
    x = drawn[along.column]
    if not along.joined:
        x = pd.Series(along.ticks.dodge(x, place, most), index=drawn.index, dtype=float)
    at = drawn[series.column].map(series.names.index)
    heights, ends = (np.log(it) if shown.log else it for it in (drawn["estimate"], np.array([shown.low, shown.high])))
    places = pd.DataFrame({"x": x, "height": (heights / np.ptp(ends) / COINCIDE).round(), "at": at})
    above = places.sort_values("at", kind="stable").groupby(["x", "height"]).cumcount(ascending=False)
    return {
        "x": x,
        "size": size + RIM * above.reindex(drawn.index).clip(upper=RIMS),
        "beside": (place - (most - 1) / 2) * step,
        "nth": drawn[series.column].map(series.nth),
        "diverged": drawn["results"].map(words_of_divergence),
    }


def along_factor(column: str, rows: pd.DataFrame, log: bool | None = None) -> Along:
    """The x dimension of a numeric factor of these rows; log: force a log or a linear scale."""
    ticks = Ticks(rows[column], log)
    return Along(column, ticks, numbers_axis(title_of_axis(column, rows), ticks))


def title_of_axis(column: str, rows: pd.DataFrame) -> str:
    """The title of the axis of a factor of these rows."""
    if column == "threads":
        return workers_of(rows["driver"]).capitalize()
    return AXES.get(column, name_of(column).capitalize())


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
    steps = log_ticks(shown.low, shown.high) if shown.log else []
    ticks: dict[str, Any] = {"values": steps} if len(steps) >= FEWEST else {"tickCount": 6}
    return alt.Y(
        "estimate:Q",
        title=f"{title}{LOG}" if shown.log else title,
        axis=alt.Axis(format=tick_format, labelFlush=False, **ticks),
        scale=alt.Scale(domain=[shown.low, shown.high], nice=False, **kind),
    )


def oversubscribed(summary: pd.DataFrame, ticks: Ticks) -> list[alt.Chart]:
    """The shaded region of more workers than hardware threads, labelled above the chart; no layers if there is none.

    There is also none if platforms differ in their hardware threads.
    """
    over = summary[summary["oversubscribed"].fillna(False)]
    if over.empty or summary["hardware_threads"].nunique(dropna=False) > 1:
        return []
    hardware, first = int(over["hardware_threads"].iloc[0]), int(over["threads"].min())
    left, right = ticks.scale().domain
    start = max(left, ticks.between(hardware, first))
    region = Layer(pd.DataFrame({"x": [start], "end": [right]}))
    label = region.mark_text(
        text=f"oversubscribed: more than {hardware} hardware threads",
        align="right",
        baseline="bottom",
        dy=-4,
        fontSize=11,
        color=palette.NEUTRAL,
    )
    return [
        region.mark_rect(color=palette.NEUTRAL, opacity=0.15).encode(x=alt.X("x:Q"), x2=alt.X2("end:Q")),
        label.encode(x=alt.X("end:Q"), y=TOP),
    ]


def labelled_rule(x: float, words: str, dash: list[int]) -> list[alt.Chart]:
    """A vertical rule at `x` with these dashes (px), and its words along it."""
    line = Layer(pd.DataFrame({"x": [x]})).encode(x=alt.X("x:Q"))
    label = line.mark_text(
        text=words, angle=270, align="right", baseline="bottom", dx=-6, dy=-3, fontSize=11, color=palette.NEUTRAL
    )
    return [line.mark_rule(color=palette.NEUTRAL, strokeDash=dash), label.encode(y=TOP)]


def published_marks(numbers: Iterable[Published], ticks: Ticks, shown: Range) -> list[alt.Chart]:
    """The labelled lines of the published numbers that lie within the axes, over worker threads."""
    left, right = ticks.scale().domain
    layers: list[alt.Chart] = []
    for number in numbers:
        if number.workers is not None and left <= number.workers <= right:
            layers += labelled_rule(number.workers, number.words, PUBLISHED)
        if number.value is not None and shown.low <= number.value <= shown.high:
            line = Layer(pd.DataFrame({"x": [right], "y": [number.value]})).encode(y=alt.Y("y:Q"))
            label = line.mark_text(
                text=number.words, align="right", baseline="bottom", dx=-6, dy=-3, fontSize=11, color=palette.NEUTRAL
            )
            layers += [line.mark_rule(color=palette.NEUTRAL, strokeDash=PUBLISHED), label.encode(x=alt.X("x:Q"))]
    return layers


def clip_bars(bounded: pd.DataFrame, shown: Range) -> pd.DataFrame:
    """Add the ends of each interval within the range shown: `bar_low` and `bar_high`."""
    return bounded.assign(bar_low=bounded["low"].clip(shown.low), bar_high=bounded["high"].clip(upper=shown.high))


def error_bars(
    layer: alt.Chart, bars: pd.DataFrame, extent: Extent = UPRIGHT, offset: Mapping[str, Any] = MappingProxyType({})
) -> list[alt.Chart]:
    """Draw the intervals of `clip_bars`: a rule with a cap at each end, or an arrow where the interval is cut.

    layer: has the other position and the colour, but no data. offset: the property of marks that moves them sideways.
    Vega-Lite's `errorbar` would cap a cut end too.
    """
    rule = layer.properties(data=bars).mark_rule(strokeWidth=1.5, **offset).encode(extent.low, extent.to_high)
    caps, arrows = [], []
    cuts = (bars["bar_low"] > bars["low"], bars["bar_high"] < bars["high"])
    ends = zip(cuts, extent.estimated, (extent.low, extent.high), extent.arrows, strict=True)
    for cut, estimated, drawn, shape in ends:
        caps.append(
            layer.properties(data=bars[~cut]).mark_tick(thickness=1.5, **extent.cap, **offset).encode(estimated)
        )
        if cut.any():
            cut_ends = layer.properties(data=bars[cut]).encode(drawn)
            arrows.append(cut_ends.mark_point(shape=shape, filled=True, size=ARROW, opacity=1, **offset))
    return [rule, *caps, *arrows]


def equivalence_bars(
    layer: alt.Chart, data: pd.DataFrame, extent: Extent = UPRIGHT, offset: Mapping[str, Any] = MappingProxyType({})
) -> list[alt.Chart]:
    """Draw the 90 % intervals of equivalence tests that show equivalence, if the data has them; as `error_bars`."""
    if not set(TEST) <= set(data.columns) or (tested := data[data["test_low"].notna()]).empty:
        return []
    bars = layer.properties(data=tested).mark_rule(strokeWidth=TEST_WIDTH, opacity=0.8, **offset)
    return [bars.encode(extent.test, extent.to_test)]


def _joined(
    data: pd.DataFrame,
    bars: pd.DataFrame,
    x: alt.X,
    y: alt.Y,
    colour: alt.Color,
    series: Series,
    everything: pd.DataFrame,
) -> list[alt.Chart]:
    """A band, if series are few, and a line through the points of each line.

    Dashes tell platforms apart, or series of one colour.
    """
    detail = alt.Detail("line:N") if "line" in data else alt.Undefined
    layers = []
    if len(series.names) <= SHOWN:
        band = Layer(bars).mark_area(opacity=BAND, clip=True)
        layers.append(band.encode(UPRIGHT.low, UPRIGHT.to_high, x=x, color=colour, detail=detail))
    platforms = list(dict.fromkeys(everything["dash"])) if "dash" in everything else []
    dashes = _dashes_of_platforms(platforms) if len(platforms) > 1 else OF_ONE_COLOUR
    for kind, rows in data.groupby("evidence", sort=False):
        line = Layer(rows).encode(x=x, y=y, color=colour, detail=detail)
        if kind == "simulated" and len(platforms) < 2:
            layers.append(line.mark_line(strokeWidth=1.5, opacity=0.8, strokeDash=SIMULATED))
        else:
            layers.append(line.encode(strokeDash=dashes).mark_line(strokeWidth=1.5, opacity=0.8))
    return layers


def _dashes_of_platforms(platforms: Sequence[str]) -> alt.StrokeDash:
    legend = alt.Legend(
        title=None,
        orient="top",
        direction="vertical",
        symbolType="stroke",
        labelLimit=PLATFORM,
        labelExpr=wrapped_label_expr(platforms, PLATFORM),
    )
    scale = alt.Scale(domain=list(platforms), range=[list(dash) for dash in DASHES[: len(platforms)]])
    return alt.StrokeDash("dash:N", scale=scale, legend=legend)


def points_of(
    points: alt.Chart, data: pd.DataFrame, everything: pd.DataFrame, size: int, *, hollow: bool = False
) -> list[alt.Chart]:
    """Draw the points in the style of their kind of evidence, with a legend unless everything is measured.

    points: the encoded layer; everything: the rows of all parts of the chart; size: in px², unless they encode it;
    hollow: whatever their evidence.
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
        .mark_point(size=size, **{**KINDS[kind], **({"filled": False} if hollow else {})})
        for kind in kinds
        if len(points_of_kind := data[data["evidence"] == kind])
    ]
