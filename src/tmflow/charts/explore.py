"""Any measure over any factor, coloured by any and in parts by any: what the page "Explore" draws.

The figure of an experiment is the case of threads along x and a colour for each variant.
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
from tmflow.charts.axes import Range, Ticks, in_lines, value_range
from tmflow.charts.captions import OF_SPEED, STACKED
from tmflow.charts.figures import DRAWINGS, Figure
from tmflow.charts.layout import (
    CODES,
    NONE,
    Laid,
    Layout,
    default,
    dimensions,
    facet_of,
    is_numeric,
    labels,
    laid,
    limited_places,
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
    "causes": "Aborts by family of their cause",
    "raw_causes": "Aborts by raw status",
}
NAME = 130  # px of a name below an axis
AXES = {
    "threads": "Worker threads",
    "batch": "Images per step (batch)",
    "matrix": "Pixels of each image (matrix)",
    "iterations": "Steps in all",
    "block": "Elements per block",
    "budget": "Attempts before the mutex is taken (budget)",
}


def is_stacked(summary: pd.DataFrame) -> bool:
    """Whether it is drawn as bars of causes, whose colours are the causes'."""
    return bool(summary["measure"].iloc[0] in STACKED)


def along_x(summary: pd.DataFrame) -> tuple[str, ...]:
    """What a summary may be drawn along, the default first."""
    return _first(default(summary).x, dimensions(summary))


def coloured(summary: pd.DataFrame) -> tuple[str, ...]:
    """What may have colours, the default first; bars of causes have theirs."""
    return () if is_stacked(summary) else _first("variant", [*_apart(summary), NONE])


def in_parts_by(summary: pd.DataFrame, x: str, colour: str) -> tuple[str, ...]:
    """What may be in parts, the default of that layout first; each combination of what else differs, for bars."""
    if is_stacked(summary) or not summary["estimate"].notna().any():
        return ()
    return _first(facet_of(summary, Layout(x, colour)), [NONE, *_apart(summary)])


def _apart(summary: pd.DataFrame) -> list[str]:
    return [name for name in dimensions(summary) if name not in ("iteration", "staleness")]


def _first(name: str, names: list[str]) -> tuple[str, ...]:
    return (name, *(other for other in names if other != name))


def nothing(summary: pd.DataFrame) -> list[str]:
    """Why there is nothing to draw of a summary; empty if there is something."""
    if summary.empty:
        return ["no run of it measured that"]
    return [] if summary["estimate"].notna().any() else sorted(set(summary["reason"].dropna()))


def figure(summary: pd.DataFrame, layout: Layout, revision: str) -> Figure:
    """A summary drawn as the layout has it, with its caption and the rows that are drawn, or that miss an estimate.

    Raises ValueError where nothing can be drawn (see `nothing`), or nothing stands on the axis x.
    """
    stacked = is_stacked(summary)
    on_axis, said = _on_axis(summary, layout.x)
    if on_axis["estimate"].isna().all():
        raise ValueError(f"no point has a {name_of(layout.x)}")
    whole = laid(on_axis, layout, stacked)
    if not is_numeric(on_axis, layout.x):
        whole = limited_places(whole, layout.x)
    if stacked and summary["measure"].iloc[0] == "raw_causes":
        whole = _of_codes(whole)
    shown = value_range(whole.rows, None if stacked else layout.log_y)  # parts of a whole have no log scale
    placed, along = _along(whole.rows, layout)
    said += [*whole.said, *_linear(layout, along, shown)]
    said += [*_oversubscribed(whole.rows, layout), *_without_time(whole.rows)]
    chart = (_bars if stacked else _lines)(whole._replace(rows=placed), along, shown, layout)
    rows = whole.rows.sort_values(["part", "series", layout.x], kind="stable")
    rows = rows.loc[~rows.index.duplicated(), list(summary.columns)]
    return Figure(chart, captions.caption(rows, revision, also=said), rows.reset_index(drop=True))


def _lines(whole: Laid, along: Along, shown: Range, layout: Layout) -> Chart:
    rows = whole.rows.astype({"series": str, "part": str})
    drawn = set(rows.loc[rows["estimate"].notna(), "series"])
    names = [name for name in whole.series if name in drawn]
    series = Series("series", names, _looks(rows, layout.colour, names))
    over_threads = along.column == "threads" and rows["measure"].iloc[0].startswith("speedup")
    of_speedup = [measure_charts.no_gain()] if rows["measure"].iloc[0].startswith("speedup") else []
    behind = [*of_speedup, *(measure_charts.ideal(along.ticks, shown) if over_threads else [])]
    describe = (
        f"{measure_charts.title_of(rows)} against {name_of(layout.x)}, a colour for each {name_of(layout.colour)}"
    )
    parts = [
        (part, its)
        for part in whole.parts
        if (its := rows[rows["part"] == part])["estimate"].notna().any()
    ]  # fmt: skip
    axis = measure_charts.values(rows, shown)
    return lines(parts, series, describe, along, axis, shown, behind, _tooltip(rows, whole.unshown, layout))


