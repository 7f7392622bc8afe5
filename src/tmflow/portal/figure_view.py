"""How a page shows a figure: chart, caption, downloads, and the very numbers that are drawn, as a table."""

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

KEPT = 64  # figures that are kept ready, about 0.3 MB each
AT_ONCE = 24  # rows of a table that are shown without scrolling
WIDEST = 300  # px of a column of names
LABELS = {"svg": "SVG", "png": "PNG", "csv": "CSV", "vl.json": "Vega-Lite"}
FORMS = {"1": "%.3f", "us": "%.1f", "fraction": "%.4f"}
UNITS = {"1": "", "us": " (µs)", "fraction": " (fraction)"}


def show_summary(kind: str, summary: pd.DataFrame, revision: str) -> None:
    """Every panel of a summary, `kind` as in `figures.DRAWINGS`; in words what there is nothing to draw of."""
    for label, reasons in gaps_of(kind, summary):
        st.info(escaping.markdown(f"Nothing to draw{label and f' of {label}'}: {'; '.join(reasons)}."))
    for label, panel in drawable(kind, summary):
        show_figure(slug(kind, str(panel["experiment"].iloc[0]), label), kept_figure(kind, label, panel, revision))


def table_of(summary: pd.DataFrame, told: Sequence[str] = ()) -> None:
    """The numbers of a summary, with their interval, and these columns beside them."""
    unit = str(summary["unit"].iloc[0])
    along = [column for column in ("iteration", "staleness", "up_to", "cause") if column in summary]
    missing = ["reason"] if summary["reason"].notna().any() else []
    numbers = st.column_config.NumberColumn
    st.dataframe(
        summary.assign(reason=summary["reason"].fillna("")),
        height=height_of(summary),
        hide_index=True,
        placeholder="–",
        column_order=[
            *dict.fromkeys(("variant", "threads", *told, *along)),
            "estimate", "low", "high", "rounds", "disturbed_rounds",
            "oversubscribed", *missing,
        ],
        column_config={
            "variant": st.column_config.TextColumn("strategy", width=width_of(summary["variant"])),
            "threads": numbers("threads", format="%d"),
            "estimate": numbers(f"estimate{UNITS[unit]}", format=FORMS[unit]),
            "low": numbers("95 % low", format=FORMS[unit]),
            "high": numbers("95 % high", format=FORMS[unit]),
            "disturbed_rounds": numbers("disturbed", help="Rounds on a machine that others kept busy too."),
            "oversubscribed": st.column_config.CheckboxColumn(help="More workers than hardware threads."),
            "reason": st.column_config.TextColumn("what is missing", width="large"),
        },
        alt=f"Table of the numbers drawn above: {summary['measure'].iloc[0]}",
    )  # fmt: skip


def height_of(rows: Sized) -> Literal["content", "auto"]:
    """The height of a table: of all its rows, but of many rows some, to scroll through."""
    return "content" if len(rows) <= AT_ONCE else "auto"


def width_of(names: Iterable[str]) -> int:
    """Pixels of a column that shows these names whole, if they are not very long: by itself it sees the first few."""
    return min(WIDEST, 32 + 7 * max(map(len, names), default=0))


def kept_figure(kind: str, label: str, panel: pd.DataFrame, revision: str, experiment: str | None = None) -> Figure:
    """As `figures.figure_of`, made once."""
    return _figure(kind, label, panel, revision, experiment).at(revision)


# Kept as it is, for all sessions: nobody changes a figure. It is the same at another revision, if its numbers are.
@st.cache_resource(max_entries=KEPT, show_spinner=False)
def _figure(kind: str, label: str, panel: pd.DataFrame, _revision: str, experiment: str | None) -> Figure:
    return figure_of(kind, label, panel, _revision, experiment)


def show_figure(name: str, figure: Figure, told: Sequence[str] = ()) -> None:
    """A figure and, folded, its numbers, its files under that name; `told`: more columns of the table."""
    show_chart(name, figure)
    with st.expander("The numbers"):
        table_of(figure.summary, told)


def show_chart(name: str, figure: Figure) -> None:
    """A figure without its numbers, which its page shows in a way of its own; `name` is that of its files."""
    st.subheader(escaping.markdown(figure.caption.title))
    if "concat" in figure.drawn:
        with st.container(horizontal=True):
            for part in parts(figure.drawn):
                st.vega_lite_chart(part, width=WIDTH)
    else:
        st.vega_lite_chart({**figure.drawn, "autosize": FIT}, width="stretch")
    show_under(name, figure)


def show_numbers(name: str, figure: Figure) -> None:
    """What stands under a chart that its page draws by itself: its caption, its files, and a table of what is drawn."""
    show_under(name, figure)
    table_of(figure.summary)


def show_under(name: str, figure: Figure) -> None:
    """The caption and the files of a figure."""
    st.caption("  \n".join(map(escaping.markdown, figure.caption.lines)))
    _downloads(name, figure)


def _downloads(name: str, figure: Figure) -> None:
    """A button for each file of a figure, made when it is pressed; `name` is the files', and no other's on the page."""
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


WIDTH = 410  # px: three in a row on a wide screen; on a phone the width that there is
LEGEND = 270  # px of a legend's width beside the axis, which a phone has too
FIT = {"type": "fit-x", "contains": "padding"}  # a legend takes no height from its chart
CHANNELS = ("color", "shape", "opacity", "strokeDash")  # that may have a legend

Spec = dict[str, Any]


def parts(chart: Mapping[str, Any]) -> list[Spec]:
    """Each part of a Vega-Lite chart of several as a chart of its own; the last has the legend of all.

    One above a part, which is a line, is above each: so the parts of a row are level.
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
    """The names of the datasets that a part draws."""
    return {its["data"]["name"] for its in (part, *part["layer"]) if "data" in its}
