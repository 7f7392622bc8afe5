"""Shows a figure on a page: chart, caption, downloads, and a table of the numbers drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from copy import deepcopy
from functools import partial
from typing import Any, Literal

import pandas as pd
import streamlit as st

from tmflow.base.text import markdown
from tmflow.charts.captions import TITLES, UNSELECTED
from tmflow.charts.figures import Figure, drawable, figure_of, gaps_of, slug, stem
from tmflow.charts.marks import Published
from tmflow.charts.measure_charts import WORDS
from tmflow.charts.series import CHOICE, page_legend
from tmflow.portal.links import download
from tmflow.portal.study_data import experiment_titles

KEPT = 64  # cached figures, about 0.3 MB each
AT_ONCE = 24  # rows of a table that fit without scrolling
WIDEST = 300  # px: widest column of names
LABELS = {"svg": "SVG", "png": "PNG", "csv": "CSV", "json": "JSON", "vl.json": "Vega-Lite"}
FORMS = {
    "1": "%.3f", "us": "%.1f", "s": "%.4g", "updates": "%.4g", "fraction": "%.4f", "transfers": "%.4g", "B": "%.0f",
}  # fmt: skip
THREE_IN_A_ROW = (3, 5, 6)  # numbers of small charts of which rows of two would leave more blank
CONFIG = {"legend": {"unselectedOpacity": UNSELECTED}}
FIT = {"type": "fit-x", "contains": "padding"}  # a legend does not reduce the height of its chart
OF_SERIES = ("color", "shape")  # the channels with the legend of a chart's series
UNITS = {
    "1": "", "us": " (µs)", "s": " (s)", "updates": " (updates)", "fraction": " (fraction)",
    "transfers": " (transfers)", "B": " (bytes)",
}  # fmt: skip

Spec = dict[str, Any]


def show_summary(
    kind: str,
    summary: pd.DataFrame,
    revision: str,
    experiment: str | None = None,
    published: Sequence[Published] = (),
) -> None:
    """Show every panel of a summary, and why panels are missing.

    kind: a key of `figures.DRAWINGS`. experiment: that of the figure, if it shows the runs of another one. published:
    numbers of the study's text for this kind.
    """
    for label, reasons in gaps_of(kind, summary):
        of = TITLES[kind] + (f" ({label})" if label else "")
        st.info(markdown(f"Nothing to draw for “{of}”: {'; '.join(reasons)}."))
    for label, panel in drawable(kind, summary):
        name = stem(experiment, kind, label) if experiment else slug(kind, str(panel["experiment"].iloc[0]), label)
        figure = _figure(label, panel, revision, experiment, published, experiment_titles())
        show_figure(name, figure.at(revision))


def show_table(summary: pd.DataFrame, extra_columns: Sequence[str] = ()) -> None:
    """Show the estimates of a summary with their intervals, and these extra columns."""
    unit = str(summary["unit"].iloc[0])
    along = [column for column in ("iteration", "staleness", "up_to", "cause", "phase", "target") if column in summary]
    software = ["software"] if summary["software"].nunique() > 1 else []
    order = [*dict.fromkeys(("variant", "threads", *extra_columns, *along)), "estimate", "low", "high", "rounds"]
    columns = {
        "variant": st.column_config.TextColumn("strategy", width=column_width(summary["variant"])),
        "threads": st.column_config.NumberColumn("threads", format="%d"),
        "estimate": st.column_config.NumberColumn(f"estimate{UNITS[unit]}", format=FORMS[unit]),
    }
    alt = f"Table of the numbers drawn above: {summary['measure'].iloc[0]}"
    show_estimates(summary, [*order, *software], columns, FORMS[unit], alt)


def show_estimates(
    table: pd.DataFrame, order: Sequence[str], columns: Mapping[str, Any], form: str, alt: str, of: str = "Rounds"
) -> None:
    """Show estimates with their 95 % intervals.

    order: the first columns; the number of disturbed rounds and the notes follow. of: what is counted, if not rounds.
    columns: the configuration of columns. form: how the limits of the intervals are formatted.
    """
    numbers = st.column_config.NumberColumn
    missing = ["results", "reason"] if table["reason"].notna().any() else []
    medians = ["median", "median_low", "median_high"] if "median" in table else []
    st.dataframe(
        table.assign(reason=table["reason"].fillna("")),
        height=table_height(table),
        hide_index=True,
        placeholder="–",
        column_order=[*order, *medians, "disturbed_rounds", "oversubscribed", *missing],
        column_config={
            "low": numbers("95 % low", format=form),
            "high": numbers("95 % high", format=form),
            "median": numbers("median", format=form, help="A round that stalls hardly affects it."),
            "median_low": numbers("median, 95 % low", format=form, help="By rank; it takes at least six rounds."),
            "median_high": numbers("median, 95 % high", format=form),
            "results": st.column_config.TextColumn("rounds with a result", help="And how the others ended."),
            "disturbed_rounds": numbers("disturbed", help=f"{of} during which other processes used the machine."),
            "oversubscribed": st.column_config.CheckboxColumn(help="More workers than hardware threads."),
            "reason": st.column_config.TextColumn("what is missing", width="large"),
            **columns,
        },
        alt=alt,
    )


def show_rows(table: pd.DataFrame, key: str, open_row: Callable[[int], None], **options: Any) -> None:
    """Show a table; choosing a row calls `open_row` with its position."""

    def select() -> None:
        for place in st.session_state[key]["selection"]["rows"]:
            open_row(place)

    st.dataframe(table, hide_index=True, on_select=select, selection_mode="single-row", key=key, **options)


def show_frame(table: pd.DataFrame, alt: str, **options: Any) -> None:
    """Show a table without its index: all rows, or a scrolling area if there are many."""
    st.dataframe(table, hide_index=True, alt=alt, **{"height": table_height(table), **options})


def table_height(rows: Sized) -> Literal["content", "auto"]:
    """The height of a table: all rows, or a scrolling area if there are many."""
    return "content" if len(rows) <= AT_ONCE else "auto"


def column_width(names: Iterable[str]) -> int:
    """The width in pixels of a column that shows these names in full; by default Streamlit measures only a few."""
    return min(WIDEST, 32 + 7 * max(map(len, names), default=0))


# Shared by all sessions: no caller modifies a figure. It is valid for every revision with the same numbers.
@st.cache_resource(max_entries=KEPT, show_spinner=False)
def _figure(
    label: str,
    panel: pd.DataFrame,
    _revision: str,
    experiment: str | None,
    published: Sequence[Published],
    titles: dict[str, str],
) -> Figure:
    return figure_of(label, panel, _revision, experiment, published, titles)


def show_figure(name: str, figure: Figure, extra_columns: Sequence[str] = ()) -> None:
    """Show a figure and, folded, the table of its numbers; `name` is the name of its files."""
    show_chart(name, figure)
    with st.expander("The numbers"):
        show_table(figure.summary, extra_columns)


def show_chart(name: str, figure: Figure) -> None:
    """Show a figure without the table of its numbers; `name` is the name of its files."""
    st.subheader(markdown(figure.caption.title))
    show_drawing(name, figure.drawn)
    show_caption(name, figure)


def show_drawing(name: str, drawn: Spec) -> None:
    """Show a chart as Vega-Lite: `Figure.drawn`; `name` must be unique on the page."""
    if "concat" in drawn:
        _show_parts(name, drawn)
    else:
        st.vega_lite_chart({**drawn, "autosize": FIT, "config": CONFIG}, width="stretch")


def show_numbers(name: str, figure: Figure) -> None:
    """Show the caption, the files and the table of a chart that the page draws itself."""
    show_caption(name, figure)
    show_table(figure.summary)


def show_caption(name: str, figure: Figure) -> None:
    """Show the caption of a figure, and a button for each of its files; `name` must be unique on the page."""
    st.caption("  \n".join(map(markdown, figure.caption.lines)))
    with st.container(horizontal=True):
        for extension, label in LABELS.items():
            file = f"{name}.{extension}"
            download(label, partial(figure.file, extension), file, key=file)


@st.fragment
def _show_parts(name: str, drawn: Spec) -> None:
    """Show the legend of a concatenated chart and, below it, its parts; a click on a name shows or hides its series.

    The parts are charts of their own, so that a phone shows them one below the other: the choice in the legend passes
    through the session. An empty choice is the initial one.
    """
    legend, parts = split_parts(drawn)
    chosen: list[Spec] = []
    if "params" in legend:
        state = st.vega_lite_chart(legend, width="stretch", key=f"{name}.legend", on_select="rerun")
        chosen = state["selection"].get(CHOICE, [])
    else:
        st.vega_lite_chart(legend, width="stretch")
    if chosen:
        parts = [part | {"params": [{**param, "value": chosen} for param in part["params"]]} for part in parts]
    in_a_row = 3 if len(parts) in THREE_IN_A_ROW else 2
    for first in range(0, len(parts), in_a_row):
        row = parts[first : first + in_a_row]
        for column, part in zip(st.columns(in_a_row), row, strict=False):  # a phone shows columns below each other
            column.vega_lite_chart(part, width="stretch")


def split_parts(chart: Mapping[str, Any]) -> tuple[Spec, list[Spec]]:
    """Split a concatenated Vega-Lite chart: a chart that is only the legend of all parts, and a chart for each part.

    Legends of kinds of evidence and of platforms, which are one line, stay in every part.
    """
    spec = deepcopy(chart)
    shared = {name: value for name, value in spec.items() if name not in ("concat", "columns", "datasets", "params")}
    shared |= {"autosize": FIT, "config": CONFIG}
    params = spec.get("params", [])
    parts, channels = [], {}
    for part in spec["concat"]:
        for encoding in (layer["encoding"] for layer in part["layer"]):
            for channel in OF_SERIES:
                if "scale" in encoding.get(channel, {}):
                    channels[channel] = deepcopy(encoding[channel])
                    encoding[channel]["legend"] = None
        data = {layer["data"]["name"] for layer in (part, *part["layer"]) if "data" in layer}
        views = {layer.get("name") for layer in part["layer"]}
        of_part = [{**param, "views": [view for view in param["views"] if view in views]} for param in params]
        parts.append(
            {
                **shared,
                **part,
                "datasets": {name: chart["datasets"][name] for name in data},
                **({"params": of_part} if params else {}),
            }
        )
    return {**shared, **_legend(channels, params)}, parts


def _legend(channels: Mapping[str, Spec], params: Sequence[Spec]) -> Spec:
    """A chart without marks that has the legend of these channels, as wide as the page, and holds the choice in it."""
    color = channels["color"]
    names = [str(name) for name in color["scale"]["domain"]] if color["legend"] else []
    words = WORDS if color["field"] == "cause" else "datum.label"
    across = page_legend(names, words).to_dict() | {"symbolStrokeWidth": 0}
    of_the_only_view = [{name: value for name, value in param.items() if name != "views"} for param in params]
    encoding = {name: {**channel, "legend": across} for name, channel in channels.items() if names}
    return {
        "data": {"values": [{color["field"]: name} for name in names]},
        "mark": {"type": "point" if "shape" in channels else "square", "filled": True, "opacity": 0, "tooltip": None},
        "encoding": encoding,
        "height": 1,
        "padding": {"left": 5, "right": 5, "top": 0, "bottom": 0},
        "view": {"stroke": None},
        **({"params": of_the_only_view} if params else {}),
    }
