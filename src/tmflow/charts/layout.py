"""Layout of a chart: which columns of a summary choose the axes, the colours and the panels.

Points that differ in a column on no axis are never averaged: each combination gets a line. Charts are limited to what a
reader can distinguish; a note says what is left out and how to show it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import pandas as pd

from tmflow.analysis.run_table import POINT, VARIANT, WAYS, numbered
from tmflow.analysis.variants import name_of, ordered_variants, variants
from tmflow.base.text import listed, several
from tmflow.charts.facets import MOST, choose_facet
from tmflow.charts.marks import DASHES
from tmflow.spec.strategies import PARAMETERS

NONE = "none"
# The most that a reader can distinguish. Panels: four rows of two, which fit on two screens. Colours: eight, each with
# two shapes. Categories along x: as many as have legible names. Lines: four of each colour. Raw statuses: one colour
# each. Platforms in a panel: one dash pattern each.
NAMED = 4  # of the values left out, so many are named
PARTS, COLOURS, PLACES, LINES, CODES, PLATFORMS = 8, 16, 24, 64, 8, len(DASHES)

X_OF_MEASURES = ("iteration", "staleness", "target")
IDENTITY = (*POINT, *X_OF_MEASURES)
ECHOES = {"platform_name", "hardware_threads", "time_domain", "experiment", "scale"}  # they repeat another column
TELLING = {
    "variant",
    "strategy",
    "platform",
    "evidence",
    "dataset",
    "model",
    "driver",
}  # their values are clear without the column's name
# Numbers whose 0 has a special meaning.
ZERO = {"chunk": "whole variable", "intra_op_threads": "default", "inter_op_threads": "default"}
# Default order of the columns to facet by: those that change every measure.
FACET_ORDER = ("platform", "measures", "model", "target", "threads", "driver", "batch", "matrix", "reading", "layout")


class Layout(NamedTuple):
    """The columns of the x axis, the colours and the panels; a log scale of None follows the span of the values."""

    x: str
    colour: str
    facet: str = NONE
    log_x: bool | None = None
    log_y: bool | None = None


class LayoutPlan(NamedTuple):
    """The rows of a summary with columns `series`, `part`, `line`, and `dash` if platforms share a panel.

    series, parts: their values in display order. unshown: columns on no axis in which points of one colour in a panel
    differ. notes: sentences for the reader about all this.
    """

    rows: pd.DataFrame
    series: list[str]
    parts: list[str]
    unshown: list[str]
    notes: list[str]


def name_variants(summary: pd.DataFrame, shown: Collection[str] = ()) -> pd.Series:
    """Name variants by their parameters, except those shown elsewhere; how they ran is an ordinary factor."""
    without_shown = {name: None for name in PARAMETERS if name in shown}
    return variants(summary.assign(**without_shown, **WAYS))


def dimensions(summary: pd.DataFrame) -> list[str]:
    """The columns that may be on an axis: those in which the points differ, and always threads and variants."""
    parameters = [name for name in PARAMETERS if summary[name].nunique() > 1]
    others = [name for name in _identity(summary) if name not in (*VARIANT, "threads") and _differs(summary, name)]
    strategies = summary["strategy"].nunique()
    strategy = ["strategy"] if 1 < strategies < summary["variant"].nunique() else []
    return ["threads", "variant", *strategy, *sorted(others, key=_place), *parameters]


def default(summary: pd.DataFrame) -> Layout:
    """The default layout: over threads (or the x column of the measure), one colour for each variant."""
    along = next((name for name in ("iteration", "staleness") if name in summary), "threads")
    numbers = [name for name in dimensions(summary) if is_numeric(summary, name) and _differs(summary, name)]
    x = along if along in numbers or not numbers else numbers[0]
    return Layout(x, "variant")


def facet_of(summary: pd.DataFrame, layout: Layout) -> str:
    """The default column to facet by: one that changes every measure, or a parameter if variants are many."""
    plan = plan_layout(summary, layout)
    drawn = summary[summary["estimate"].notna()]
    many = layout.colour == "variant" and drawn["variant"].nunique() > MOST and choose_facet(drawn)
    parameter = many if many and many != layout.x else NONE
    taken = {layout.x, layout.colour}
    candidates = [
        *plan.unshown,
        *(["measures"] if _differs(drawn, "measures") else []),
    ]  # their times are not comparable
    return next((name for name in FACET_ORDER if name in candidates and name not in taken), parameter)


def plan_layout(summary: pd.DataFrame, layout: Layout, stacked: bool = False) -> LayoutPlan:
    """Plan a chart of a summary; stacked: bars of causes, with a panel for each combination."""
    notes: list[str] = []
    shown = {layout.x, layout.colour, layout.facet}
    rows = summary.assign(variant=name_variants(summary, shown))
    if stacked:
        rows = _limit(rows.assign(part=_label_combinations(rows, layout.x)), "part", PARTS, "combinations", notes)
        rows = rows.assign(series="", line=0)
        return LayoutPlan(rows, [""], list(dict.fromkeys(rows["part"])), [], notes)
    for column, into, most in ((layout.facet, "part", PARTS), (layout.colour, "series", COLOURS)):
        rows = rows.assign(**{into: label_values(rows, column) if column != NONE else ""})
        rows = _copy_to_every_part(rows, column) if into == "part" and column in PARAMETERS else rows
        rows = _limit(rows, into, most, plural(column), notes, column)
    line_columns = [
        name for name in _identity(rows) if name != layout.x and not (layout.x == "variant" and name in VARIANT)
    ]
    if "platform" not in shown:
        rows = _limit(
            rows.assign(dash=label_values(rows, "platform")), "dash", PLATFORMS, "platforms", notes, "platform"
        )
    rows = rows.assign(line=numbered(rows, line_columns))
    if rows["line"].nunique() > LINES:
        notes.append(f"Showing {LINES} of {rows['line'].nunique()} lines. Choose others under Filters.")
        rows = rows[rows["line"] < LINES]
    unshown = _unshown(rows, shown)
    drawn = rows[rows["estimate"].notna()]
    differing = _distinguishing_columns(
        drawn, [name for name in unshown if name not in ("evidence", "platform")], ["part", "series"]
    )
    if differing:
        colours = drawn[["part", "series"]].drop_duplicates()
        columns = listed([_describe_column(rows, name) for name in differing])
        notes.append(
            f"Lines of one colour also differ in {columns}. They are "
            f"not averaged: the chart has {several(drawn['line'].nunique(), 'line')} in {len(colours)} colours; the "
            "tooltip identifies each."
        )
    return LayoutPlan(rows, _order(rows, "series"), _order(rows, "part"), unshown, notes)


def is_numeric(summary: pd.DataFrame, column: str) -> bool:
    """Whether a column is numeric, so that lines may join its values."""
    if column == "staleness":
        return True
    numeric = column in summary and pd.api.types.is_numeric_dtype(summary[column])
    return numeric and not (column in ZERO and bool((summary[column] == 0).any()))


def label_values(rows: pd.DataFrame, column: str) -> pd.Series:
    """Label each row's value of a column, as an ordered category: numbers by value, variants in their usual order."""
    values = rows[column].drop_duplicates()
    words = _platforms(rows) if column == "platform" else {value: _label(column, value) for value in values.dropna()}
    key = {word: place for place, word in enumerate(ordered_variants(words.values()))}
    if pd.api.types.is_numeric_dtype(rows[column]):
        key = {words[value]: place for place, value in enumerate(sorted(words))}
    order = [*dict.fromkeys(sorted(words.values(), key=key.__getitem__))]
    missing = f"no {name_of(column)}"
    order += [missing] if values.isna().any() else []
    worded = rows[column].map(words, na_action="ignore").astype(object).fillna(missing)
    return pd.Series(pd.Categorical(worded, order, ordered=True), index=rows.index)


