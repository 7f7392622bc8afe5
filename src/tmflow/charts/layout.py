"""Which of a summary's columns stand on the axes, in the colours and in the parts of a chart, and what that leaves out.

Points that differ in a column that is on no axis are never averaged: each combination is a line of its own. More than a
reader can tell apart is not drawn; a sentence says what is, and how to see the rest.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import pandas as pd

from tmflow.analysis.run_table import POINT, VARIANT, WAYS, numbered
from tmflow.analysis.variants import name_of, ordered_variants, variants
from tmflow.base.text import listed, several
from tmflow.charts.facets import MOST, parameter_to_part_by
from tmflow.charts.marks import DASHES
from tmflow.spec.strategies import PARAMETERS

NONE = "none"
# The most that a reader can tell apart. Parts: four rows of two, which two screens hold. Colours: eight, each with two
# shapes. Places without order: as many as have legible names side by side. Lines: four of each colour. Codes: a colour
# each. Platforms that share a part: as many as there are dashes.
NAMED = 4  # of what is left out, by name
PARTS, COLOURS, PLACES, LINES, CODES, PLATFORMS = 8, 16, 24, 64, 8, len(DASHES)

ALONG = ("iteration", "staleness", "target")
IDENTITY = (*POINT, *ALONG)
ECHOES = {"platform_name", "hardware_threads", "time_domain", "experiment", "scale"}  # of what another column tells
TELLING = {"variant", "strategy", "platform", "evidence", "dataset", "model", "driver"}  # values that need no name
# Numbers of which 0 is none: what it stands for.
ZERO = {"chunk": "whole variable", "intra_op_threads": "default", "inter_op_threads": "default"}
# What is drawn in parts first, where nothing else is asked for, as it changes all that is measured.
APART = ("platform", "measures", "model", "target", "threads", "driver", "batch", "matrix", "reading", "layout")


class Layout(NamedTuple):
    """What stands along x, in colours and in parts; None of a log scale is to choose by what the values span."""

    x: str
    colour: str
    facet: str = NONE
    log_x: bool | None = None
    log_y: bool | None = None


class Laid(NamedTuple):
    """Rows of a summary laid out: with the columns `series`, `part`, `line`, and `dash` where platforms share a part.

    Each of `series` and `parts` is in the order in which they are shown; `unshown` are the columns, on no axis, in
    which points of one colour of a part differ; `said` is what a reader must know of all this.
    """

    rows: pd.DataFrame
    series: list[str]
    parts: list[str]
    unshown: list[str]
    said: list[str]


def named(summary: pd.DataFrame, shown: Collection[str] = ()) -> pd.Series:
    """Variants by their parameters, but for those that are shown elsewhere; how they ran is a factor like others."""
    told = {name: None for name in PARAMETERS if name in shown}
    return variants(summary.assign(**told, **WAYS))


def dimensions(summary: pd.DataFrame) -> list[str]:
    """The columns that may be on an axis: those in which the points differ, and threads and variants in any case."""
    parameters = [name for name in PARAMETERS if summary[name].nunique() > 1]
    others = [name for name in _identity(summary) if name not in (*VARIANT, "threads") and _differs(summary, name)]
    strategies = summary["strategy"].nunique()
    strategy = ["strategy"] if 1 < strategies < summary["variant"].nunique() else []
    return ["threads", "variant", *strategy, *sorted(others, key=_place), *parameters]


def default(summary: pd.DataFrame) -> Layout:
    """Over threads (or along what the measure is along), a colour for each variant."""
    along = next((name for name in ("iteration", "staleness") if name in summary), "threads")
    numbers = [name for name in dimensions(summary) if is_numeric(summary, name) and _differs(summary, name)]
    x = along if along in numbers or not numbers else numbers[0]
    return Layout(x, "variant")


def facet_of(summary: pd.DataFrame, layout: Layout) -> str:
    """What to draw in parts by where nothing is asked for: what else changes all that is measured, or many variants."""
    whole = laid(summary, layout)
    drawn = summary[summary["estimate"].notna()]
    many = layout.colour == "variant" and drawn["variant"].nunique() > MOST and parameter_to_part_by(drawn)
    parameter = many if many and many != layout.x else NONE
    told = {layout.x, layout.colour}
    apart = [*whole.unshown, *(["measures"] if _differs(drawn, "measures") else [])]  # no times of both compare
    return next((name for name in APART if name in apart and name not in told), parameter)


def laid(summary: pd.DataFrame, layout: Layout, stacked: bool = False) -> Laid:
    """The rows of a summary as the layout has them; stacked: bars of causes, each combination in a part of its own."""
    said: list[str] = []
    shown = {layout.x, layout.colour, layout.facet}
    rows = summary.assign(variant=named(summary, shown))
    if stacked:
        rows = _limited(rows.assign(part=_labels_of_all(rows, layout.x)), "part", PARTS, "combinations", said)
        rows = rows.assign(series="", line=0)
        return Laid(rows, [""], list(dict.fromkeys(rows["part"])), [], said)
    for column, into, most in ((layout.facet, "part", PARTS), (layout.colour, "series", COLOURS)):
        rows = rows.assign(**{into: labels(rows, column) if column != NONE else ""})
        rows = _in_every_part(rows, column) if into == "part" and column in PARAMETERS else rows
        rows = _limited(rows, into, most, plural(column), said, column)
    apart = [name for name in _identity(rows) if name != layout.x and not (layout.x == "variant" and name in VARIANT)]
    if "platform" not in shown:
        rows = _limited(rows.assign(dash=labels(rows, "platform")), "dash", PLATFORMS, "platforms", said, "platform")
    rows = rows.assign(line=numbered(rows, apart))
    if rows["line"].nunique() > LINES:
        said.append(f"Showing {LINES} of {rows['line'].nunique()} lines. Choose others under Filters.")
        rows = rows[rows["line"] < LINES]
    unshown = _unshown(rows, shown)
    drawn = rows[rows["estimate"].notna()]
    told = _telling(drawn, [name for name in unshown if name not in ("evidence", "platform")], ["part", "series"])
    if told:
        colours = drawn[["part", "series"]].drop_duplicates()
        said.append(
            f"What is drawn in one colour differs also in {listed([_told(rows, name) for name in told])}. Nothing is "
            f"averaged over that: these are {several(drawn['line'].nunique(), 'line')}, not {len(colours)}, and the "
            "tooltip says which is which."
        )
    return Laid(rows, _order(rows, "series"), _order(rows, "part"), unshown, said)


def is_numeric(summary: pd.DataFrame, column: str) -> bool:
    """Whether a column is a number, so that lines may join its values."""
    if column == "staleness":
        return True
    numeric = column in summary and pd.api.types.is_numeric_dtype(summary[column])
    return numeric and not (column in ZERO and bool((summary[column] == 0).any()))


def labels(rows: pd.DataFrame, column: str) -> pd.Series:
    """Each row's value of a column in words, as an ordered category: numbers by value, variants as everywhere."""
    values = rows[column].drop_duplicates()
    words = _platforms(rows) if column == "platform" else {its: _label(column, its) for its in values.dropna()}
    key = {word: place for place, word in enumerate(ordered_variants(words.values()))}
    if pd.api.types.is_numeric_dtype(rows[column]):
        key = {words[value]: place for place, value in enumerate(sorted(words))}
    order = [*dict.fromkeys(sorted(words.values(), key=key.__getitem__))]
    missing = f"no {name_of(column)}"
    order += [missing] if values.isna().any() else []
    told = rows[column].map(words, na_action="ignore").astype(object).fillna(missing)
    return pd.Series(pd.Categorical(told, order, ordered=True), index=rows.index)


