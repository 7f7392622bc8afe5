"""The page "Explore": the measure, the points and the layout of a chart, all in the URL."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from tmflow.analysis.variants import name_of
from tmflow.base.escaping import markdown
from tmflow.charts import explore
from tmflow.charts.figures import Figure, slug
from tmflow.charts.layout import NONE, Layout, dimensions, name_variants
from tmflow.portal.figure_view import KEPT, show_figure
from tmflow.portal.study_data import Identity, SelectedRecords, Study
from tmflow.portal.url_state import DATA, OF_FACTORS, Defaults, Filter, Key, Selection, choose, resolve, url_parameters

SEVERAL = (Key.PLATFORM, Key.EVIDENCE)
FIRST: Defaults = {Key.EXPERIMENT: ("fig-4.10",)}  # few lines; the first experiment of the overview
OF_DATA = [entry._replace(several=True) if entry.key in SEVERAL else entry for entry in DATA]
MEASURE = Filter(Key.METRIC, "Measure", tuple(explore.MEASURES), wide=True)
FACTORS = [
    entry._replace(several=True)
    for entry in (
        Filter(Key.STRATEGY, "Strategy", with_all=True, of_factor=True),
        Filter(Key.THREADS, "Threads", with_all=True, of_factor=True),
        *OF_FACTORS,
    )
]
# Log scales of x and y; None chooses by the span of the values.
SCALES: dict[str, tuple[bool | None, bool | None]] = {
    "auto": (None, None),
    "linear": (False, False),
    "x": (True, False),
    "y": (False, True),
    "both": (True, True),
}
SCALE_NAMES = {
    "auto": "automatic",
    "linear": "linear",
    "x": "log x",
    "y": "log y",
    "both": "log x and y",
}


def select_summary(study: Study) -> tuple[str, pd.DataFrame]:
    """The measure and the summary of the data that the URL selects."""
    words, first = {**study.platform_names, **explore.NAMES}, {**study.first, **FIRST}
    data = choose([*OF_DATA, MEASURE], study.counts, words, defaults=first)
    records = study.records(
        data.one(Key.EXPERIMENT), data.one(Key.SCALE), data.chosen[Key.PLATFORM], data.chosen[Key.EVIDENCE]
    )
    kind = data.one(Key.METRIC)
    return kind, _summary(kind, records, records[1:])


def narrow_summary(summary: pd.DataFrame) -> pd.DataFrame:
    """Narrow a summary by the filters of factors, and name the remaining variants."""
    rows = choose(FACTORS, summary, behind="Filters").rows
    return rows.assign(variant=name_variants(rows)).reset_index(drop=True)


def show_chart(kind: str, summary: pd.DataFrame, revision: str) -> None:
    """Show the chart of a summary with the layout of the URL, or why there is none."""
    missing = explore.missing_reasons(summary)
    if missing:
        reasons = markdown("; ".join(missing))
        st.info(f"Nothing to draw: {reasons}. Choose another measure, experiment or kind of evidence.")
        return
    layout = _layout(summary)
    try:
        figure = _figure(summary, layout, revision).at(revision)
    except ValueError as error:
        st.info(markdown(f"Nothing to draw: {error}."))
        return
    rows = figure.summary
    differing = [name for name in dimensions(rows) if name != "strategy" and rows[name].nunique(dropna=False) > 1]
    show_figure(slug(kind, str(summary["experiment"].iloc[0]), f"over-{layout.x}"), figure, differing)


def _layout(summary: pd.DataFrame) -> Layout:
    """The layout of the URL; the default facet depends on the other choices."""
    axes = [Filter(Key.X, "x axis", explore.x_choices(summary))]
    if colours := explore.colour_choices(summary):
        axes.append(Filter(Key.COLOUR, "Colour", colours))
    first = resolve(axes, summary, url_parameters())
    if parts := _facet_choices(summary, first.one(Key.X), _one(first, Key.COLOUR)):
        axes.append(Filter(Key.FACET, "Facet by", parts))
    options = {option for entry in axes for option in entry.options}
    names = {**{name: name_of(name) for name in options}, **SCALE_NAMES}
    of = choose([*axes, Filter(Key.LOG, "Log scales", tuple(SCALES))], summary, names)
    return Layout(of.one(Key.X), _one(of, Key.COLOUR), _one(of, Key.FACET), *SCALES[of.one(Key.LOG)])


@st.cache_data(show_spinner=False, max_entries=KEPT)
def _facet_choices(summary: pd.DataFrame, x: str, colour: str) -> tuple[str, ...]:
    return explore.facet_choices(summary, x, colour)


# Shared by all sessions: no caller modifies a figure. It is valid for every revision with the same numbers.
@st.cache_resource(show_spinner=False, max_entries=KEPT)
def _figure(summary: pd.DataFrame, layout: Layout, _revision: str) -> Figure:
    return explore.figure(summary, layout, _revision)


def _one(of: Selection, key: Key) -> str:
    return of.one(key) if key in of.chosen else NONE


# Shared by all sessions without a copy: no caller modifies a table.
@st.cache_resource(show_spinner="Summarising the runs", max_entries=16)
def _summary(
    kind: str, _records: SelectedRecords, key: tuple[Identity | str | tuple[str, ...] | bool, ...]
) -> pd.DataFrame:
    """The summary of the records, cached by `key`: the records without the URL, which may hold a password."""
    return explore.MEASURES[kind](_records)
