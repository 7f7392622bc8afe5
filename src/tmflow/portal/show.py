"""How a page shows a figure: chart, caption, downloads, and the very numbers that are drawn, as a table."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import altair as alt
import pandas as pd
import streamlit as st

from tmflow.figures import FORMATS, Figure, figures_of, gaps_of, slug

HEIGHT = 480  # px of chart, axes and legend
WIDEST = 400  # px of a column of names
LABELS = {"svg": "SVG", "png": "PNG", "csv": "CSV", "vl.json": "Vega-Lite"}
FORMS = {"1": "%.3f", "us": "%.1f", "fraction": "%.4f"}
UNITS = {"1": "", "us": " (µs)", "fraction": " (fraction)"}


def show_summary(kind: str, summary: pd.DataFrame, revision: str) -> None:
    """Every panel of a summary, `kind` as in `figures.DRAWINGS`; in words what there is nothing to draw of."""
    for label, reasons in gaps_of(kind, summary):
        st.info(f"Nothing to draw{label and f' of {label}'}: {'; '.join(reasons)}.")
    for label, figure in figures_of(kind, summary, revision):
        _show(slug(kind, str(figure.summary["experiment"].iloc[0]), label), figure)


def table_of(summary: pd.DataFrame) -> None:
    """The numbers of a summary, with their interval."""
    unit = str(summary["unit"].iloc[0])
    along = [column for column in ("iteration", "staleness", "up_to", "cause") if column in summary]
    missing = ["reason"] if summary["reason"].notna().any() else []
    numbers = st.column_config.NumberColumn
    st.dataframe(
        summary.assign(reason=summary["reason"].fillna("")),
        height="content" if len(summary) <= 24 else "auto",
        hide_index=True,
        column_order=[
            "variant", "threads", *along, "estimate", "low", "high", "rounds", "disturbed_rounds",
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


def width_of(names: Iterable[str]) -> int:
    """Pixels of a column that shows these names whole, if they are not very long: by itself it sees the first few."""
    return min(WIDEST, 32 + 7 * max(map(len, names), default=0))


def _show(name: str, figure: Figure) -> None:
    st.subheader(figure.caption.title)
    if isinstance(figure.chart, alt.LayerChart):
        st.altair_chart(figure.chart, width="stretch", height=HEIGHT)
    else:  # of several parts, which have a size of their own
        st.altair_chart(figure.chart, width="content")
    st.caption("  \n".join(figure.caption.lines))
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
    table_of(figure.summary)
