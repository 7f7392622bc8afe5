"""Stacked bars of shares by cause, with the interval of their sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from tmflow.analysis import summaries
from tmflow.base.text import workers
from tmflow.charts import palette
from tmflow.charts.axes import PHONE, Range, wrapped_label_expr
from tmflow.charts.marks import ARROW, HIGH, LOW, Along, Chart, Layer, in_parts, oversubscribed, tooltip

BAR, BARS = 0.7, 8  # width of a bar as a share of the gap between ticks; with fewer than `BARS` bars it shrinks
CAUSE = 400  # px: width of the name of a cause in a legend
WORDS = "replace(datum.label, /_/g, ' ')"
ABOVE = 1.12  # factor on the axis, for the label of the shaded region above the highest bar
COLUMNS = (
    "variant", "threads", "cause", "estimate", "low", "high", "rounds", "disturbed_rounds", "evidence"
)  # fmt: skip


def stacked(
    parts: Sequence[tuple[str, pd.DataFrame]],
    colours: Mapping[str, str],
    describe: str,
    along: Along,
    shown: Range,
    tooltip_columns: Sequence[str] = (),
) -> Chart:
    """Draw bars of the causes in `colours`, stacked in that order from the bottom; several parts become small charts.

    describe: text for screen readers; tooltip_columns: in addition to `COLUMNS`.
    """
    rows = pd.concat([part for _, part in parts])
    occurs = set(rows.loc[rows["estimate"] > 0, "cause"])
    causes = [cause for cause in colours if cause in occurs]
    scale = alt.Scale(domain=causes, range=[colours[cause] for cause in causes])
    legend = alt.Legend(
        title=None,
        orient="bottom",
        direction="horizontal",
        columns=1 if max(map(len, causes), default=0) > 20 else 0,
        labelLimit=CAUSE,
        symbolStrokeWidth=0,
        labelExpr=wrapped_label_expr(causes, CAUSE, PHONE if len(parts) == 1 else None, WORDS),
    )
    colour = alt.Color("cause:N", scale=scale, legend=legend)
    columns = [*dict.fromkeys((*COLUMNS, *tooltip_columns))]
    layers = [_bars(part, colour, causes, along, shown, columns) for _, part in parts]
    return in_parts(describe, [label for label, _ in parts], layers)


def _bars(
    summary: pd.DataFrame, colour: alt.Color, order: list[str], along: Along, shown: Range, columns: list[str]
) -> list[alt.Chart]:
    estimated = summary[summary["estimate"].notna()]
    bars = estimated.loc[estimated["cause"].isin(order), [*dict.fromkeys((*columns, along.column))]]
    bars = bars.sort_values("cause", key=lambda causes: causes.map(order.index), kind="stable")
    bars["top"] = bars.groupby(along.column)["estimate"].cumsum()
    bars["bottom"] = bars["top"] - bars["estimate"]
    half = BAR / 2 * min(1, len(along.ticks.values) / BARS)
    bars["x"], bars["end"] = ([along.ticks.shift(at, side) for at in bars[along.column]] for side in (-half, half))
    bars["says"] = [
        f"{workers(n)}, {cause.replace('_', ' ')}: {share:.3%} of attempts"
        for n, cause, share in zip(bars["threads"], bars["cause"], bars["estimate"], strict=True)
    ]
    over = oversubscribed(summary, along.ticks) if along.column == "threads" else []
    values = alt.Y(
        "bottom:Q",
        title="Attempts that aborted",
        axis=alt.Axis(format="~%", tickCount=6),
        scale=alt.Scale(domain=[0, shown.high * (ABOVE if over else 1)], nice=False),
    )
    totals = estimated[(estimated["cause"] == summaries.ANY) & estimated["low"].notna()]
    spread = totals[columns].assign(
        x=totals[along.column], bar_low=totals["low"].clip(shown.low), bar_high=totals["high"].clip(upper=shown.high)
    )
    cut = spread["high"] > shown.high
    rule = Layer(spread).encode(x=along.axis)
    return [
        *over,
        Layer(bars)
        .mark_rect(stroke="white", strokeWidth=0.7)
        .encode(
            x=along.axis,
            x2=alt.X2("end:Q"),
            y=values,
            y2=alt.Y2("top:Q"),
            color=colour,
            tooltip=tooltip(columns),
            description=alt.Description("says:N"),
        ),
        rule.mark_rule(strokeWidth=1.5, color=palette.INK).encode(y=LOW, y2=HIGH),
        *(
            rule.properties(data=ends)
            .mark_tick(width=7, thickness=1.5, orient="horizontal", color=palette.INK)
            .encode(y=alt.Y(f"{end}:Q"))
            for ends, end in ((spread, "bar_low"), (spread[~cut], "bar_high"))
        ),
        *(
            [
                rule.properties(data=spread[cut])
                .mark_point(shape="triangle-up", filled=True, size=ARROW, opacity=1, color=palette.INK)
                .encode(y=alt.Y("bar_high:Q"))
            ]
            if cut.any()
            else []
        ),
    ]
