"""Shares in rows, the largest first: who loses how much, with how many workers, and who nothing at all."""

from __future__ import annotations

import altair as alt
import pandas as pd

from tmflow.analysis.variants import ordered_variants
from tmflow.base.text import listed, several, workers
from tmflow.charts import palette
from tmflow.charts.axes import in_room, most_lines, value_range
from tmflow.charts.marks import ARROW, COLUMNS, Layer, layered, looks, of_variants, points_of, tooltip

ROW, LINE = 24, 14  # px of a row, and of a line of its name
NAMES = 320  # px of their names at most
ROOM = 1.2  # of the axis, for what is said beside the largest


def ranked(summary: pd.DataFrame, title: str) -> alt.LayerChart:
    """A row for each number of workers of each variant with a share above 0, and a single row for each other variant.

    Beside each row stands its share, or in how many rounds nothing was seen: no bar tells that.
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
    names = alt.Axis(labelLimit=NAMES, labelPadding=10, ticks=False, grid=False, labelExpr=in_room(rows, NAMES))
    y = alt.Y("row:N", title=None, sort=rows, axis=names)
    said = data.drop_duplicates("row")[["row", "bar_high", "says"]]
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
            bars.properties(data=its).mark_tick(height=7, thickness=1.5, orient="vertical").encode(x=alt.X(end))
            for its, end in ends
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
        Layer(said)
        .mark_text(align="left", baseline="middle", dx=9, fontSize=11, color=palette.NEUTRAL)
        .encode(x=alt.X("bar_high:Q"), y=y, text=alt.Text("says:N")),
        height=max(ROW, LINE * most_lines(rows, NAMES) + 4) * max(len(rows), 2),
    )


def _rows(drawn: pd.DataFrame) -> pd.DataFrame:
    """What is drawn, in the order of its rows: `row` is the name of each, `says` what stands beside it."""
    most = drawn.groupby("variant")["estimate"].max()
    place = {variant: at for at, variant in enumerate(ordered_variants(drawn["variant"]))}
    shown = value_range(drawn)
    parts = []
    for variant in sorted(place, key=lambda variant: (-most[variant], place[variant])):
        its = drawn[drawn["variant"] == variant].sort_values("threads")
        over = its["oversubscribed"].fillna(False).astype(bool)
        if most[variant] > 0:
            marked = over.map({True: " (oversubscribed)", False: ""})
            row = [f"{variant}, {workers(n)}{mark}" for n, mark in zip(its["threads"], marked, strict=True)]
            says = [
                f"{100 * share:.3g} %" if share else f"0 in {several(n, 'round')}"
                for share, n in zip(its["estimate"], its["rounds"], strict=True)
            ]
        else:
            marked_too = f"; oversubscribed: {listed(list(its.loc[over, 'threads']))}" if over.any() else ""
            fewest, most_rounds = int(its["rounds"].min()), int(its["rounds"].max())
            rounds = several(fewest, "round") if fewest == most_rounds else f"{fewest} to {most_rounds} rounds"
            row, says = [variant] * len(its), [f"0 in {rounds} ({workers(*its['threads'])}{marked_too})"] * len(its)
        parts.append(its.assign(row=row, says=says))
    data = pd.concat(parts)
    high = data["high"].where(data["estimate"] > 0).fillna(data["estimate"]).clip(upper=shown.high)
    columns = [*COLUMNS, "oversubscribed", "row", "says"]
    return data[columns].assign(bar_low=data["low"].clip(shown.low), bar_high=high)
