"""Layout of a chart: which columns of a summary choose the axes, the colours and the panels.

Points that differ in a column on no axis are never averaged: each combination gets a line. Charts are limited to what a
reader can distinguish; a note says what is left out and how to show it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import pandas as pd

from tmflow.analysis.run_table import POINT, VARIANT, WAYS, numbered
from tmflow.analysis.variants import OF_GRAIN, name_of, ordered_variants, variants
from tmflow.base.text import listed, percent, several
from tmflow.charts.series import DASHES
from tmflow.spec.strategies import PARAMETERS

NONE = "none"
# The most that a reader can distinguish. Panels: four rows of two, which fit on two screens. Colours: eight, each with
# two shapes. Categories along x: as many as have legible names. Lines: four of each colour. Raw statuses: one colour
# each. Platforms in a panel: one dash pattern each.
NAMED = 4  # the most omitted values that a note names
PARTS, COLOURS, PLACES, LINES, CODES, PLATFORMS = 8, 16, 24, 64, 8, len(DASHES)

X_OF_MEASURES = ("iteration", "staleness", "grain", "target")
ECHOES = {"platform_name", "hardware_threads", "time_domain", "experiment", "scale"}  # they repeat another column
IDENTITY = [name for name in (*POINT, *X_OF_MEASURES) if name not in ECHOES]
# The values of these are clear without the column's name.
TELLING = {
    "variant",
    "strategy",
    "platform",
    "evidence",
    "dataset",
    "model",
    "driver",
}
# Numeric columns in which 0 has a special meaning.
ZERO = {"chunk": "whole variable", "intra_op_threads": "default", "inter_op_threads": "default"}
# Default order of the columns to facet by: those that change every measure.
FACET_ORDER = ("platform", "measures", "model", "target", "threads", "driver", "batch", "matrix", "reading", "layout")
PLURALS = {"strategy": "strategies", "variant": "variants", "platform": "platforms", "threads": "numbers of workers"}


class Layout(NamedTuple):
    """The columns of the x axis, the colours and the panels; None lets the span of the values decide on a log scale."""

    x: str
    colour: str
    facet: str = NONE
    log_x: bool | None = None
    log_y: bool | None = None


class LayoutPlan(NamedTuple):
    """The rows of a summary with columns `series`, `part`, `line`, and `dash` if platforms share a panel.

    series, parts: their values in display order. unshown: columns on no axis in which points of one colour in a panel
    differ; telling: those of them that tell its lines apart. notes: sentences about these for the reader.
    """

    rows: pd.DataFrame
    series: list[str]
    parts: list[str]
    unshown: list[str]
    notes: list[str]
    telling: Sequence[str] = ()


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
    """The default layout: over the steps, the staleness or `varied_factor`, one colour for each variant."""
    along = next((name for name in ("iteration", "staleness", "grain") if name in summary), None)
    return Layout(along if along and _differs(summary, along) else varied_factor(summary), "variant")


def varied_factor(summary: pd.DataFrame) -> str:
    """The factor that a summary varies: the number with the most values where all else is equal; threads win a tie.

    It is a factor of every point, so that all have a place on its axis.
    """
    rows = summary[summary["estimate"].notna()] if summary["estimate"].notna().any() else summary
    differing = [name for name in _identity(rows) if _differs(rows, name)]
    n_values = {"threads": _most_values(rows, "threads", differing)}
    for name in dimensions(rows):
        if name not in (*X_OF_MEASURES, *PARAMETERS) and is_numeric(rows, name) and rows[name].notna().all():
            n_values.setdefault(name, _most_values(rows, name, differing))
    return max(n_values, key=n_values.__getitem__)


def _most_values(rows: pd.DataFrame, column: str, differing: Collection[str]) -> int:
    """The most values of a column among rows that agree in all other columns of `differing`."""
    others = [name for name in differing if name != column]
    values: int = rows[column].groupby(numbered(rows, others)).nunique().max()
    return values


def facet_of(summary: pd.DataFrame, layout: Layout) -> str:
    """The default column to facet by: one that changes every measure, or a parameter if variants are many."""
    drawn = summary[summary["estimate"].notna()]
    candidates = {*plan_layout(summary, layout).unshown} - {layout.x, layout.colour}
    if _differs(drawn, "measures"):  # their times are not comparable
        candidates |= {"measures"} - {layout.x, layout.colour}
    for name in FACET_ORDER:
        if name in candidates:
            return name
    many = layout.colour == "variant" and drawn["variant"].nunique() > MOST
    parameter = choose_facet(drawn) if many else None
    return parameter if parameter and parameter != layout.x else NONE


def plan_layout(summary: pd.DataFrame, layout: Layout, stacked: bool = False) -> LayoutPlan:
    """Plan a chart of a summary; stacked: bars of causes, with a panel for each combination."""
    shown = {layout.x, layout.colour, layout.facet}
    plan = LayoutPlan(summary.assign(variant=name_variants(summary, shown)), [], [], [], [])
    if stacked:
        plan = _limit(plan, "part", _label_combinations(plan.rows, layout.x), PARTS, "combinations")
        rows = plan.rows.assign(series="", line=0)
        return plan._replace(rows=rows, series=[""], parts=list(dict.fromkeys(rows["part"])))
    plan = _limit_to(plan, "part", layout.facet, PARTS)
    plan = _limit_to(plan, "series", layout.colour, COLOURS)
    if "platform" not in shown:
        plan = _limit_to(plan, "dash", "platform", PLATFORMS)
    of_variant = VARIANT if layout.x == "variant" else ()
    line = [name for name in _identity(plan.rows) if name != layout.x and name not in of_variant]
    rows, notes = plan.rows.assign(line=numbered(plan.rows, line)), list(plan.notes)
    if rows["line"].nunique() > LINES:
        notes.append(f"Showing {LINES} of {rows['line'].nunique()} lines. Choose others under Filters.")
        rows = rows[rows["line"] < LINES]
    drawn = rows[rows["estimate"].notna()]
    unshown = [name for name in _identity(drawn) if name not in shown and _differs(drawn, name)]
    if "variant" in shown:
        unshown = [name for name in unshown if name not in VARIANT]
    if unshown:
        counts = drawn.groupby(["part", "series"], observed=True)[unshown].nunique(dropna=False).max()
        unshown = [name for name in unshown if counts[name] > 1]
    columns = [name for name in unshown if name not in ("evidence", "platform")]
    if differing := _distinguishing_columns(drawn, columns, ["part", "series"]):
        notes.append(
            f"Lines of one colour also differ in {listed([_describe_column(rows, name) for name in differing])}. They "
            f"are not averaged: the chart has {several(drawn['line'].nunique(), 'line')} for "
            f"{several(drawn['series'].nunique(), 'name')} of the legend; the tooltip identifies each."
        )
    telling = _distinguishing_columns(drawn, unshown, ["part", "series"])
    return LayoutPlan(rows, _order(rows["series"]), _order(rows["part"]), unshown, notes, telling)


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


def limit_places(plan: LayoutPlan, column: str) -> LayoutPlan:
    """Limit the categories along x to as many as fit."""
    return _limit_to(plan, "at", column, PLACES)


def _limit_to(plan: LayoutPlan, into: str, column: str, most: int) -> LayoutPlan:
    """Label the values of a column in the column `into`, and keep the first `most` of them."""
    if column == NONE:
        return plan._replace(rows=plan.rows.assign(**{into: pd.Categorical([""] * len(plan.rows))}))
    plural = PLURALS.get(column, f"values of {name_of(column)}")
    return _limit(plan, into, label_values(plan.rows, column), most, plural, column)


def _limit(plan: LayoutPlan, into: str, labels: pd.Series, most: int, what: str, of: str = "") -> LayoutPlan:
    """Keep the first `most` labels that have something to draw; add a note if there are more."""
    rows = plan.rows.assign(**{into: labels})
    if into == "part" and of in PARAMETERS:  # rows without this parameter are in every panel, for comparison
        without, categories = rows[rows[of].isna()], labels.cat.categories
        parts = _order(labels[rows[of].notna()])
        copies = [
            without.assign(part=pd.Categorical([part] * len(without), categories, ordered=True)) for part in parts
        ]
        rows = pd.concat([rows[rows[of].notna()], *copies]) if parts else rows
    order = _order(rows.loc[rows["estimate"].notna(), into])
    if len(order) <= most:
        return plan._replace(rows=rows)
    left = order[most : most + NAMED]
    rest = len(order) - most - len(left)
    names = listed([*left, *([f"{rest} more"] if rest else [])])
    where = "at Platform" if of == "platform" else "under Filters"
    note = f"Showing {most} of {len(order)} {what}; left out: {names}. Choose others {where}."
    return plan._replace(rows=rows[rows[into].isin(order[:most])], notes=[*plan.notes, note])


def _order(labels: pd.Series) -> list[str]:
    """The labels that occur, in their order."""
    return list(labels.cat.remove_unused_categories().cat.categories)


def _identity(rows: pd.DataFrame) -> list[str]:
    shown_elsewhere = OF_GRAIN if "grain" in rows else ()
    return [name for name in IDENTITY if name in rows and name not in shown_elsewhere]


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
    """The columns that neither the given columns nor the columns before them determine."""
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
    text = str(value)[:8] if column.endswith("_sha256") else str(value)
    if column == "target":
        text = percent(value)
    elif isinstance(value, int | float):
        text = f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"
    if column in ZERO and value == 0:
        text = f"{text} ({ZERO[column]})"
    return text if column in TELLING else f"{name_of(column)} {text}"


def _describe_column(rows: pd.DataFrame, column: str) -> str:
    """Describe a column by its values if they are few, otherwise by their number."""
    short = [value.removeprefix(f"{name_of(column)} ") for value in _order(label_values(rows, column))]
    return f"{name_of(column)} ({listed(short) if len(short) <= 4 else several(len(short), 'value')})"


MOST = 8  # variants whose lines a reader can distinguish
OF_ONE_COLOUR = 4  # variants of one strategy, which share its colour


def split_facets(panel: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Split a panel into labelled facets; a legible panel stays one facet with an empty label.

    The split uses the one or two parameters in which most strategies have variants. A strategy without such a
    parameter appears in every facet, for comparison. Variants are named by what distinguishes them in their facet.
    """
    drawn = panel[panel["estimate"].notna()]
    by: list[str] = []
    if drawn["variant"].nunique() > MOST:
        while len(by) < 2 and not all(map(_legible, _split_rows(drawn, by).values())):
            if (more := choose_facet(drawn, by)) is None:
                break
            by.append(more)
    if not by:
        return [("", panel)]
    return [(label, part.assign(variant=variants(part))) for label, part in _split_rows(panel, by).items()]


