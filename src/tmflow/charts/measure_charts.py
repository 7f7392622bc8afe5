"""One chart for each measure: pure functions from one panel (see `variants.panels`) to an untitled Altair chart.

A chart holds the rows of its summary and computes only the positions of marks, so a table of the summary shows exactly
the numbers drawn. Rows without an estimate are not drawn; the caption names them. At the end: the histogram of a
platform's noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

from tmflow.analysis import summaries
from tmflow.analysis.noise import Noise
from tmflow.analysis.run_table import numbered
from tmflow.analysis.variants import name_of
from tmflow.base.text import percent, several, workers
from tmflow.charts import palette, stacked_bars
from tmflow.charts.axes import EVENTS, Range, Ticks, value_range, wrapped_label_expr
from tmflow.charts.captions import DOTS_AND_BARS, STACKED, Caption, dated, hidden_sentence
from tmflow.charts.dot_plots import draw_shares
from tmflow.charts.layers import Chart, Layer, in_parts, layered
from tmflow.charts.layout import split_facets, varied_factor
from tmflow.charts.marks import (
    Along,
    Published,
    along_factor,
    clip_bars,
    error_bars,
    lines,
    oversubscribed,
    published_marks,
    values_axis,
)
from tmflow.charts.series import of_variants, page_legend
from tmflow.charts.tooltips import tooltip, workers_of

TITLES = {
    "speedup": f"Speedup over {summaries.BASELINES['same'].replace('the same configuration', 'the same strategy')}",
    "speedup_vs_tf_lock": f"Speedup over {summaries.BASELINES['tf_lock']}",
    "step_time": "Wall time per step (µs)",
    "time_over_lock": "Time over that of a lock",
    "accuracy": "Final test accuracy",
    "accuracy_curve": "Test accuracy",
    "commits": "Critical sections committed transactionally",
    "lost": "Lost updates of elements",
    "torn": "Torn reads of variables",
    "inconsistent": "Elements inconsistent with the optimiser's arrays",
    "lock_waited": "Share of the workers' time spent waiting for locks",
    "lock_held": "Share of the workers' time spent holding locks",
    "staleness": "Share of steps",
    "mean_staleness": "Mean staleness (updates by others)",
    "p95_staleness": "95th percentile of staleness (updates by others)",
    "phases": stacked_bars.TITLE,
    "step_transfers": "Transfers between tasks per step",
    "step_bytes": "Bytes sent between tasks per step",
}
STEPS = "Steps of all workers together"
BEHIND = "Updates between reading and applying"
BAR, BARS = 0.7, 8  # width of a bar as a share of the gap between ticks; with fewer than `BARS` bars it shrinks
CAUSE = 400  # px: width of the name of a cause in a legend
WORDS = "replace(datum.label, /_/g, ' ')"
BAR_COLUMNS = (
    "variant", "threads", "cause", "estimate", "low", "high", "rounds", "results", "disturbed_rounds", "evidence"
)  # fmt: skip


def draw(summary: pd.DataFrame, published: Sequence[Published] = ()) -> Chart:
    """Draw a panel: shares as a dot plot, aborts as stacked bars by cause, any other measure as lines.

    The x axis has the factor that the panel varies (see `varied_factor`), the steps of a training curve, or the ranges
    of staleness. Many variants are drawn in facets (see `split_facets`). A chart of lines over threads marks the
    published numbers that lie within its axes.
    """
    measure, shown = summary["measure"].iloc[0], value_range(summary)
    if measure == "phases":
        return stacked_bars.draw_summary(summary)
    if measure in EVENTS:
        return draw_shares(summary, title_of(summary))
    if measure in STACKED:
        describe = f"Share of attempts that aborted against {workers_of(summary['driver'])}, stacked by cause"
        return stacked([("", summary)], palette.CAUSES, describe, along_factor("threads", summary), shown)
    columns: tuple[str, ...] = ()
    if measure == "accuracy_curve":
        along, against = steps(summary), "steps"
    elif measure == "staleness":
        summary = place_ranges(summary, ["variant"])
        along, against, columns = ranges(summary), "staleness", ("staleness", "up_to")
    elif measure == "time_over_lock":
        along, against = along_factor("grain", summary), "elements per critical section"
    else:
        x = varied_factor(summary)
        along, against = along_factor(x, summary), workers_of(summary["driver"]) if x == "threads" else name_of(x)
    parts = split_facets(summary)
    drawn = _variants_of(parts)
    describe, y = f"{title_of(summary)} against {against}", values(summary, shown)
    behind = references(summary, along, shown)
    if along.column == "threads":
        behind += published_marks(published, along.ticks, shown)
    return lines(parts, of_variants(drawn), describe, along, y, shown, behind, columns)


def notes(summary: pd.DataFrame) -> list[str]:
    """What the chart of a panel hides at first, and that its workers are oversubscribed if no shade says so."""
    if summary["measure"].iloc[0] in DOTS_AND_BARS:
        return []
    series = of_variants(_variants_of(split_facets(summary)))
    over = summary.loc[summary["estimate"].notna(), "oversubscribed"].fillna(False).astype(bool)
    shaded = not {"iteration", "staleness", "grain"} & {*summary} and varied_factor(summary) == "threads"
    oversubscribed = [] if shaded or not over.all() else ["Oversubscribed: more workers than hardware threads."]
    return [*hidden_sentence(series.names, series.hidden), *oversubscribed]


def _variants_of(parts: Sequence[tuple[str, pd.DataFrame]]) -> pd.Series:
    """The variants with something to draw, by their names in the parts."""
    return pd.concat([part[part["estimate"].notna()] for _, part in parts])["variant"]


def values(summary: pd.DataFrame, shown: Range) -> alt.Y:
    """The y axis of a summary; a narrow range of a share has a decimal place."""
    unit = summary["unit"].iloc[0]
    if unit == "fraction":
        fine = not shown.log and shown.high - shown.low <= 0.1 and summary["measure"].iloc[0] != "staleness"
        form = ".1%" if fine else "~%"
    elif unit == "s":
        form = "~g"
    else:
        form = "~s" if shown.high >= 50_000 else ",~f" if shown.high >= 1 else "~g"
    return values_axis(title_of(summary), form, shown)


def title_of(summary: pd.DataFrame) -> str:
    """The title of the y axis of a summary, with its unit."""
    if "target" not in summary:
        return TITLES[summary["measure"].iloc[0]]
    targets = summary["target"].unique()
    return f"Seconds to {percent(targets[0])} test accuracy" if len(targets) == 1 else "Seconds to a test accuracy"


def references(summary: pd.DataFrame, along: Along, shown: Range) -> list[alt.Chart]:
    """The lines behind a chart of ratios: no difference, and of speedups over threads the ideal."""
    if not summary["measure"].iloc[0].startswith(("speedup", "time_over_lock")):
        return []
    rule = Layer(pd.DataFrame({"y": [1]})).mark_rule(color=palette.NEUTRAL, strokeWidth=1)
    return [rule.encode(y=alt.Y("y:Q")), *(_ideal(along.ticks, shown) if along.column == "threads" else [])]


def _ideal(ticks: Ticks, shown: Range) -> list[alt.Chart]:
    """The labelled line of ideal speedup."""
    points = pd.DataFrame({"x": np.geomspace(1, max(ticks.last, 1.001), 100)})
    points["ideal"] = points["x"]
    end = points[points["ideal"] <= 0.8 * shown.high].tail(1)
    line = Layer(points).encode(x=alt.X("x:Q"), y=alt.Y("ideal:Q"))
    return [
        line.mark_line(color=palette.NEUTRAL, strokeDash=[5, 4], strokeWidth=1.5, clip=True),
        line.properties(data=end).mark_text(
            text="ideal", align="right", baseline="bottom", dx=-4, dy=-2, fontSize=11, color=palette.NEUTRAL
        ),
    ]


def steps(summary: pd.DataFrame, log: bool = False) -> Along:
    """The x dimension of the steps at which the accuracy was measured."""
    ticks = Ticks(summary["iteration"].dropna(), log)
    axis = alt.Axis(format="~s" if ticks.last >= 10_000 else ",d", tickCount=6, grid=False)
    title = f"{STEPS} (log scale)" if ticks.log else STEPS
    return Along("iteration", ticks, alt.X("x:Q", title=title, axis=axis, scale=ticks.scale()))


def place_ranges(summary: pd.DataFrame, of: Sequence[str]) -> pd.DataFrame:
    """Add the position of each range of staleness as `place`; all ranges are equally wide.

    Add also `line`: rows share a number if a line may join them. The rows that agree in the columns `of` have one line,
    which ends before a range without steps.
    """
    places = summary["staleness"].map(lambda bound: summaries.place_of(int(bound)), na_action="ignore")
    placed = summary.assign(place=places.astype("Int64"))
    ordered = placed.assign(series=numbered(placed, of)).sort_values(["series", "place"], kind="stable")
    follows = ordered.groupby("series")["place"].diff().eq(1).fillna(False)
    return placed.assign(line=(~follows.astype(bool)).cumsum().reindex(placed.index))


def ranges(placed: pd.DataFrame) -> Along:
    """The x dimension of the ranges of staleness."""
    places = placed["place"].dropna()
    ticks = Ticks(range(places.min(), places.max() + 1) if len(places) else (), log=False)
    names = [summaries.range_at(int(place)) for place in ticks.values]
    labels = [str(first) if first == last else f"{first}\N{EN DASH}{last}" for first, last in names]
    axis = alt.Axis(values=ticks.values, labelExpr=f"{labels}[datum.value - {ticks.first}]", grid=False)
    return Along("place", ticks, alt.X("x:Q", title=BEHIND, axis=axis, scale=ticks.scale()))


def stacked(
    parts: Sequence[tuple[str, pd.DataFrame]],
    colours: Mapping[str, str],
    describe: str,
    along: Along,
    shown: Range,
    tooltip_columns: Sequence[str] = (),
) -> Chart:
    """Draw bars of the causes in `colours`, stacked in that order from the bottom; several parts become small charts.

    describe: text for screen readers; tooltip_columns: in addition to `BAR_COLUMNS`.
    """
    rows = pd.concat([part for _, part in parts])
    occurs = set(rows.loc[rows["estimate"] > 0, "cause"])
    causes = [cause for cause in colours if cause in occurs]
    scale = alt.Scale(domain=causes, range=[colours[cause] for cause in causes])
    legend = page_legend(causes, WORDS) if len(parts) == 1 else _legend_of_parts(causes)
    legend.symbolStrokeWidth = 0
    colour = alt.Color("cause:N", scale=scale, legend=legend if causes else None)  # Vega cannot place an empty legend
    columns = [*dict.fromkeys((*BAR_COLUMNS, *tooltip_columns))]
    layers = [_bars(part, colour, causes, along, shown, columns) for _, part in parts]
    return in_parts(describe, [label for label, _ in parts], layers)


def _legend_of_parts(causes: Sequence[str]) -> alt.Legend:
    """The legend of causes that several small charts share; their width is not that of the legend."""
    return alt.Legend(
        title=None,
        orient="top",
        direction="horizontal",
        columns=1 if max(map(len, causes), default=0) > 20 else 0,
        labelLimit=CAUSE,
        labelExpr=wrapped_label_expr(causes, CAUSE, words=WORDS),
    )


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
        axis=alt.Axis(format="~%", tickCount=6, labelFlush=False),
        scale=alt.Scale(domain=[0, shown.high], nice=False),
    )
    totals = estimated[(estimated["cause"] == summaries.ANY) & estimated["low"].notna()]
    spread = clip_bars(totals[columns].assign(x=totals[along.column]), shown)
    ink = alt.value(palette.NEUTRAL)
    if len(estimated) and not (estimated["estimate"] > 0).any():
        nothing = Layer(estimated.head(1)[["variant"]]).mark_text(text="No attempt aborted.", color=palette.NEUTRAL)
        over = [*over, nothing.encode(x=alt.value(alt.expr("width / 2")), y=alt.value(alt.expr("height / 2")))]
    return [
        *over,
        Layer(bars)
        .mark_rect(strokeWidth=0)
        .encode(
            x=along.axis,
            x2=alt.X2("end:Q"),
            y=values,
            y2=alt.Y2("top:Q"),
            color=colour,
            tooltip=tooltip(
                columns, "attempts that aborted for this cause", shares=True, workers=workers_of(summary["driver"])
            ),
            description=alt.Description("says:N"),
        ),
        *error_bars(Layer().encode(x=along.axis, color=ink), spread),
    ]


def draw_noise(bins: pd.DataFrame) -> alt.LayerChart:
    """Draw the result of `tmflow.analysis.noise.histogram`."""
    bars = (
        alt.Chart(bins)
        .mark_rect(color=palette.BLUE, strokeWidth=0)
        .encode(
            x=alt.X(
                "low:Q",
                title="Deviation of the time from the mean of its point (%)",
                axis=alt.Axis(format="+~f", tickCount=8),
            ),
            x2="high:Q",
            y=alt.Y("share:Q", title="Share of runs", axis=alt.Axis(format="~%", tickCount=5)),
            y2=alt.datum(0),
            tooltip=[alt.Tooltip("low", format="+.2f"), alt.Tooltip("high", format="+.2f"), "runs"],
        )
    )
    zero = alt.Chart(pd.DataFrame({"x": [0]})).mark_rule(color=palette.NEUTRAL).encode(x="x:Q")
    return layered("Share of runs by the deviation of their time from the mean of their point over rounds", bars, zero)


def noise_caption(
    measured: Noise, runs: pd.DataFrame, bins: pd.DataFrame, platform: str, which: str, revision: str
) -> Caption:
    """The caption of the histogram `bins` of `runs`; `which` describes the runs."""
    return Caption(
        f"Noise of the times on {platform}",
        [
            f"{several(measured.runs, 'run')} of {several(measured.points, 'point')} in "
            f"{several(measured.rounds, 'round')}; {which}.",
            "Measured runs with the usual measures, not oversubscribed. A point is one combination of factors under "
            "one definition and software version. Corrected for using the mean of the same rounds.",
            f"The outermost bars include all deviations beyond {bins['high'].iloc[-1]:.1f} %.",
            dated(runs["started_at_utc"], revision),
        ],
    )
