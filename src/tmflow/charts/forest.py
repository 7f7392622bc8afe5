"""Forest plots: a row for each variant with its interval relative to the baseline, and the equivalence band."""

from __future__ import annotations

import math
from collections.abc import Iterable

import altair as alt
import pandas as pd

from tmflow.analysis.baseline import EQUAL_ACCURACY
from tmflow.analysis.stats import SAME, Bounds
from tmflow.base.text import interval
from tmflow.charts import palette
from tmflow.charts.axes import max_lines, value_range, wrapped_label_expr
from tmflow.charts.marks import ARROW, COLUMNS, Layer, layered, looks, of_variants, points_of, tooltip

ROW, LINE = 30, 14  # px: height of a row, and of a line of its name
NAMES = 170  # px: largest width of the names
AROUND = 66  # px: the axis and its title
# Ticks of a log axis in each decade, the coarsest first; the first set with `FEW` ticks in the range is used.
STEPS = (
    (1.0,),
    (1.0, 3.0),
    (1.0, 2.0, 5.0),
    (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
    (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0, 8.0, 9.0),
)
FEW = 4


def height(summary: pd.DataFrame) -> int:
    """The height of the chart in pixels."""
    drawn = summary.loc[summary["estimate"].notna(), "variant"]
    return _row(drawn) * _rows(len(drawn)) + AROUND


def speed(summary: pd.DataFrame, baseline: str) -> alt.LayerChart:
    """Speeds relative to `baseline` on a log axis, with the line of no difference and the band of 5 %."""
    shown = value_range(summary)
    axis = alt.Axis(values=_ticks(shown.low, shown.high), format="~g")
    return _forest(summary, f"Speed relative to {baseline} (log scale)", axis, 1.0, SAME)


def accuracy(summary: pd.DataFrame, baseline: str) -> alt.LayerChart:
    """Differences of accuracy from `baseline` in percentage points, with the line of no difference and a band of 2."""
    axis = alt.Axis(labelExpr="format(100 * datum.value, '~r')", tickCount=5)
    return _forest(
        summary,
        f"Test accuracy relative to {baseline} (percentage points)",
        axis,
        0.0,
        Bounds(-EQUAL_ACCURACY, EQUAL_ACCURACY),
    )


def _forest(summary: pd.DataFrame, title: str, axis: alt.Axis, none: float, band: Bounds) -> alt.LayerChart:
    shown = value_range(summary)
    data = summary.loc[summary["estimate"].notna(), [*COLUMNS, "told"]]
    variants = of_variants(data["variant"])
    rows = variants.names
    colour, shape = looks(variants, legend=None)
    scale = alt.Scale(domain=[shown.low, shown.high], nice=False, type="log" if shown.log else "linear")
    x = alt.X("estimate:Q", title=title, axis=axis, scale=scale)
    names = alt.Axis(
        labelLimit=NAMES, labelPadding=8, ticks=False, grid=False, labelExpr=wrapped_label_expr(rows, NAMES)
    )
    y = alt.Y("variant:N", title=None, sort=rows, axis=names)
    bounded = data[data["low"].notna()]
    bars = bounded.assign(bar_low=bounded["low"].clip(shown.low), bar_high=bounded["high"].clip(upper=shown.high))
    of_bars = Layer(bars).encode(y=y, color=colour)
    ends = (bars[bars["low"] >= shown.low], "low:Q"), (bars[bars["high"] <= shown.high], "high:Q")
    points = Layer(data).encode(x=x, y=y, color=colour, shape=shape, tooltip=tooltip([*COLUMNS]))
    region = Layer(pd.DataFrame({"from": [band.low], "to": [band.high], "none": [none]}))
    description = "; ".join(
        f"{variant} {interval(estimate, *(None if pd.isna(bound) else bound for bound in bounds))}"
        for variant, estimate, *bounds in data[["variant", "estimate", "low", "high"]].itertuples(index=False)
    )
    return layered(
        f"{title}: {description}",
        region.mark_rect(color=palette.NEUTRAL, opacity=0.2).encode(x=alt.X("from:Q"), x2=alt.X2("to:Q")),
        region.mark_rule(color=palette.NEUTRAL, strokeWidth=1).encode(x=alt.X("none:Q")),
        of_bars.mark_rule(strokeWidth=1.5).encode(x=alt.X("bar_low:Q"), x2=alt.X2("bar_high:Q")),
        *(
            of_bars.properties(data=ends_shown)
            .mark_tick(height=7, thickness=1.5, orient="vertical")
            .encode(x=alt.X(end))
            for ends_shown, end in ends
        ),
        *points_of(points, data, data, size=70),
        *(
            of_bars.properties(data=ends_shown)
            .encode(x=alt.X(end))
            .mark_point(shape=pointing, filled=True, size=ARROW, opacity=1)
            for ends_shown, end, pointing in (
                (bars[bars["low"] < shown.low], "bar_low:Q", "triangle-left"),
                (bars[bars["high"] > shown.high], "bar_high:Q", "triangle-right"),
            )
            if len(ends_shown)
        ),
        height=_row(rows) * _rows(len(rows)),
    )


def _row(names: Iterable[str]) -> int:
    """The height of every row in pixels: that of the name with the most lines."""
    return max(ROW, LINE * max_lines(names, NAMES) + 4)


def _rows(drawn: int) -> int:
    return max(drawn, 2)


def _ticks(low: float, high: float) -> list[float]:
    """The coarsest round ticks of a log axis that number at least `FEW`."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks: list[float] = []
    for steps in STEPS:
        ticks = [tick for decade in decades for step in steps if low <= (tick := step * 10.0**decade) <= high]
        if len(ticks) >= FEW:
            break
    return ticks
