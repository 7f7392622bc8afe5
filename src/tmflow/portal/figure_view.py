"""Shows a figure on a page: chart, caption, downloads, and a table of the numbers drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from copy import deepcopy
from functools import partial
from typing import Any, Literal

import pandas as pd
import streamlit as st

from tmflow.base import escaping
from tmflow.charts.axes import LETTER, max_line_length, wrapped_label_expr
from tmflow.charts.figures import FORMATS, Figure, drawable, figure_of, gaps_of, slug
from tmflow.charts.marks import ENTRY
from tmflow.charts.stacked_bars import WORDS

KEPT = 64  # cached figures, about 0.3 MB each
AT_ONCE = 24  # rows of a table that fit without scrolling
WIDEST = 300  # px: widest column of names
LABELS = {"svg": "SVG", "png": "PNG", "csv": "CSV", "vl.json": "Vega-Lite"}
FORMS = {"1": "%.3f", "us": "%.1f", "fraction": "%.4f"}
UNITS = {"1": "", "us": " (µs)", "fraction": " (fraction)"}


def show_summary(kind: str, summary: pd.DataFrame, revision: str) -> None:
    """Show every panel of a summary, and why panels are missing; `kind` is a key of `figures.DRAWINGS`."""
    for label, reasons in gaps_of(kind, summary):
        st.info(escaping.markdown(f"Nothing to draw{label and f' of {label}'}: {'; '.join(reasons)}."))
    for label, panel in drawable(kind, summary):
        show_figure(slug(kind, str(panel["experiment"].iloc[0]), label), cached_figure(kind, label, panel, revision))


def show_table(summary: pd.DataFrame, extra_columns: Sequence[str] = ()) -> None:
    """Show the estimates of a summary with their intervals, and these extra columns."""
    unit = str(summary["unit"].iloc[0])
    along = [column for column in ("iteration", "staleness", "up_to", "cause") if column in summary]
    missing = ["reason"] if summary["reason"].notna().any() else []
    numbers = st.column_config.NumberColumn
    st.dataframe(
        summary.assign(reason=summary["reason"].fillna("")),
        height=table_height(summary),
        hide_index=True,
        placeholder="–",
        column_order=[
            *dict.fromkeys(("variant", "threads", *extra_columns, *along)),
            "estimate", "low", "high", "rounds", "disturbed_rounds",
            "oversubscribed", *missing,
        ],
        column_config={
            "variant": st.column_config.TextColumn("strategy", width=column_width(summary["variant"])),
            "threads": numbers("threads", format="%d"),
            "estimate": numbers(f"estimate{UNITS[unit]}", format=FORMS[unit]),
            "low": numbers("95 % low", format=FORMS[unit]),
            "high": numbers("95 % high", format=FORMS[unit]),
            "disturbed_rounds": numbers("disturbed", help="Rounds during which other processes used the machine."),
            "oversubscribed": st.column_config.CheckboxColumn(help="More workers than hardware threads."),
            "reason": st.column_config.TextColumn("what is missing", width="large"),
        },
        alt=f"Table of the numbers drawn above: {summary['measure'].iloc[0]}",
    )  # fmt: skip


def table_height(rows: Sized) -> Literal["content", "auto"]:
    """The height of a table: all rows, or a scrolling area if there are many."""
    return "content" if len(rows) <= AT_ONCE else "auto"


def column_width(names: Iterable[str]) -> int:
    """The width in pixels of a column that shows these names in full; by default Streamlit measures only a few."""
    return min(WIDEST, 32 + 7 * max(map(len, names), default=0))


def cached_figure(kind: str, label: str, panel: pd.DataFrame, revision: str, experiment: str | None = None) -> Figure:
    """As `figures.figure_of`, but cached."""
    return _figure(kind, label, panel, revision, experiment).at(revision)


# Shared by all sessions: no caller modifies a figure. It is valid for every revision with the same numbers.
@st.cache_resource(max_entries=KEPT, show_spinner=False)
def _figure(kind: str, label: str, panel: pd.DataFrame, _revision: str, experiment: str | None) -> Figure:
    return figure_of(kind, label, panel, _revision, experiment)


def show_figure(name: str, figure: Figure, extra_columns: Sequence[str] = ()) -> None:
    """Show a figure and, folded, the table of its numbers; `name` is the name of its files."""
    show_chart(name, figure)
    with st.expander("The numbers"):
        show_table(figure.summary, extra_columns)


def show_chart(name: str, figure: Figure) -> None:
    """Show a figure without the table of its numbers; `name` is the name of its files."""
    st.subheader(escaping.markdown(figure.caption.title))
    if "concat" in figure.drawn:
        with st.container(horizontal=True):
            for part in split_parts(figure.drawn):
                st.vega_lite_chart(part, width=WIDTH)
    else:
        st.vega_lite_chart({**figure.drawn, "autosize": FIT}, width="stretch")
    show_caption(name, figure)


def show_numbers(name: str, figure: Figure) -> None:
    """Show the caption, the files and the table of a chart that the page draws itself."""
    show_caption(name, figure)
    show_table(figure.summary)


def show_caption(name: str, figure: Figure) -> None:
    """Show the caption and the download buttons of a figure."""
    st.caption("  \n".join(map(escaping.markdown, figure.caption.lines)))
    _downloads(name, figure)


def _downloads(name: str, figure: Figure) -> None:
    """Show a download button for each file, generated on demand; `name` must be unique on the page."""
    with st.container(horizontal=True):
        for extension, mime in FORMATS.items():
            st.download_button(
                LABELS[extension],
                partial(figure.file, extension),
                file_name=f"{name}.{extension}",
                mime=mime,
                icon=":material/download:",
                key=f"{name}.{extension}",
                on_click="ignore",
            )


WIDTH = 410  # px: three in a row on a wide screen; on a phone, the available width
LEGEND = 270  # px: width of a legend next to the axis, which fits on a phone
FIT = {"type": "fit-x", "contains": "padding"}  # a legend does not reduce the height of its chart
CHANNELS = ("color", "shape", "opacity", "strokeDash")  # that may have a legend

Spec = dict[str, Any]


def split_parts(chart: Mapping[str, Any]) -> list[Spec]:
    """Split a concatenated Vega-Lite chart into separate charts; the last has the shared legend.

    A legend at the top, which is one line, stays in every chart, so that the charts of a row are level.
    """
    *others, last = deepcopy(chart["concat"])
    for part in others:
        for channel in _with_legend(part):
            if channel["legend"].get("orient") != "top":
                channel["legend"] = None
    for channel in _with_legend(last):
        names = [str(name) for name in channel["scale"]["domain"]]
        room = LEGEND - ENTRY
        columns = max(1, LEGEND // (ENTRY + LETTER * max_line_length(names, room)))
        channel["legend"] |= {"columns": columns, "labelLimit": room}
        if max(map(len, names), default=0) * LETTER > room:
            words = WORDS if channel["field"] == "cause" else "datum.label"
            channel["legend"]["labelExpr"] = wrapped_label_expr(names, room, words=words)
    shared = {name: value for name, value in chart.items() if name not in ("concat", "columns", "datasets")}
    shared["autosize"] = FIT
    return [
        {**shared, **part, "datasets": {name: chart["datasets"][name] for name in _drawn(part)}}
        for part in (*others, last)
    ]


def _with_legend(part: Mapping[str, Any]) -> list[Spec]:
    channels = [layer["encoding"][name] for layer in part["layer"] for name in CHANNELS if name in layer["encoding"]]
    return [channel for channel in channels if isinstance(channel.get("legend"), dict)]


def _drawn(part: Mapping[str, Any]) -> set[str]:
    """The names of the datasets of a part."""
    return {layer["data"]["name"] for layer in (part, *part["layer"]) if "data" in layer}
