"""Dot plots with a row for each variant: values relative to a baseline (forest plots), predictions, and shares."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd

from tmflow.analysis.baseline import SAME_ACCURACY
from tmflow.analysis.stats import SAME
from tmflow.analysis.variants import ordered_variants
from tmflow.base.text import from_to, interval, listed, several, workers
from tmflow.charts import palette
from tmflow.charts.axes import Range, log_ticks, rows_axis, rows_height, value_range
from tmflow.charts.layers import Layer, layered
from tmflow.charts.marks import ACROSS, LOG, TEST, clip_bars, equivalence_bars, error_bars, points_of
from tmflow.charts.series import looks, of_variants
from tmflow.charts.tooltips import COLUMNS, hit_areas, tooltip, workers_of

FOREST_ROW, FOREST_NAMES = 30, 170  # px: height of a row, and largest width of the names
SHARE_ROW, SHARE_NAMES = 24, 320
ROOM = 1.2  # factor on the axis of shares, for the text next to the largest
POINTS = " (percentage points)"  # ends the title of an axis
MARGIN = 1.05  # factor on both ends of the axis of predictions
LEAST = 1.25  # the axis reaches at least from 1/LEAST to LEAST
PREDICTED = {
    "strategy": "strategy", "ratio": "time over lock's", "low": "error range from", "high": "error range to",
    "us": "µs per step", "cases": "cases",
}  # fmt: skip
"""The columns of a prediction, and their words in a tooltip."""
AROUND = 80  # px: height of the axis and its title of one or two lines


def height(summary: pd.DataFrame) -> int:
    """The height of the chart in pixels."""
    drawn = summary.loc[summary["estimate"].notna(), "variant"]
    return rows_height(drawn, FOREST_ROW, FOREST_NAMES) + AROUND


def draw_comparison(summary: pd.DataFrame, baseline: str) -> alt.LayerChart:
    """Draw a result of `analysis.baseline`, with the line of no difference and the band of equivalence.

    Speeds relative to `baseline` are on a log axis, differences of accuracy from it in percentage points.
    """
    shown = value_range(summary)
    if summary["measure"].iloc[0] == "speed_ratio":
        title, none, band = f"Speed relative to {baseline}{LOG}", 1.0, SAME
        axis = alt.Axis(values=log_ticks(shown.low, shown.high), format="~g")
    else:
        title, none, band = f"Test accuracy relative to {baseline}{POINTS}", 0.0, SAME_ACCURACY
        axis = alt.Axis(labelExpr="format(100 * datum.value, '~r')", tickCount=5)
    data = summary.loc[summary["estimate"].notna(), [*COLUMNS, "ranking", *TEST]]
    variants = of_variants(data["variant"])
    rows = variants.names
    colour, shape = looks(variants, legend=None)
    scale = alt.Scale(domain=[shown.low, shown.high], nice=False, type="log" if shown.log else "linear")
    # The second line of the title: in a card on a phone, one line leaves the picture.
    lines = [title.removesuffix(POINTS), POINTS.strip()] if title.endswith(POINTS) else title
    x = alt.X("estimate:Q", title=lines, axis=axis, scale=scale)
    y = rows_axis("variant", rows, FOREST_NAMES, 8)
    bars = clip_bars(data[data["low"].notna()], shown)
    measure = title.removesuffix(LOG).removesuffix(POINTS)
    tips = tooltip(
        [*COLUMNS], measure, shares=summary["measure"].iloc[0] != "speed_ratio", workers=workers_of(summary["driver"])
    )
    points = Layer(data).encode(x=x, y=y, color=colour, shape=shape, tooltip=tips)
    region = Layer(pd.DataFrame({"from": [band.low], "to": [band.high], "none": [none]}))
    description = "; ".join(
        f"{variant} {interval(estimate, *(None if pd.isna(bound) else bound for bound in bounds))}"
        for variant, estimate, *bounds in data[["variant", "estimate", "low", "high"]].itertuples(index=False)
    )
    return layered(
        f"{title}: {description}",
        region.mark_rect(color=palette.NEUTRAL, opacity=0.2).encode(x=alt.X("from:Q"), x2=alt.X2("to:Q")),
        region.mark_rule(color=palette.NEUTRAL, strokeWidth=1).encode(x=alt.X("none:Q")),
        *error_bars(Layer().encode(y=y, color=colour), bars, ACROSS),
        *equivalence_bars(Layer().encode(y=y, color=colour), data, ACROSS),
        hit_areas(points),
        *points_of(points, data, data, size=70),
        height=rows_height(rows, FOREST_ROW, FOREST_NAMES),
    )


def draw_predictions(predicted: pd.DataFrame, title: str) -> alt.LayerChart:
    """Draw predicted ratios with a row for each strategy, in the order of the rows, and the line of no difference.

    predicted: strategy, ratio, low, high (the error range; NaN without), us, cases. title: of the log axis.
    """
    values = predicted[["ratio", "low", "high"]].to_numpy(float)
    least, most = np.nanmin(values, initial=1 / LEAST), np.nanmax(values, initial=LEAST)
    shown = Range(float(least) / MARGIN, float(most) * MARGIN, log=True, cuts=False)
    strategies = of_variants(predicted["strategy"])
    colour, shape = looks(strategies._replace(column="strategy"), legend=None)
    x = alt.X(
        "ratio:Q",
        title=title + LOG,
        axis=alt.Axis(values=log_ticks(shown.low, shown.high), format="~g"),
        scale=alt.Scale(domain=[shown.low, shown.high], nice=False, type="log"),
    )
    rows = list(predicted["strategy"])
    y = rows_axis("strategy", rows, FOREST_NAMES, 8)
    tips = [
        alt.Tooltip(name, title=words, format=alt.Undefined if name in ("strategy", "cases") else ".4~g")
        for name, words in PREDICTED.items()
    ]
    points = Layer(predicted).encode(x=x, y=y, color=colour, shape=shape, tooltip=tips)
    description = "; ".join(
        f"{strategy} {ratio:.3g}" + ("" if pd.isna(low) else f" (error range {low:.3g} to {high:.3g})")
        for strategy, ratio, low, high in predicted[["strategy", "ratio", "low", "high"]].itertuples(index=False)
    )
    none = Layer(pd.DataFrame({"none": [1.0]})).mark_rule(color=palette.NEUTRAL, strokeWidth=1)
    bars = clip_bars(predicted[predicted["low"].notna()], shown)
    return layered(
        f"{title}: {description}",
        none.encode(x=alt.X("none:Q")),
        *error_bars(Layer().encode(y=y, color=colour), bars, ACROSS),
        hit_areas(points),
        points.mark_point(filled=True, size=70, opacity=1),
        height=rows_height(rows, FOREST_ROW, FOREST_NAMES),
    )


def draw_shares(summary: pd.DataFrame, title: str) -> alt.LayerChart:
    """Draw a row for each number of workers of a variant with a share above 0, and one row for each other variant.

    Each row is labelled with its share, or with the number of rounds without any, which a bar cannot show.
    """
    shown = value_range(summary)
    data = _share_rows(summary[summary["estimate"].notna()])
    colour, shape = looks(of_variants(data["variant"]), legend=None)
    x = alt.X(
        "estimate:Q",
        title=title,
        axis=alt.Axis(format="~%" if shown.high > 0.03 else ".1%", tickCount=6),
        scale=alt.Scale(domain=[shown.low, ROOM * shown.high], nice=False),
    )
    rows = list(dict.fromkeys(data["row"]))
    y = rows_axis("row", rows, SHARE_NAMES, 10)
    row_labels = data.drop_duplicates("row")[["row", "bar_high", "says"]]
    bounded = data[data["low"].notna() & (data["estimate"] > 0)]
    columns = [*COLUMNS, "oversubscribed"]
    tips = tooltip(columns, title, shares=True, workers=workers_of(summary["driver"]))
    points = Layer(data).encode(x=x, y=y, color=colour, shape=shape, tooltip=tips)
    return layered(
        f"{title}, by variant and number of workers",
        *error_bars(Layer().encode(y=y, color=colour), bounded, ACROSS),
        hit_areas(points),
        *points_of(points, data, data, size=70),
        Layer(row_labels)
        .mark_text(align="left", baseline="middle", dx=9, fontSize=11, color=palette.NEUTRAL)
        .encode(x=alt.X("bar_high:Q"), y=y, text=alt.Text("says:N")),
        height=rows_height(rows, SHARE_ROW, SHARE_NAMES),
    )


def _share_rows(drawn: pd.DataFrame) -> pd.DataFrame:
    """The data in the order of the rows: column `row` is the name of a row, `says` the text next to it."""
    most = drawn.groupby("variant")["estimate"].max()
    place = {variant: at for at, variant in enumerate(ordered_variants(drawn["variant"]))}
    shown = value_range(drawn)
    parts = []
    for variant in sorted(place, key=lambda variant: (-most[variant], place[variant])):
        variant_rows = drawn[drawn["variant"] == variant].sort_values("threads")
        over = variant_rows["oversubscribed"].fillna(False).astype(bool)
        if most[variant] > 0:
            marked = over.map({True: " (oversubscribed)", False: ""})
            row = [f"{variant}, {workers(n)}{mark}" for n, mark in zip(variant_rows["threads"], marked, strict=True)]
            says = [
                f"{100 * share:.3g} %" if share else f"0 in {several(n, 'round')}"
                for share, n in zip(variant_rows["estimate"], variant_rows["rounds"], strict=True)
            ]
        else:
            marked_too = f"; oversubscribed: {listed(list(variant_rows.loc[over, 'threads']))}" if over.any() else ""
            rounds = from_to(int(variant_rows["rounds"].min()), int(variant_rows["rounds"].max()), "round")
            row, says = (
                [variant] * len(variant_rows),
                [f"0 in {rounds} ({workers(*variant_rows['threads'])}{marked_too})"] * len(variant_rows),
            )
        parts.append(variant_rows.assign(row=row, says=says))
    data = pd.concat(parts)
    high = data["high"].where(data["estimate"] > 0).fillna(data["estimate"]).clip(upper=shown.high)
    columns = [*COLUMNS, "oversubscribed", "row", "says"]
    return data[columns].assign(bar_low=data["low"].clip(shown.low), bar_high=high)