def _bars(whole: Laid, along: Along, shown: Range, layout: Layout) -> Chart:
    rows = whole.rows.astype({"part": str})
    colours = palette.CAUSES
    if rows["measure"].iloc[0] == "raw_causes":
        codes = _codes(rows)
        colours = dict(zip(codes, (look.colour for look in palette.of_categories(len(codes))), strict=True))
    describe = f"Share of attempts that aborted against {name_of(layout.x)}, stacked by cause"
    parts = [(part, rows[rows["part"] == part]) for part in whole.parts]
    return stacked_bars.stacked(
        [(label, its) for label, its in parts if its["estimate"].notna().any()],
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
    """Where a point stands, and in what it differs from others."""
    asked = (layout.x, layout.colour, layout.facet, *unshown, "platform_name", "oversubscribed")
    own = ("up_to", "target")
    return [name for name in dict.fromkeys((*asked, *own)) if name in rows and name not in ("variant", "part")]


def _on_axis(summary: pd.DataFrame, x: str) -> tuple[pd.DataFrame, list[str]]:
    """The rows that have a place on an axis of numbers, and who has none."""
    if not is_numeric(summary, x) or x in ("iteration", "staleness"):
        return summary, []
    without = summary[x].isna()
    if not without.any():
        return summary, []
    who = listed(ordered_variants(summary.loc[without, "variant"]))
    return summary[~without], [f"Not on this axis, as without {name_of(x)}: {who}."]


def _along(rows: pd.DataFrame, layout: Layout) -> tuple[pd.DataFrame, Along]:
    """The rows with their places on the axis x, and the axis."""
    x = layout.x
    if x == "iteration":
        return rows, measure_charts.steps(rows, bool(layout.log_x))
    if x == "staleness":
        placed = measure_charts.in_ranges(rows)
        placed = placed.assign(line=measure_charts.unbroken(placed, ["line", "part"]))
        return placed, measure_charts.ranges(placed)
    if is_numeric(rows, x):
        ticks = Ticks(rows[x], layout.log_x)
        return rows, Along(x, ticks, numbers_axis(_title(x), ticks))
    told = labels(rows, x)
    names = [name.removeprefix(f"{name_of(x)} ") for name in told.cat.categories]
    ticks = Ticks(range(len(names)), log=False)
    told_in_lines = [lines if len(lines := in_lines(name, NAME)) > 1 else name for name in names]
    crowded = len(names) > 4 or max(map(len, names)) > 12
    axis = alt.Axis(
        values=ticks.values,
        labelExpr=f"{json.dumps(told_in_lines)}[datum.value]",
        labelAngle=-35 if crowded else 0,
        labelLimit=NAME,
        labelOverlap=False,
        grid=False,
    )
    along = alt.X("x:Q", title=_title(x), axis=axis, scale=ticks.scale())
    return rows.assign(place=told.cat.codes), Along("place", ticks, along, joined=False)


def _title(x: str) -> str:
    return AXES.get(x, name_of(x).capitalize())


def _linear(layout: Layout, along: Along, shown: Range) -> list[str]:
    """Which of the log scales that were asked for there cannot be."""
    asked = {"x": layout.log_x and not along.ticks.log, "y": layout.log_y and not shown.log}
    axes = [axis for axis, missed in asked.items() if missed]
    return [f"No log scale of {listed(axes)}: it has no place for 0, nor for names."] if axes else []


def _oversubscribed(rows: pd.DataFrame, layout: Layout) -> list[str]:
    """Where no region marks them, how many points have more workers than hardware threads."""
    drawn = rows[rows["estimate"].notna()].drop_duplicates("line")
    marked = layout.x == "threads" and rows.groupby("part", observed=True)["hardware_threads"].nunique().max() < 2
    points = rows[rows["estimate"].notna() & rows["oversubscribed"].fillna(False).astype(bool)]
    if marked or drawn.empty or points.empty:
        return []
    n = len(points.drop_duplicates([name for name in ("line", layout.x, "part") if name in points]))
    return [f"{several(n, 'point')} oversubscribed (more workers than hardware threads): the tooltip and table say."]


def _without_time(rows: pd.DataFrame) -> list[str]:
    asked = rows["measure"].iloc[0] in OF_SPEED and (rows["evidence"] == "emulated").any()
    return [f"Of what is emulated nothing is drawn: {NO_TIME}."] if asked else []


def _codes(rows: pd.DataFrame) -> list[str]:
    """Raw statuses, the most frequent first."""
    own = rows[rows["cause"].notna() & (rows["cause"] != summaries.ANY)]
    return [str(code) for code in own.groupby("cause")["estimate"].sum().sort_values(ascending=False).index]


def _of_codes(whole: Laid) -> Laid:
    """As many raw statuses as have a colour each."""
    codes = _codes(whole.rows)
    if len(codes) <= CODES:
        return whole
    others = codes[CODES:]
    said = f"Showing the {CODES} most frequent of {len(codes)} raw statuses; what a whisker is above them is the rest."
    return whole._replace(rows=whole.rows[~whole.rows["cause"].isin(others)], said=[*whole.said, said])
