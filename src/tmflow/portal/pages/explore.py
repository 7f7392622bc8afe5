"""The page "Explore": the measure, the points and the layout of a chart, all in the URL."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from tmflow.analysis.variants import name_of
from tmflow.base.text import markdown
from tmflow.charts import explore
from tmflow.charts.figures import TIME_TO_ACCURACY, Figure, drawing_of, slug
from tmflow.charts.layout import NONE, Layout, dimensions, name_variants
from tmflow.portal import campaign_filter
from tmflow.portal.figure_view import KEPT, show_figure
from tmflow.portal.filter_widgets import choose, choose_target, url_parameters
from tmflow.portal.study_data import Identity, SelectedRecords, Study, experiment_titles
from tmflow.portal.url_state import DATA, OF_FACTORS, Choice, Defaults, Key, Selection, ValuesFilter, resolve

SEVERAL = (Key.PLATFORM, Key.EVIDENCE)
FIRST: Defaults = {Key.EXPERIMENT: ("fig-4.10",)}  # few lines; the first experiment of the overview
OF_DATA = [ValuesFilter(it.key, it.label, required=True) if it.key in SEVERAL else it for it in DATA]
MEASURE = Choice(Key.METRIC, "Measure", tuple(explore.MEASURES), wide=True)
FACTORS = (
    ValuesFilter(Key.STRATEGY, "Strategy", of_factor=True),
    ValuesFilter(Key.THREADS, "Threads", of_factor=True),
    *OF_FACTORS,
)
# Scales by their value in the URL: label, and whether x and y are logarithmic; None chooses by the span of the values.
SCALES: dict[str, tuple[str, bool | None, bool | None]] = {
    "auto": ("automatic", None, None),
    "linear": ("linear", False, False),
    "x": ("log x", True, False),
    "y": ("log y", False, True),
    "both": ("log x and y", True, True),
}


def select_summary(study: Study) -> tuple[str, pd.DataFrame]:
    """The measure and the summary of the data that the URL selects."""
    words, first = {**study.labels, **explore.NAMES}, {**study.first, **FIRST}
    data = choose([*OF_DATA, MEASURE], study.counts, words, defaults=first)
    of_data = data.one(Key.EXPERIMENT), data.one(Key.SCALE), data.chosen[Key.PLATFORM], data.chosen[Key.EVIDENCE]
    records = study.choose_records(*of_data, campaign_filter.narrow_results(study, *of_data))
    kind = data.one(Key.METRIC)
    target = choose_target() if kind == TIME_TO_ACCURACY else None
    return kind, _summary(kind, target, records, records.key)


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
        figure = _figure(summary, layout, revision, experiment_titles()).at(revision)
    except ValueError as error:
        st.info(markdown(f"Nothing to draw: {error}."))
        return
    rows = figure.summary
    differing = [name for name in dimensions(rows) if name != "strategy" and rows[name].nunique(dropna=False) > 1]
    show_figure(slug(kind, str(summary["experiment"].iloc[0]), f"over-{layout.x}"), figure, differing)


def _layout(summary: pd.DataFrame) -> Layout:
    """The layout of the URL; the default facet depends on the other choices."""

    def one(selection: Selection, key: Key) -> str:
        return selection.one(key) if key in selection.chosen else NONE

    axes = [Choice(Key.X, "x axis", explore.x_choices(summary))]
    if colours := explore.colour_choices(summary):
        axes.append(Choice(Key.COLOUR, "Colour", colours))
    first = resolve(axes, summary, url_parameters())
    if parts := _facet_choices(summary, first.one(Key.X), one(first, Key.COLOUR)):
        axes.append(Choice(Key.FACET, "Facet by", parts))
    names = {option: name_of(option) for entry in axes for option in entry.options}
    names |= {scale: label for scale, (label, _, _) in SCALES.items()}
    chosen = choose([*axes, Choice(Key.LOG, "Log scales", tuple(SCALES))], summary, names)
    _, log_x, log_y = SCALES[chosen.one(Key.LOG)]
    return Layout(chosen.one(Key.X), one(chosen, Key.COLOUR), one(chosen, Key.FACET), log_x, log_y)


@st.cache_data(show_spinner=False, max_entries=KEPT)
def _facet_choices(summary: pd.DataFrame, x: str, colour: str) -> tuple[str, ...]:
    return explore.facet_choices(summary, x, colour)


# Shared by all sessions: no caller modifies a figure. It is valid for every revision with the same numbers.
@st.cache_resource(show_spinner=False, max_entries=KEPT)
def _figure(summary: pd.DataFrame, layout: Layout, _revision: str, titles: dict[str, str]) -> Figure:
    return explore.figure(summary, layout, _revision, titles)


# Shared by all sessions without a copy: no caller modifies a table.
@st.cache_resource(show_spinner="Summarising the runs", max_entries=16)
def _summary(kind: str, target: float | None, _records: SelectedRecords, key: Identity) -> pd.DataFrame:
    return explore.MEASURES[kind](_records) if target is None else drawing_of(kind, target).summarise(_records)
