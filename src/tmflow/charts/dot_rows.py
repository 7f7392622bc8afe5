"""Shares as a dot plot with a row for each variant and number of workers, the largest share first."""

from __future__ import annotations

import altair as alt
import pandas as pd

from tmflow.analysis.variants import ordered_variants
from tmflow.base.text import listed, several, workers
from tmflow.charts import palette
from tmflow.charts.axes import max_lines, value_range, wrapped_label_expr
from tmflow.charts.marks import ARROW, COLUMNS, Layer, layered, looks, of_variants, points_of, tooltip

ROW, LINE = 24, 14  # px: height of a row, and of a line of its name
NAMES = 320  # px: largest width of the names
ROOM = 1.2  # factor on the axis, for the text next to the largest share


def draw_shares(summary: pd.DataFrame, title: str) -> alt.LayerChart:
    """Draw a row for each number of workers of a variant with a share above 0, and one row for each other variant.

    Each row is labelled with its share, or with the number of rounds without any: a bar cannot show that.
    """
    shown = value_range(summary)
    data = _rows(summary[summary["estimate"].notna()])
    colour, shape = looks(of_variants(data["variant"]), legend=None)
    x = alt.X(
        "estimate:Q",
        title=title,
        axis=alt.Axis(format="~%" if shown.high > 0.03 else ".1%", tickCount=6),
        scale=alt.Scale(domain=[shown.low, ROOM * shown.high], nice=False),
    )
    rows = list(dict.fromkeys(data["row"]))
    names = alt.Axis(
        labelLimit=NAMES, labelPadding=10, ticks=False, grid=False, labelExpr=wrapped_label_expr(rows, NAMES)
    )
    y = alt.Y("row:N", title=None, sort=rows, axis=names)
    row_labels = data.drop_duplicates("row")[["row", "bar_high", "says"]]
    bounded = data[data["low"].notna() & (data["estimate"] > 0)]
    cut = bounded[bounded["high"] > shown.high]
    base = Layer(data).encode(x=x, y=y, color=colour)
    points = base.encode(shape=shape, tooltip=tooltip([*COLUMNS, "oversubscribed"]))
    bars = Layer(bounded).encode(y=y, color=colour)
    ends = (bounded[bounded["low"] >= shown.low], "low:Q"), (bounded[bounded["high"] <= shown.high], "high:Q")
    return layered(
        f"{title}, by variant and number of workers",
        bars.mark_rule(strokeWidth=1.5).encode(x=alt.X("bar_low:Q"), x2=alt.X2("bar_high:Q")),
        *(
            bars.properties(data=ends_shown).mark_tick(height=7, thickness=1.5, orient="vertical").encode(x=alt.X(end))
            for ends_shown, end in ends
        ),
        *(
            [
                bars.properties(data=cut)
                .mark_point(shape="triangle-right", filled=True, size=ARROW, opacity=1)
                .encode(x=alt.X("bar_high:Q"))
            ]
            if len(cut)
            else []
        ),
        *points_of(points, data, data, size=70),
        Layer(row_labels)
        .mark_text(align="left", baseline="middle", dx=9, fontSize=11, color=palette.NEUTRAL)
        .encode(x=alt.X("bar_high:Q"), y=y, text=alt.Text("says:N")),
        height=max(ROW, LINE * max_lines(rows, NAMES) + 4) * max(len(rows), 2),
    )


def _rows(drawn: pd.DataFrame) -> pd.DataFrame:
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
            fewest, most_rounds = int(variant_rows["rounds"].min()), int(variant_rows["rounds"].max())
            rounds = several(fewest, "round") if fewest == most_rounds else f"{fewest} to {most_rounds} rounds"
            row, says = (
                [variant] * len(variant_rows),
                [f"0 in {rounds} ({workers(*variant_rows['threads'])}{marked_too})"] * len(variant_rows),
            )
        parts.append(variant_rows.assign(row=row, says=says))
    data = pd.concat(parts)
    high = data["high"].where(data["estimate"] > 0).fillna(data["estimate"]).clip(upper=shown.high)
    columns = [*COLUMNS, "oversubscribed", "row", "says"]
    return data[columns].assign(bar_low=data["low"].clip(shown.low), bar_high=high)