def plural(column: str) -> str:
    """The plural noun for the values of a column."""
    names = {"strategy": "strategies", "variant": "variants", "platform": "platforms", "threads": "numbers of workers"}
    return names.get(column, f"values of {name_of(column)}")


def how_to_choose(column: str | None) -> str:
    """Say where on the page to choose other values."""
    return "Choose others at Platform." if column == "platform" else "Choose others under Filters."


def limit_places(plan: LayoutPlan, column: str) -> LayoutPlan:
    """Limit the categories along x to as many as fit."""
    notes = list(plan.notes)
    rows = _limit(plan.rows.assign(at=label_values(plan.rows, column)), "at", PLACES, plural(column), notes, column)
    return plan._replace(rows=rows, notes=notes)


def _copy_to_every_part(rows: pd.DataFrame, parameter: str) -> pd.DataFrame:
    """Copy rows without this parameter to every panel, for comparison."""
    without = rows[parameter].isna()
    parts = _order(rows[~without], "part")
    order = rows["part"].cat.categories
    copies = [rows[without].assign(part=pd.Categorical([part] * without.sum(), order, ordered=True)) for part in parts]
    return pd.concat([rows[~without], *copies]) if parts else rows


def _limit(
    rows: pd.DataFrame, column: str, most: int, what: str, notes: list[str], of: str | None = None
) -> pd.DataFrame:
    """Keep the first `most` values of a column that have something to draw; add a note if there are more."""
    drawn = set(rows.loc[rows["estimate"].notna(), column])
    order = [value for value in _order(rows, column) if value in drawn]
    if len(order) <= most:
        return rows
    left = order[most : most + NAMED]
    rest = len(order) - most - len(left)
    name_variants = listed([*left, *([f"{rest} more"] if rest else [])])
    notes.append(f"Showing {most} of {len(order)} {what}; left out: {name_variants}. {how_to_choose(of)}")
    return rows[rows[column].isin(order[:most])]


