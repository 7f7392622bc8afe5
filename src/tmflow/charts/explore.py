"""Charts of any measure over any factor, with colours and panels by any factor: the page "Explore".

A figure of an experiment is the special case of threads along x and one colour for each variant.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

import altair as alt
import pandas as pd

from tmflow.analysis import summaries
from tmflow.analysis.elements import with_elements
from tmflow.analysis.run_table import Records
from tmflow.analysis.variants import name_of, ordered_variants
from tmflow.base.text import listed, several
from tmflow.charts import captions, measure_charts, palette
from tmflow.charts.axes import Range, Ticks, value_range, wrap_name
from tmflow.charts.captions import NO_TITLES, OF_SPEED, STACKED, Titles
from tmflow.charts.figures import DRAWINGS, Figure
from tmflow.charts.layers import Chart
from tmflow.charts.layout import (
    CODES,
    NONE,
    Layout,
    LayoutPlan,
    default,
    dimensions,
    facet_of,
    is_numeric,
    label_values,
    limit_places,
    plan_layout,
)
from tmflow.charts.marks import CROWD, Along, along_factor, is_crowded, lines, title_of_axis
from tmflow.charts.series import Series
from tmflow.runfile.record import NO_TIME

# Kinds with a single number for each point, or shares of a whole; phases are neither.
_KINDS = [kind for kind in DRAWINGS if kind != "phases"]
MEASURES: dict[str, Callable[[Records], pd.DataFrame]] = {
    **{kind: DRAWINGS[kind].summarise for kind in _KINDS},
    "raw_causes": lambda of: with_elements(summaries.failures(of.runs, of.transactions, of.aborts, "raw_code"), of),
}
NAMES = {
    **{kind: captions.TITLES[kind] for kind in _KINDS},
    "failures": "Failed transactions, the study's classes",
    "causes": "Aborts by family",
    "raw_causes": "Aborts by raw status",
}
NAME, STEEP, LONG = 130, 200, 320  # px: width of a name below an axis: level, steep, and steep among many
ANGLE = -60  # degrees of names that have no room side by side
TWO_LINES = 8  # steep names whose second lines fit on a phone; more names have a single line


def is_stacked(summary: pd.DataFrame) -> bool:
    """Whether a summary is drawn as stacked bars, one colour for each cause."""
    return bool(summary["measure"].iloc[0] in STACKED)


def x_choices(summary: pd.DataFrame) -> tuple[str, ...]:
    """The columns that may be on the x axis, the default first."""
    return tuple(dict.fromkeys((default(summary).x, *dimensions(summary))))


def colour_choices(summary: pd.DataFrame) -> tuple[str, ...]:
    """The columns that may choose colours, the default first; none for bars, whose colours show causes."""
    return () if is_stacked(summary) else tuple(dict.fromkeys(("variant", *_group_columns(summary), NONE)))


def facet_choices(summary: pd.DataFrame, x: str, colour: str) -> tuple[str, ...]:
    """The columns that may choose panels, the default first; none for bars, which get a panel per combination."""
    if is_stacked(summary) or not summary["estimate"].notna().any():
        return ()
    return tuple(dict.fromkeys((facet_of(summary, Layout(x, colour)), NONE, *_group_columns(summary))))


def _group_columns(summary: pd.DataFrame) -> list[str]:
    return [name for name in dimensions(summary) if name not in ("iteration", "staleness")]


def missing_reasons(summary: pd.DataFrame) -> list[str]:
    """The reasons why a summary has nothing to draw; empty if there is something."""
    if summary.empty:
        return ["no run of it measured that"]
    return [] if summary["estimate"].notna().any() else sorted(set(summary["reason"].dropna()))


def figure(summary: pd.DataFrame, layout: Layout, revision: str, titles: Titles = NO_TITLES) -> Figure:
    """Draw a summary with this layout; the figure has its caption and the rows that are drawn or lack an estimate.

    Raises ValueError if nothing can be drawn (see `missing_reasons`), or no point has a place on the x axis.
    """
    measure, x, is_bars = summary["measure"].iloc[0], layout.x, is_stacked(summary)
    notes, on_axis = [], summary
    if is_numeric(summary, x) and x not in ("iteration", "staleness") and summary[x].isna().any():
        who = listed(ordered_variants(summary.loc[summary[x].isna(), "variant"]))
        notes.append(f"Not on this axis, because they have no {name_of(x)}: {who}.")
        on_axis = summary[summary[x].notna()]
    if on_axis["estimate"].isna().all():
        raise ValueError(f"no point has a {name_of(x)}")
    plan = plan_layout(on_axis, layout, is_bars)
    if not is_numeric(on_axis, x):
        plan = limit_places(plan, x)
    colours = palette.CAUSES
    if measure == "raw_causes":
        plan, colours = _colour_codes(plan)
    shown = value_range(plan.rows, None if is_bars else layout.log_y)  # stacked shares have no log scale
    placed, along = _along(plan.rows, layout)
    rows = placed.astype({"series": str, "part": str})
    parts = [(part, rows[rows["part"] == part]) for part in plan.parts]
    parts = [(label, panel) for label, panel in parts if panel["estimate"].notna().any()]
    over = f"against {name_of(x)}"
    columns = _tooltip(rows, plan.telling, layout)
    chart: Chart
    if is_bars:
        describe = f"Share of attempts that aborted {over}, stacked by cause"
        chart = measure_charts.stacked(parts, colours, describe, along, shown, columns)
    else:
        drawn = set(rows.loc[rows["estimate"].notna(), "series"])
        names = [name for name in plan.series if name in drawn]
        series = Series("series", names, _looks(rows, layout.colour, names))
        describe = f"{measure_charts.title_of(rows)} {over}, a colour for each {name_of(layout.colour)}"
        y, behind = measure_charts.values(rows, shown), measure_charts.references(rows, along, shown)
        chart = lines(parts, series, describe, along, y, shown, behind, columns)
        notes += captions.hidden_sentence(names, series.hidden)
    notes += [*plan.notes, *_notes(plan.rows, layout, along, shown)]
    drawn_rows = plan.rows.sort_values(["part", "series", x], kind="stable")
    drawn_rows = drawn_rows.loc[~drawn_rows.index.duplicated(), list(summary.columns)]
    caption = captions.caption(drawn_rows, revision, also=notes, titles=titles)
    return Figure(chart, caption, drawn_rows.reset_index(drop=True))


def _looks(rows: pd.DataFrame, colour: str, names: list[str]) -> list[palette.Look]:
    if colour in ("variant", "strategy"):
        return palette.looks(names)
    numbers = colour != NONE and pd.api.types.is_numeric_dtype(rows[colour])
    return palette.of_numbers(len(names)) if numbers else palette.of_categories(len(names))


def _tooltip(rows: pd.DataFrame, telling: Sequence[str], layout: Layout) -> list[str]:
    """The columns of a tooltip: the position of the point, and the columns that tell points of one colour apart."""
    names = [*dict.fromkeys((layout.x, layout.colour, layout.facet, *telling, "up_to"))]
    named = ["platform_name" if name == "platform" else name for name in names]
    return [name for name in named if name in rows and name not in ("variant", "part")]


def _along(rows: pd.DataFrame, layout: Layout) -> tuple[pd.DataFrame, Along]:
    """The rows with their positions on the x axis, and the axis."""
    x = layout.x
    if x == "iteration":
        return rows, measure_charts.steps(rows, bool(layout.log_x))
    if x == "staleness":
        placed = measure_charts.place_ranges(rows, ["line", "part"])
        return placed, measure_charts.ranges(placed)
    if is_numeric(rows, x):
        return rows, along_factor(x, rows, layout.log_x)
    labelled = label_values(rows, x)
    names = [name.removeprefix(f"{name_of(x)} ") for name in labelled.cat.categories]
    ticks = Ticks(range(len(names)), log=False)
    crowded = len(names) > 4 or max(map(len, names)) > 12
    room = (LONG if len(names) > TWO_LINES else STEEP) if crowded else NAME
    wrapped = [lines if len(lines := wrap_name(name, room)) > 1 else name for name in names]
    axis = alt.Axis(
        values=ticks.values,
        labelExpr=f"{json.dumps(wrapped)}[datum.value]",
        labelAngle=ANGLE if crowded else 0,
        labelLimit=room,
        labelOverlap=False,
        maxExtent=LONG,  # by default, the title covers what is longer than 200 px
        grid=False,
    )
    along = alt.X("x:Q", title=title_of_axis(x, rows), axis=axis, scale=ticks.scale())
    return rows.assign(place=labelled.cat.codes), Along("place", ticks, along, joined=False)


def _notes(rows: pd.DataFrame, layout: Layout, along: Along, shown: Range) -> Iterator[str]:
    """Notes on impossible log scales, on oversubscribed points that no shaded region marks, and on emulated times."""
    refused = {"x": layout.log_x and not along.ticks.log, "y": layout.log_y and not shown.log}
    if any(refused.values()):
        axes = listed([axis for axis, missed in refused.items() if missed])
        yield f"No log scale of {axes}: a log scale cannot show 0 or names."
    marked = layout.x == "threads" and rows.groupby("part", observed=True)["hardware_threads"].nunique().max() < 2
    points = rows[rows["estimate"].notna() & rows["oversubscribed"].fillna(False).astype(bool)]
    if len(points) and not marked:
        n = len(points.drop_duplicates([name for name in ("line", layout.x, "part") if name in points]))
        yield f"{several(n, 'point')} oversubscribed (more workers than hardware threads); see the table."
    if any(is_crowded(part) for _, part in rows.groupby("part", observed=True)):
        yield f"A part with more than {CROWD} lines is drawn without intervals; they are in the tooltips and the table."
    if rows["measure"].iloc[0] in OF_SPEED and (rows["evidence"] == "emulated").any():
        yield f"Emulated runs are not drawn: {NO_TIME}."


def _colour_codes(plan: LayoutPlan) -> tuple[LayoutPlan, dict[str, str]]:
    """Keep the most frequent raw statuses, as many as there are colours; return their colours too."""
    causes = plan.rows[plan.rows["cause"].notna() & (plan.rows["cause"] != summaries.ANY)]
    totals = causes.groupby("cause")["estimate"].sum().sort_values(ascending=False)
    codes, others = list(totals.index[:CODES]), list(totals.index[CODES:])
    if others:
        note = f"Showing the {CODES} most frequent of {len(totals)} raw statuses; the whiskers include the others."
        plan = plan._replace(rows=plan.rows[~plan.rows["cause"].isin(others)], notes=[*plan.notes, note])
    return plan, dict(zip(codes, (look.colour for look in palette.of_categories(len(codes))), strict=True))