def _legible(part: pd.DataFrame) -> bool:
    of_strategies = part.groupby("strategy")["variant"].nunique()
    return bool(of_strategies.sum() <= MOST and of_strategies.max() <= OF_ONE_COLOUR)


def choose_facet(drawn: pd.DataFrame, by: Sequence[str] = ()) -> str | None:
    """Choose the parameter to facet by, in addition to those in `by`; None if there is none.

    It is the one in which most strategies differ; ties go to the one with the fewest values. Each facet must have at
    least two variants with the parameter.
    """
    differing = drawn.groupby("strategy")[[*PARAMETERS]].nunique().gt(1).sum()
    useful = [
        name
        for name in PARAMETERS
        if differing[name]
        and name not in by
        and all(
            part.loc[part[name].notna(), "variant"].nunique() > 1 for part in _split_rows(drawn, [*by, name]).values()
        )
    ]
    return min(useful, key=lambda name: (-differing[name], drawn[name].nunique()), default=None)


def _split_rows(rows: pd.DataFrame, by: Sequence[str]) -> dict[str, pd.DataFrame]:
    """The rows of each combination of values, by label; rows without a parameter are in all of them."""
    parts = {"": rows}
    for name in by:
        parts = {
            f"{label}, {name} {value}".removeprefix(", "): part[part[name].isna() | (part[name] == value).fillna(False)]
            for label, part in parts.items()
            for value in sorted(rows[name].dropna().unique())
        }
    return parts