def plural(column: str) -> str:
    """What several values of a column are called."""
    known = {"strategy": "strategies", "variant": "variants", "platform": "platforms", "threads": "numbers of workers"}
    return known.get(column, f"values of {name_of(column)}")


def how_to_choose(column: str | None) -> str:
    """Where on the page others can be chosen."""
    return "Choose others at Platform." if column == "platform" else "Choose others under Filters."


def limited_places(laid: Laid, column: str) -> Laid:
    """Of values without order along x, as many as have room."""
    said = list(laid.said)
    rows = _limited(laid.rows.assign(at=labels(laid.rows, column)), "at", PLACES, plural(column), said, column)
    return laid._replace(rows=rows, said=said)


def _in_every_part(rows: pd.DataFrame, parameter: str) -> pd.DataFrame:
    """What has no such parameter is in every part, to be compared with."""
    without = rows[parameter].isna()
    parts = _order(rows[~without], "part")
    order = rows["part"].cat.categories
    alike = [rows[without].assign(part=pd.Categorical([part] * without.sum(), order, ordered=True)) for part in parts]
    return pd.concat([rows[~without], *alike]) if parts else rows


def _limited(
    rows: pd.DataFrame, column: str, most: int, what: str, said: list[str], of: str | None = None
) -> pd.DataFrame:
    """The rows of the first `most` values of a column that have something to draw; says so where there are more."""
    drawn = set(rows.loc[rows["estimate"].notna(), column])
    order = [value for value in _order(rows, column) if value in drawn]
    if len(order) <= most:
        return rows
    left = order[most : most + NAMED]
    rest = len(order) - most - len(left)
    named = listed([*left, *([f"{rest} more"] if rest else [])])
    said.append(f"Showing {most} of {len(order)} {what}; left out: {named}. {how_to_choose(of)}")
    return rows[rows[column].isin(order[:most])]


