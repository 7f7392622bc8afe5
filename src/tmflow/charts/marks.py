"""Building blocks of charts: lines with bands and points, layers, axes, legends, the oversubscribed region."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import altair as alt
import numpy as np
import pandas as pd

from tmflow.analysis.variants import ordered_variants
from tmflow.charts import palette
from tmflow.charts.axes import LETTER, PHONE, Range, Ticks, is_never_seen, max_line_length, wrapped_label_expr
from tmflow.charts.palette import Look

Chart = alt.LayerChart | alt.ConcatChart

WIDTH, HEIGHT = 620, 340  # px; a page may stretch the width
SMALL_WIDTH, SMALL_HEIGHT, IN_A_ROW = 290, 200, 2  # of the panels of a chart
ENTRY = 30  # px of a legend entry in addition to its name: symbol and gap
COLUMNS = ("variant", "strategy", "threads", "estimate", "low", "high", "rounds", "disturbed_rounds", "evidence")
BAND = 0.13  # opacity of the 95 % band: three overlapping bands stay distinguishable
LOW, HIGH = alt.Y("bar_low:Q"), alt.Y2("bar_high:Q")  # constants, because building one takes Altair 5 ms
TOP, BOTTOM = alt.YValue(0), alt.YValue("height")  # type: ignore[no-untyped-call]  # Altair has no types for these
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

    The optional column `line` groups rows into lines; the optional column `dash` distinguishes platforms by dashes.
    describe: text for screen readers; behind: layers in the background; tooltip_columns: in addition to `COLUMNS`.
    """
    small = len(parts) > 1
    colour_and_shape = looks(series, _legend(series.names, small) if series.names != [""] else None)
    rows = pd.concat([part for _, part in parts])
    layers = [
        [
            *(oversubscribed(part, along.ticks, shown) if along.column == "threads" else []),
            *behind,
            *_marks(part, rows, series, along, y, shown, colour_and_shape, tooltip_columns),
        ]
        for _, part in parts
    ]
    return in_parts(describe, [label for label, _ in parts], layers)


