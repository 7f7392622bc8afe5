"""The series of a chart: names with their looks, the legend above the chart, and the choice of the series shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import altair as alt

from tmflow.analysis.variants import ordered_variants
from tmflow.charts import palette
from tmflow.charts.axes import LETTER, NARROW, PHONE, max_line_length, wrapped_label_expr
from tmflow.charts.layers import IN_A_ROW, SMALL_WIDTH
from tmflow.charts.palette import Look

ABOVE: dict[str, Any] = {"title": None, "orient": "top", "direction": "horizontal", "symbolOpacity": 1}  # of a legend
ENTRY = 30  # px of a legend entry in addition to its name: symbol and gap
SHOWN = 6  # series of a chart until the reader chooses others
CHOICE = "chosen"  # the parameter of a chart that holds the series shown
# A click on the legend; by default, Vega-Lite also repeats the last choice at a click on a point.
ON_LEGEND = "click[event.item && event.item.mark.role && indexof(event.item.mark.role, 'legend') == 0]"
CHOSEN = alt.FilterTransform({"param": CHOICE})
DASHES = ([1, 0], [7, 4], [2, 3], [9, 3, 2, 3])  # of the lines of platforms that share a chart


class Series(NamedTuple):
    """The column of colours and shapes, its values in the order of the legend, and their looks."""

    column: str
    names: list[str]
    looks: list[Look]

    @property
    def first(self) -> list[str]:
        """The names that a chart shows until the reader chooses others: one of each strategy before further ones."""
        strategies = [name.partition(" ")[0] for name in self.names]
        turns = sorted(range(len(self.names)), key=lambda at: strategies[:at].count(strategies[at]))  # a stable sort
        return [self.names[at] for at in sorted(turns[:SHOWN])]

    @property
    def hidden(self) -> list[str]:
        """The names that a chart hides until the reader chooses them in its legend."""
        first = self.first
        return [name for name in self.names if name not in first]

    @property
    def places(self) -> dict[str, int]:
        """The place of each name among those that are drawn side by side: the first ones have places of their own."""
        return {name: at % SHOWN for names in (self.hidden, self.first) for at, name in enumerate(names)}

    @property
    def nth(self) -> dict[str, int]:
        """How many names before each name have its colour, modulo the number of `DASHES`."""
        colours = [look.colour for look in self.looks]
        return {name: colours[:at].count(colours[at]) % len(DASHES) for at, name in enumerate(self.names)}


def of_variants(drawn: Iterable[str]) -> Series:
    """The variants that are drawn, in the colours of their strategies."""
    names = ordered_variants(drawn)
    return Series("variant", names, palette.looks(names))


def looks(series: Series, legend: alt.Legend | None) -> tuple[alt.Color, alt.Shape]:
    """The colour and shape channels of a series, with a shared legend or none."""
    colours = alt.Scale(domain=series.names, range=[look.colour for look in series.looks])
    shapes = alt.Scale(domain=series.names, range=[look.shape for look in series.looks])
    field = f"{series.column}:N"
    return alt.Color(field, scale=colours, legend=legend), alt.Shape(field, scale=shapes, legend=legend)


def legend_of(names: Sequence[str], small: bool) -> alt.Legend:
    """The legend of the names above a chart; `small`: shared by several small charts."""
    if not small:
        return page_legend(names)
    width = IN_A_ROW * SMALL_WIDTH
    columns = max(1, width // _entry(names))
    return alt.Legend(**ABOVE, columns=columns, labelLimit=width, labelExpr=wrapped_label_expr(names, width))


def page_legend(names: Sequence[str], words: str = "datum.label") -> alt.Legend:
    """The legend of the names above a chart whose width changes; `words`: the Vega expression of a label."""
    width = IN_A_ROW * SMALL_WIDTH
    return alt.Legend(
        **ABOVE,
        columns=alt.ExprRef(f"max(1, min(width > {NARROW} ? 6 : 3, floor(width / {_entry(names)})))"),
        labelLimit=alt.ExprRef("width - 24"),
        labelExpr=wrapped_label_expr(names, width, PHONE, words),
    )


def _entry(names: Sequence[str]) -> int:
    """The px of the longest entry of a legend."""
    return ENTRY + LETTER * max_line_length(names, IN_A_ROW * SMALL_WIDTH)


def choosable(layers: Sequence[alt.Chart], series: Series, part: int) -> list[alt.Chart]:
    """The layers of a part, which show only the chosen names of a series (`choice_of`).

    Layers without a series stay as they are; the first one with a legend holds the choice, and is named for it.
    """
    shown = []
    for layer in layers:
        copy: alt.Chart = layer.copy(deep=False)
        if series.column in layer.data:
            copy.transform = [CHOSEN]
        shown.append(copy)
    holder = next(layer for layer in shown if layer.transform is not alt.Undefined and _has_legend(layer))
    holder.name = f"{CHOICE}_{part}"
    return shown


def choice_of(series: Series, n_parts: int) -> list[alt.TopLevelSelectionParameter]:
    """The parameter with the names of a series that are shown, by clicks on the legend; none for a single name.

    Without a choice all are shown: the first click isolates a name, a second one on it brings back all. A chart with
    more than `SHOWN` names begins with the first ones.
    """
    if len(series.names) < 2:
        return []
    return [
        alt.TopLevelSelectionParameter(
            name=CHOICE,
            select={"type": "point", "fields": [series.column], "toggle": "true"},
            bind={"legend": ON_LEGEND},
            value=[{series.column: name} for name in series.first] if series.hidden else alt.Undefined,
            views=[f"{CHOICE}_{part}" for part in range(n_parts)],
        )
    ]


def _has_legend(layer: alt.Chart) -> bool:
    return layer.encoding.color is not alt.Undefined