def _order(rows: pd.DataFrame, column: str) -> list[str]:
    values = rows[column]
    if isinstance(values.dtype, pd.CategoricalDtype):
        present = set(values)
        return [value for value in values.cat.categories if value in present]
    return list(dict.fromkeys(values))


def _unshown(rows: pd.DataFrame, shown: set[str]) -> list[str]:
    """The columns, on no axis, in which points of one colour of a part differ."""
    drawn = rows[rows["estimate"].notna()]
    own = [name for name in _identity(drawn) if name not in shown and not (name in VARIANT and "variant" in shown)]
    own = [name for name in own if _differs(drawn, name)]
    if not own:
        return []
    counts = drawn.groupby(["part", "series"], observed=True)[own].nunique(dropna=False).max()
    return [name for name in own if counts[name] > 1]


def _identity(rows: pd.DataFrame) -> list[str]:
    return [name for name in IDENTITY if name in rows and name not in ECHOES]


def _differs(summary: pd.DataFrame, column: str) -> bool:
    return bool(summary[column].nunique(dropna=False) > 1) if column in summary else False


def _place(column: str) -> tuple[int, str]:
    """Where a column stands in a list of choices."""
    first = (*ALONG, *APART)
    return (first.index(column) if column in first else len(first), column)


def _labels_of_all(rows: pd.DataFrame, x: str) -> pd.Series:
    """What tells each row from those that do not share its bars: its variant, and whatever else differs but x."""
    own = [name for name in _identity(rows) if name != x and name not in VARIANT and _differs(rows, name)]
    names = _telling(rows, sorted(own, key=_place), ["variant"])
    words = pd.DataFrame({name: labels(rows, name) for name in ("variant", *names)})
    told = words.astype(object).agg(", ".join, axis="columns")
    order = told[words.sort_values([*words], kind="stable").index]
    return pd.Series(pd.Categorical(told, [*dict.fromkeys(order)], ordered=True), index=rows.index)


def _telling(rows: pd.DataFrame, columns: list[str], known: list[str]) -> list[str]:
    """Those of the columns that are not told by the known ones and those before them."""
    told: list[str] = []
    for name in columns:
        alike = rows.groupby([*known, *told], dropna=False, observed=True)[name]
        told += [name] if alike.nunique(dropna=False).gt(1).any() else []
    return told


def _platforms(rows: pd.DataFrame) -> dict[Any, str]:
    """The names of platforms by their slugs, which tell apart those that share a name."""
    distinct = rows.drop_duplicates("platform")[["platform", "platform_name"]]
    alike = distinct["platform_name"].duplicated(keep=False)
    told = zip(distinct["platform"], distinct["platform_name"], alike, strict=True)
    return {slug: f"{name} ({slug})" if shared else str(name) for slug, name, shared in told}


def _label(column: str, value: Any) -> str:
    told = f"{value:.0%}" if column == "target" else number(value) if isinstance(value, int | float) else str(value)
    if column in ZERO and value == 0:
        told = f"{told} ({ZERO[column]})"
    if column.endswith("_sha256"):
        told = told[:8]
    return told if column in TELLING else f"{name_of(column)} {told}"


def number(value: float) -> str:
    """A number as short as it is exact to 6 digits."""
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"


def _told(rows: pd.DataFrame, column: str) -> str:
    """A column with its values, if they are few."""
    known = _order(rows.assign(its=labels(rows, column)), "its")
    short = [value.removeprefix(f"{name_of(column)} ") for value in known]
    return f"{name_of(column)} ({listed(short) if len(short) <= 4 else several(len(short), 'value')})"
