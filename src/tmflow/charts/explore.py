"""Charts of any measure over any factor, with colours and panels by any factor: the page "Explore".

A figure of an experiment is the special case of threads along x and one colour for each variant.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import altair as alt
import pandas as pd

from tmflow.analysis import summaries
from tmflow.analysis.experiment_records import Records
from tmflow.analysis.variants import name_of, ordered_variants
from tmflow.base.text import listed, several
from tmflow.charts import captions, measure_charts, palette, stacked_bars
from tmflow.charts.axes import Range, Ticks, value_range, wrap_name
from tmflow.charts.captions import OF_SPEED, STACKED
from tmflow.charts.figures import DRAWINGS, Figure
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
from tmflow.charts.marks import Along, Chart, Series, lines, numbers_axis
from tmflow.runfile.record import NO_TIME

MEASURES: dict[str, Callable[[Records], pd.DataFrame]] = {
    **{kind: drawing.summarise for kind, drawing in DRAWINGS.items()},
    "raw_causes": lambda of: summaries.failures(of.runs, of.transactions, of.aborts, "raw_code"),
}
NAMES = {
    **{kind: captions.TITLES["accuracy_curve" if kind == "curve" else kind] for kind in DRAWINGS},
    "failures": "Failed transactions, the study's classes",
    "causes": "Aborts by family",
    "raw_causes": "Aborts by raw status",
}
NAME = 130  # px: width of a name below an axis
AXES = {
    "threads": "Worker threads",
    "batch": "Images per step (batch)",
    "matrix": "Pixels per image (matrix)",
    "iterations": "Steps in all",
    "block": "Elements per block",
    "budget": "Attempts before the mutex is taken (budget)",
}


def is_stacked(summary: pd.DataFrame) -> bool:
    """Whether a summary is drawn as stacked bars, one colour for each cause."""
    return bool(summary["measure"].iloc[0] in STACKED)


def x_choices(summary: pd.DataFrame) -> tuple[str, ...]:
    """The columns that may stand along x, the default first."""
    return _first(default(summary).x, dimensions(summary))


def colour_choices(summary: pd.DataFrame) -> tuple[str, ...]:
    """The columns that may choose colours, the default first; none for bars, whose colours show causes."""
    return () if is_stacked(summary) else _first("variant", [*_group_columns(summary), NONE])


def facet_choices(summary: pd.DataFrame, x: str, colour: str) -> tuple[str, ...]:
    """The columns that may choose panels, the default first; none for bars, which get a panel per combination."""
    if is_stacked(summary) or not summary["estimate"].notna().any():
        return ()
    return _first(facet_of(summary, Layout(x, colour)), [NONE, *_group_columns(summary)])


def _group_columns(summary: pd.DataFrame) -> list[str]:
    return [name for name in dimensions(summary) if name not in ("iteration", "staleness")]


def _first(name: str, names: list[str]) -> tuple[str, ...]:
    return (name, *(other for other in names if other != name))


def missing_reasons(summary: pd.DataFrame) -> list[str]:
    """The reasons why a summary has nothing to draw; empty if it has."""
    if summary.empty:
        return ["no run of it measured that"]
    return [] if summary["estimate"].notna().any() else sorted(set(summary["reason"].dropna()))


def figure(summary: pd.DataFrame, layout: Layout, revision: str) -> Figure:
    """Draw a summary with this layout; the figure has its caption and the rows that are drawn or lack an estimate.

    Raises ValueError if nothing can be drawn (see `missing_reasons`), or no point has a place on the axis x.
    """
    is_bars = is_stacked(summary)
    on_axis, notes = _on_axis(summary, layout.x)
    if on_axis["estimate"].isna().all():
        raise ValueError(f"no point has a {name_of(layout.x)}")
    plan = plan_layout(on_axis, layout, is_bars)
    if not is_numeric(on_axis, layout.x):
        plan = limit_places(plan, layout.x)
    if is_bars and summary["measure"].iloc[0] == "raw_causes":
        plan = _limit_codes(plan)
    shown = value_range(plan.rows, None if is_bars else layout.log_y)  # stacked shares have no log scale
    placed, along = _along(plan.rows, layout)
    notes += [*plan.notes, *_linear(layout, along, shown)]
    notes += [*_oversubscribed(plan.rows, layout), *_without_time(plan.rows)]
    chart = (_bars if is_bars else _lines)(plan._replace(rows=placed), along, shown, layout)
    rows = plan.rows.sort_values(["part", "series", layout.x], kind="stable")
    rows = rows.loc[~rows.index.duplicated(), list(summary.columns)]
    return Figure(chart, captions.caption(rows, revision, also=notes), rows.reset_index(drop=True))


def _lines(plan: LayoutPlan, along: Along, shown: Range, layout: Layout) -> Chart:
    rows = plan.rows.astype({"series": str, "part": str})
    drawn = set(rows.loc[rows["estimate"].notna(), "series"])
    names = [name for name in plan.series if name in drawn]
    series = Series("series", names, _looks(rows, layout.colour, names))
    over_threads = along.column == "threads" and rows["measure"].iloc[0].startswith("speedup")
    of_speedup = [measure_charts.no_gain()] if rows["measure"].iloc[0].startswith("speedup") else []
    behind = [*of_speedup, *(measure_charts.ideal(along.ticks, shown) if over_threads else [])]
    describe = (
        f"{measure_charts.title_of(rows)} against {name_of(layout.x)}, a colour for each {name_of(layout.colour)}"
    )
    parts = [
        (part, panel)
        for part in plan.parts
        if (panel := rows[rows["part"] == part])["estimate"].notna().any()
    ]  # fmt: skip
    axis = measure_charts.values(rows, shown)
    return lines(parts, series, describe, along, axis, shown, behind, _tooltip(rows, plan.unshown, layout))


def _bars(plan: LayoutPlan, along: Along, shown: Range, layout: Layout) -> Chart:
    rows = plan.rows.astype({"part": str})
    colours = palette.CAUSES
    if rows["measure"].iloc[0] == "raw_causes":
        codes = _codes(rows)
        colours = dict(zip(codes, (look.colour for look in palette.of_categories(len(codes))), strict=True))
    describe = f"Share of attempts that aborted against {name_of(layout.x)}, stacked by cause"
    parts = [(part, rows[rows["part"] == part]) for part in plan.parts]
    return stacked_bars.stacked(
        [(label, panel) for label, panel in parts if panel["estimate"].notna().any()],
        colours,
        describe,
        along,
        shown,
        _tooltip(rows, [], layout),
    )


def _looks(rows: pd.DataFrame, colour: str, names: list[str]) -> list[palette.Look]:
    if colour in ("variant", "strategy"):
        return palette.looks(names)
    numbers = colour != NONE and pd.api.types.is_numeric_dtype(rows[colour])
    return palette.of_numbers(len(names)) if numbers else palette.of_categories(len(names))


def _tooltip(rows: pd.DataFrame, unshown: list[str], layout: Layout) -> list[str]:
    """The columns of a tooltip: position of the point, and where it differs from others."""
    layout_columns = (layout.x, layout.colour, layout.facet, *unshown, "platform_name", "oversubscribed")
    measure_columns = ("up_to", "target")
    return [
        name
        for name in dict.fromkeys((*layout_columns, *measure_columns))
        if name in rows and name not in ("variant", "part")
    ]


def _on_axis(summary: pd.DataFrame, x: str) -> tuple[pd.DataFrame, list[str]]:
    """The rows that have a value on a numeric axis, and a note on variants without one."""
    if not is_numeric(summary, x) or x in ("iteration", "staleness"):
        return summary, []
    without = summary[x].isna()
    if not without.any():
        return summary, []
    who = listed(ordered_variants(summary.loc[without, "variant"]))
    return summary[~without], [f"Not on this axis, because they have no {name_of(x)}: {who}."]


def _along(rows: pd.DataFrame, layout: Layout) -> tuple[pd.DataFrame, Along]:
    """The rows with their positions on the axis x, and the axis."""
    x = layout.x
    if x == "iteration":
        return rows, measure_charts.steps(rows, bool(layout.log_x))
    if x == "staleness":
        placed = measure_charts.place_ranges(rows)
        placed = placed.assign(line=measure_charts.number_lines(placed, ["line", "part"]))
        return placed, measure_charts.ranges(placed)
    if is_numeric(rows, x):
        ticks = Ticks(rows[x], layout.log_x)
        return rows, Along(x, ticks, numbers_axis(_title(x), ticks))
    labelled = label_values(rows, x)
    names = [name.removeprefix(f"{name_of(x)} ") for name in labelled.cat.categories]
    ticks = Ticks(range(len(names)), log=False)
    wrapped = [lines if len(lines := wrap_name(name, NAME)) > 1 else name for name in names]
    crowded = len(names) > 4 or max(map(len, names)) > 12
    axis = alt.Axis(
        values=ticks.values,
        labelExpr=f"{json.dumps(wrapped)}[datum.value]",
        labelAngle=-35 if crowded else 0,
        labelLimit=NAME,
        labelOverlap=False,
        grid=False,
    )
    along = alt.X("x:Q", title=_title(x), axis=axis, scale=ticks.scale())
    return rows.assign(place=labelled.cat.codes), Along("place", ticks, along, joined=False)


def _title(x: str) -> str:
    return AXES.get(x, name_of(x).capitalize())


def _linear(layout: Layout, along: Along, shown: Range) -> list[str]:
    """A note on requested log scales that are impossible."""
    refused = {"x": layout.log_x and not along.ticks.log, "y": layout.log_y and not shown.log}
    axes = [axis for axis, missed in refused.items() if missed]
    return [f"No log scale of {listed(axes)}: a log scale cannot show 0 or names."] if axes else []


def _oversubscribed(rows: pd.DataFrame, layout: Layout) -> list[str]:
    """A note on the number of oversubscribed points, if no shaded region marks them."""
    drawn = rows[rows["estimate"].notna()].drop_duplicates("line")
    marked = layout.x == "threads" and rows.groupby("part", observed=True)["hardware_threads"].nunique().max() < 2
    points = rows[rows["estimate"].notna() & rows["oversubscribed"].fillna(False).astype(bool)]
    if marked or drawn.empty or points.empty:
        return []
    n = len(points.drop_duplicates([name for name in ("line", layout.x, "part") if name in points]))
    return [f"{several(n, 'point')} oversubscribed (more workers than hardware threads); see the tooltip and table."]


def _without_time(rows: pd.DataFrame) -> list[str]:
    hides_time = rows["measure"].iloc[0] in OF_SPEED and (rows["evidence"] == "emulated").any()
    return [f"Emulated runs are not drawn: {NO_TIME}."] if hides_time else []


def _codes(rows: pd.DataFrame) -> list[str]:
    """Raw statuses, the most frequent first."""
    causes = rows[rows["cause"].notna() & (rows["cause"] != summaries.ANY)]
    return [str(code) for code in causes.groupby("cause")["estimate"].sum().sort_values(ascending=False).index]


def _limit_codes(plan: LayoutPlan) -> LayoutPlan:
    """Keep the most frequent raw statuses, as many as there are colours."""
    codes = _codes(plan.rows)
    if len(codes) <= CODES:
        return plan
    others = codes[CODES:]
    note = f"Showing the {CODES} most frequent of {len(codes)} raw statuses; the whiskers include the others."
    return plan._replace(rows=plan.rows[~plan.rows["cause"].isin(others)], notes=[*plan.notes, note])
