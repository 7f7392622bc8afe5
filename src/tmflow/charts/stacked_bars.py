"""Stacked bars of the phases of a worker's step in a cluster: a named row for each bar."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from tmflow.analysis.variants import name_of, ordered_variants
from tmflow.base.text import workers
from tmflow.charts import palette
from tmflow.charts.axes import rows_axis, rows_height
from tmflow.charts.layers import Layer, layered
from tmflow.charts.tooltips import tooltip
from tmflow.spec.factors import DRIVER_FACTORS

TITLE = "Microseconds per step, by phase"
ROW, NAMES = 30, 320  # px: height of a row, and largest width of the names
COLUMNS = ("low", "high", "rounds", "results", "disturbed_rounds")  # of a tooltip
PADDING = 8  # px between a name and its bar


def draw_summary(summary: pd.DataFrame) -> alt.LayerChart:
    """Draw a panel of `summaries.phases`: a bar for each variant, number of workers, and varying factor of clusters."""
    drawn = summary[summary["estimate"].notna()]
    factors = [name for name in DRIVER_FACTORS["cluster"] if drawn[name].nunique(dropna=False) > 1]
    place = {variant: at for at, variant in enumerate(ordered_variants(drawn["variant"]))}
    ordered = drawn.assign(place=drawn["variant"].map(place)).sort_values(["place", "threads", *factors], kind="stable")
    names = [
        ", ".join([variant, workers(n), *(f"{name_of(name)} {value}" for name, value in zip(factors, of, strict=True))])
        for variant, n, *of in ordered[["variant", "threads", *factors]].itertuples(index=False)
    ]
    return draw(ordered.assign(bar=names), "bar", COLUMNS)


def draw(phases: pd.DataFrame, row: str, tooltip_columns: Sequence[str]) -> alt.LayerChart:
    """Draw a bar for each value of the column `row`, in the order of their first rows.

    phases: has the columns `phase` and `estimate`, the mean time of a step in microseconds, and each phase at most once
    for a bar. tooltip_columns: shown in addition to the time.
    """
    occurs = set(phases["phase"])
    names = [name for name in palette.PHASES if name in occurs]
    columns = [*dict.fromkeys((row, "phase", "estimate", *tooltip_columns))]
    bars = phases[columns].sort_values("phase", key=lambda values: values.map(names.index), kind="stable")
    bars["end"] = bars.groupby(row)["estimate"].cumsum()
    bars["start"] = bars["end"] - bars["estimate"]
    bars["says"] = [
        f"{of}, {phase}: {us:.4g} microseconds"
        for of, phase, us in zip(bars[row], bars["phase"], bars["estimate"], strict=True)
    ]
    rows = list(dict.fromkeys(phases[row]))
    scale = alt.Scale(domain=names, range=[palette.PHASES[name] for name in names])
    legend = alt.Legend(title=None, orient="top", direction="horizontal", symbolStrokeWidth=0)
    axis = alt.Axis(format=",~f" if bars["end"].max() >= 10 else "~g", tickCount=6)
    drawn = (
        Layer(bars)
        .mark_bar(strokeWidth=0)
        .encode(
            x=alt.X("start:Q", title=TITLE, axis=axis, scale=alt.Scale(domainMin=0)),
            x2=alt.X2("end:Q"),
            y=rows_axis(row, rows, NAMES, PADDING),
            color=alt.Color("phase:N", scale=scale, legend=legend),
            tooltip=tooltip(columns, "microseconds per step"),
            description=alt.Description("says:N"),
        )
    )
    return layered(f"{TITLE}, stacked: {'; '.join(rows)}", drawn, height=rows_height(rows, ROW, NAMES))