def in_parts(describe: str, labels: Sequence[str], layers: Sequence[Sequence[alt.Chart]]) -> Chart:
    """Combine the layers of each part: one chart for a single part, else small charts below their labels."""
    if len(layers) == 1:
        return layered(describe, *layers[0])
    charts = [
        Layered(
            layer=list(part_layers),
            title=alt.TitleParams(
                textwrap.wrap(label, SMALL_WIDTH // LETTER), anchor="start", fontSize=12, fontWeight="normal"
            ),
            width=SMALL_WIDTH,
            height=SMALL_HEIGHT,
        )
        for label, part_layers in zip(labels, layers, strict=True)
    ]
    return alt.ConcatChart(concat=charts, columns=IN_A_ROW, description=describe)


def layered(describe: str, *layers: alt.Chart, height: int = HEIGHT) -> alt.LayerChart:
    """Combine layers into one chart; `describe` is the text for screen readers."""
    return Layered(layer=list(layers), description=describe, width=WIDTH, height=height)


def threads_axis(ticks: Ticks) -> alt.X:
    """The x axis of worker threads."""
    return numbers_axis("Worker threads", ticks)


def numbers_axis(title: str, ticks: Ticks) -> alt.X:
    """An x axis with a tick for each number."""
    full_title = f"{title} (log scale)" if ticks.log else title
    integral = all(isinstance(value, int) for value in ticks.values)
    form = "d" if integral and ticks.last < 10_000 else "~s" if integral else "~r"
    axis = alt.Axis(values=ticks.values, format=form, labelOverlap="greedy", grid=False)
    return alt.X("x:Q", title=full_title, scale=ticks.scale(), axis=axis)


def values_axis(title: str, tick_format: str, shown: Range) -> alt.Y:
    """The y axis of estimates in the range shown."""
    kind = {"type": "log"} if shown.log else {"type": "linear", "zero": False}  # otherwise a band reaches down to 0
    return alt.Y(
        "estimate:Q",
        title=f"{title} (log scale)" if shown.log else title,
        axis=alt.Axis(format=tick_format, tickCount=6),
        scale=alt.Scale(domain=[shown.low, shown.high], nice=False, **kind),
    )


def fraction_axis(title: str, shown: Range) -> alt.Y:
    """The y axis of a share in per cent, with a decimal place for a narrow range."""
    fine = not shown.log and shown.high - shown.low <= 0.1
    return values_axis(title, ".1%" if fine else "~%", shown)


def oversubscribed(summary: pd.DataFrame, ticks: Ticks, shown: Range | None = None) -> list[alt.Chart]:
    """The shaded, labelled region of more workers than hardware threads; no layers if there is none.

    There is none either if platforms differ in their hardware threads. The label stands at the top, or at the bottom
    if the points of the region lie above the middle of the range.
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
        dy=-5 if below else 5,
        fontSize=11,
        color=palette.NEUTRAL,
    )
    return [
        region.mark_rect(color=palette.NEUTRAL, opacity=0.15).encode(x=alt.X("x:Q"), x2=alt.X2("end:Q")),
        label.encode(x=alt.X("end:Q"), y=BOTTOM if below else TOP),
    ]


def _marks(
    summary: pd.DataFrame,
    everything: pd.DataFrame,
    series: Series,
    along: Along,
    y: alt.Y,
    shown: Range,
    colour_and_shape: tuple[alt.Color, alt.Shape],
    tooltip_columns: Sequence[str],
) -> list[alt.Chart]:
    """Bands, lines, interval bars and points of a series, dodged so that coinciding points stay visible.

    An interval that leaves the range ends in an arrow. `everything` has the rows of all parts.
    """
    drawn = summary[summary["estimate"].notna()]
    columns = [*dict.fromkeys((*COLUMNS, *(tooltip_columns or [along.column])))]
    kept = [*dict.fromkeys((*columns, series.column, *(name for name in ("line", "dash") if name in drawn)))]
    data = drawn[kept].assign(x=along.ticks.dodge(drawn[along.column], drawn[series.column], series.names))
    bounded = data[data["low"].notna() & ~is_never_seen(drawn)]
    bars = bounded.assign(bar_low=bounded["low"].clip(shown.low), bar_high=bounded["high"].clip(upper=shown.high))
    x, (colour, shape) = along.axis, colour_and_shape
    caps = Layer().encode(x=x, color=colour).mark_tick(width=7, thickness=1.5, orient="horizontal")
    points = Layer(data).encode(x=x, y=y, color=colour, shape=shape, tooltip=tooltip(columns))
    return [
        *(_joined(data, bars, x, y, colour, everything) if along.joined else []),
        Layer(bars).mark_rule(strokeWidth=1.5).encode(x=x, color=colour, y=LOW, y2=HIGH),
        caps.properties(data=bounded[bounded["low"] >= shown.low]).encode(y=alt.Y("low:Q")),
        caps.properties(data=bounded[bounded["high"] <= shown.high]).encode(y=alt.Y("high:Q")),
        *points_of(points, data, everything, size=70 if len(along.ticks.values) <= 8 else 35),
        *(
            Layer(cut)
            .encode(x=x, color=colour, y=end)
            .mark_point(shape=shape_of_cut, filled=True, size=ARROW, opacity=1)
            for cut, end, shape_of_cut in (
                (bars[bars["low"] < shown.low], LOW, "triangle-down"),
                (bars[bars["high"] > shown.high], alt.Y("bar_high:Q"), "triangle-up"),
            )
            if len(cut)
        ),
    ]


def _joined(
    data: pd.DataFrame, bars: pd.DataFrame, x: alt.X, y: alt.Y, colour: alt.Color, everything: pd.DataFrame
) -> list[alt.Chart]:
    """A band and a line through the points of each line."""
    detail = alt.Detail("line:N") if "line" in data else alt.Undefined
    layers = [Layer(bars).mark_area(opacity=BAND, clip=True).encode(x=x, color=colour, y=LOW, y2=HIGH, detail=detail)]
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


def tooltip(columns: Sequence[str]) -> list[alt.Tooltip]:
    """A tooltip of these columns."""
    return [alt.Tooltip(c, format=".4~g") if c in {"estimate", "low", "high"} else alt.Tooltip(c) for c in columns]


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


class Layer(alt.Chart):
    """An immutable layer: shallow copies avoid the five deep copies that Altair makes."""

    def __deepcopy__(self, _memo: object = None) -> Self:
        return self.copy(deep=False)


class Layered(alt.LayerChart):
    """A layered chart that is copied as `Layer` is."""

    def __deepcopy__(self, _memo: object = None) -> Self:
        return self.copy(deep=False)


def rows_of(data: Any) -> dict[str, list[dict[str, Any]]]:
    """Convert a data frame of any size to the values of a chart; missing and non-finite numbers become None."""
    names, columns = list(data.columns), [list(_cells(data[name])) for name in data.columns]
    return {"values": [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]}


def _cells(column: pd.Series) -> Iterator[Any]:
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iub":
        yield from column.to_numpy().tolist()
    elif isinstance(column.dtype, np.dtype) and column.dtype.kind == "f":
        yield from (value if math.isfinite(value) else None for value in column.to_numpy().tolist())
    else:
        values = column.to_numpy(dtype=object).tolist()
        for value, unknown in zip(values, column.isna().to_numpy().tolist(), strict=True):
            yield None if unknown else value.item() if isinstance(value, np.generic) else value


# Registered for all threads of the process: summaries are small, and a page draws a dozen of them.
alt.data_transformers.register("rows_of", rows_of)
alt.data_transformers.enable("rows_of")