def _order(rows: pd.DataFrame, column: str) -> list[str]:
    values = rows[column]
    if isinstance(values.dtype, pd.CategoricalDtype):
        present = set(values)
        return [value for value in values.cat.categories if value in present]
    return list(dict.fromkeys(values))


def _unshown(rows: pd.DataFrame, shown: set[str]) -> list[str]:
    """The columns on no axis in which points of one colour in a panel differ."""
    drawn = rows[rows["estimate"].notna()]
    columns = [name for name in _identity(drawn) if name not in shown and not (name in VARIANT and "variant" in shown)]
    columns = [name for name in columns if _differs(drawn, name)]
    if not columns:
        return []
    counts = drawn.groupby(["part", "series"], observed=True)[columns].nunique(dropna=False).max()
    return [name for name in columns if counts[name] > 1]


def _identity(rows: pd.DataFrame) -> list[str]:
    return [name for name in IDENTITY if name in rows and name not in ECHOES]


def _differs(summary: pd.DataFrame, column: str) -> bool:
    return bool(summary[column].nunique(dropna=False) > 1) if column in summary else False


def _place(column: str) -> tuple[int, str]:
    """The sort key of a column in a list of choices."""
    first = (*X_OF_MEASURES, *FACET_ORDER)
    return (first.index(column) if column in first else len(first), column)


def _label_combinations(rows: pd.DataFrame, x: str) -> pd.Series:
    """Label each row's combination: its variant and every other differing column except x."""
    differing = [name for name in _identity(rows) if name != x and name not in VARIANT and _differs(rows, name)]
    names = _distinguishing_columns(rows, sorted(differing, key=_place), ["variant"])
    words = pd.DataFrame({name: label_values(rows, name) for name in ("variant", *names)})
    combinations = words.astype(object).agg(", ".join, axis="columns")
    order = combinations[words.sort_values([*words], kind="stable").index]
    return pd.Series(pd.Categorical(combinations, [*dict.fromkeys(order)], ordered=True), index=rows.index)


def _distinguishing_columns(rows: pd.DataFrame, columns: list[str], given: list[str]) -> list[str]:
    """The columns that are not determined by the given ones and the columns before them."""
    chosen: list[str] = []
    for name in columns:
        groups = rows.groupby([*given, *chosen], dropna=False, observed=True)[name]
        chosen += [name] if groups.nunique(dropna=False).gt(1).any() else []
    return chosen


def _platforms(rows: pd.DataFrame) -> dict[Any, str]:
    """The names of platforms by slug; platforms that share a name include their slug."""
    distinct = rows.drop_duplicates("platform")[["platform", "platform_name"]]
    shares_name = distinct["platform_name"].duplicated(keep=False)
    platforms = zip(distinct["platform"], distinct["platform_name"], shares_name, strict=True)
    return {slug: f"{name} ({slug})" if shared else str(name) for slug, name, shared in platforms}


def _label(column: str, value: Any) -> str:
    text = f"{value:.0%}" if column == "target" else number(value) if isinstance(value, int | float) else str(value)
    if column in ZERO and value == 0:
        text = f"{text} ({ZERO[column]})"
    if column.endswith("_sha256"):
        text = text[:8]
    return text if column in TELLING else f"{name_of(column)} {text}"


def number(value: float) -> str:
    """Format a number with at most 6 significant digits."""
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"


def _describe_column(rows: pd.DataFrame, column: str) -> str:
    """Describe a column by its values if they are few, otherwise by their number."""
    values = _order(rows.assign(value_label=label_values(rows, column)), "value_label")
    short = [value.removeprefix(f"{name_of(column)} ") for value in values]
    return f"{name_of(column)} ({listed(short) if len(short) <= 4 else several(len(short), 'value')})"
