"""The page of runs: a search with filters, and a sorted list of the matches."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from tmflow.analysis.variants import variants
from tmflow.base.text import csv_frame, markdown
from tmflow.portal import campaign_filter
from tmflow.portal.badges import WORDS, status_badge
from tmflow.portal.figure_view import AT_ONCE, column_width, show_rows
from tmflow.portal.filter_widgets import choose, go_to, search_box, url_parameters, warn_unknown
from tmflow.portal.links import download
from tmflow.portal.study_data import Identity, Study, experiment_titles
from tmflow.portal.url_state import MAX_QUOTED, Choice, Key, ValuesFilter, factor_label
from tmflow.spec.strategies import PARAMETERS
from tmflow.spec.trial import TrialSpec
from tmflow.store import queries
from tmflow.store.queries import Order
from tmflow.store.run_filter import DEFINITION, RunFilter

REACH = 10_000  # the most runs that pages and files can show
LONGEST = 100  # characters of a search text

ORDERS: dict[str, tuple[str, Order, bool]] = {
    "newest": ("newest first", "started", True),
    "oldest": ("oldest first", "started", False),
    "fastest": ("shortest step first", "step_time", False),
    "slowest": ("longest step first", "step_time", True),
    "best": ("highest accuracy first", "accuracy", True),
    "worst": ("lowest accuracy first", "accuracy", False),
    "fewest": ("fewest threads first", "threads", False),
    "most": ("most threads first", "threads", True),
}


def _counted(*keys: str) -> list[ValuesFilter]:
    return [ValuesFilter(key, factor_label(key), counted=True) for key in keys]


# Filters of the data come before the tally of the matching runs, and filters of the tally after it.
OF_DATA, MORE_OF_DATA = _counted(Key.EXPERIMENT, Key.PLATFORM, Key.EVIDENCE), _counted(Key.SCALE, Key.DEFINITION)
OF_TALLY = _counted(Key.STATUS, Key.MODEL, Key.STRATEGY, Key.THREADS)
MORE_OF_TALLY = _counted(
    *(name for name in TrialSpec.model_fields if name not in (Key.MODEL, Key.STRATEGY, Key.THREADS))
)
VIEW = (Choice(Key.SORT, "Sort", tuple(ORDERS)), Choice(Key.ROWS, "Rows on a page", ("50", "100")))

FIRST = 4  # columns that a phone shows
# The default columns of the list. Of "reason" and "repeat", only where there are any.
COLUMNS = (
    "experiment", "strategy", "threads", "step_time_us", "final_accuracy", "status", "reason", "round", "repeat",
    "evidence", "platform_name", "dataset", "scale", "disturbed", "started_at_utc", "uid",
)  # fmt: skip
MORE_COLUMNS = (
    *(name for name in TrialSpec.model_fields if name not in COLUMNS),
    "hardware_threads", "tm_capability", "backend", "others_fraction", "resumed", "setup_s", "loop_s", "evaluation_s",
    "total_s", "trial_seed", "campaign_uid", "definition_sha256", "software",
)  # fmt: skip
COLUMN_NAMES = {
    "matrix": "input pixels",
    "step_time_us": "time per step (µs)", "final_accuracy": "accuracy", "platform_name": "platform",
    "started_at_utc": "started (UTC)", "others_fraction": "CPU used by others", "setup_s": "set-up (s)",
    "loop_s": "loop (s)", "evaluation_s": "evaluation (s)", "total_s": "total (s)", "tm_capability": "TM capability",
    "campaign_uid": "campaign", "definition_sha256": "definition",
}  # fmt: skip
OF_COLUMNS = ValuesFilter(Key.COLUMNS, "Columns")


def show_list(study: Study) -> None:
    """Show the filters and a page of the matching runs; the URL holds all choices."""
    only, tally = _read_filter(study)
    view = choose(VIEW, tally, {key: words for key, (words, _, _) in ORDERS.items()})
    by_status = tally.groupby("status")["n_runs"].sum()
    total, of_all = int(by_status.sum()), int(study.counts["n_runs"].sum())
    if not total:
        st.info(f"None of the {of_all:,} runs matches: remove a filter, or change the search text.")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{total:,}** of {of_all:,} runs match:", width="content")
        for status in WORDS:
            if status in by_status:
                status_badge(status, by_status[status])
    _, order, down = ORDERS[view.one(Key.SORT)]
    rows = int(view.one(Key.ROWS))
    page = _choose_page(last=-(-min(total, REACH) // rows))
    place = st.container()  # above the choice of its columns, which a phone would show first
    columns = _choose_columns()
    with place:
        _table(_page(study, study.identity, only, order, down, rows, rows * (page - 1)), columns)
    which = f"of all {total:,}"
    if total > REACH:
        which = f"of the first {REACH:,} of {total:,}"
        st.caption(
            f"Pages and files have the first {REACH:,} of these {total:,} runs, in this order: narrow the search, or "
            "reverse the order, for the others."
        )

    def file(form: Callable[[pd.DataFrame], str]) -> str:
        return form(queries.page(study.reader(), only, order, down=down, rows=REACH))

    with st.container(horizontal=True):
        for label, form in (("CSV", table_csv), ("JSON", table_json)):
            download(f"{label} {which}", partial(file, form), f"runs.{label.lower()}")


def _read_filter(study: Study) -> tuple[RunFilter, pd.DataFrame]:
    """The filter of runs from the widgets and the search text, and the tally of the matching runs."""
    counts = study.counts.assign(definition=study.counts["definition_sha256"].str[:DEFINITION])
    text = _search_text()
    first = st.container()
    keys = (*campaign_filter.KEYS, *(it.key for it in MORE_OF_DATA + MORE_OF_TALLY))
    more = st.expander("More filters", expanded=any(key in url_parameters() for key in keys))
    with first:
        data = choose(_useful(OF_DATA, counts), counts, study.labels)
    with more:
        more_data = choose(_useful(MORE_OF_DATA, counts), data.rows)
    chosen = {key: values or None for key, values in (data.chosen | more_data.chosen).items()}
    only = RunFilter(
        experiments=chosen.get(Key.EXPERIMENT),
        scales=chosen.get(Key.SCALE),
        definitions=chosen.get(Key.DEFINITION),
        platforms=chosen.get(Key.PLATFORM),
        evidences=chosen.get(Key.EVIDENCE),
        joined=study.joined,
    )
    with more:
        only = campaign_filter.narrow(study, only)
    tally = _tally(study, study.identity, only)
    with first:
        few = choose(OF_TALLY, tally, WORDS)
    with more:
        rest = choose(_useful(MORE_OF_TALLY, tally), few.rows)
    factors = {  # with the types of the database
        name: tuple(value for value in selection.rows[name].dropna().unique().tolist() if str(value) in values)
        for selection in (few, rest)
        for name, values in selection.chosen.items()
        if values and name != Key.STATUS
    }
    only = replace(only, statuses=few.chosen[Key.STATUS] or None, factors=factors, text=text)
    return only, _tally(study, study.identity, only) if text else rest.rows


def _useful(filters: list[ValuesFilter], table: pd.DataFrame) -> list[ValuesFilter]:
    """The filters with at least two values, or with a value in the URL."""
    return [entry for entry in filters if table[entry.key].nunique() > 1 or entry.key in url_parameters()]


def _search_text() -> str:
    """Show the search box with the text of the URL; warn if the text is too long or unprintable."""
    given = st.query_params.get(Key.SEARCH, "")
    text = "".join(character for character in given if character.isprintable()).strip()[:LONGEST]
    if text != given:
        st.warning(f"The link has an invalid search text: searching for '{markdown(text[:MAX_QUOTED])}'.")
    hint = "Words of a reason, or a uid or its first 4 characters"
    search_box("Search", text, max_chars=LONGEST, type="search", placeholder=hint)
    return text


def _choose_page(last: int) -> int:
    """The page number of the URL, from 1; if there are several pages, show the pagination."""
    requested = st.query_params.get(Key.PAGE, "1")
    page = int(requested) if requested.isascii() and requested.isdigit() and len(requested) < 9 else 0
    if not 1 <= page <= last:
        warn_unknown("page", requested, f"and pages go from 1 to {last}: showing 1.")
        page = 1
    if last > 1:
        key = f"page {page} of {last}"
        st.pagination(last, default=page, key=key, on_change=lambda: go_to({Key.PAGE: [str(st.session_state[key])]}))
    return page


def _choose_columns() -> list[str]:
    """The columns of the list that the URL asks for, in the order of the table; none is the default."""
    every = [*COLUMNS, *MORE_COLUMNS]
    names = {name: COLUMN_NAMES.get(name, name.replace("_", " ")) for name in every}
    chosen = choose([OF_COLUMNS], pd.DataFrame({Key.COLUMNS: every}), names).chosen[Key.COLUMNS]
    return [name for name in every if name in chosen]


def _table(runs: pd.DataFrame, columns: Sequence[str]) -> None:
    """Show these columns of the runs of a page; choosing a row opens the run.

    By default they are those of `COLUMNS` that have a value, and the factors that tell runs of the same strategy and
    number of threads apart.
    """
    rows = runs.assign(step_time_us=(1e6 * runs["loop_s"] / runs["iterations"]).where(runs["status"] == "ok"))
    rows["strategy"] = variants(rows)
    rows["status"] = rows["status"].map(WORDS)
    empty = {name for name in COLUMNS[FIRST:] if rows[name].isna().all()}
    empty |= {"repeat"} if (rows["repeat"] == 1).all() else set()
    origin = [name for name in ("evidence", "platform_name") if rows[name].nunique() > 1]  # where it matters, in sight
    first, others = COLUMNS[:FIRST], [name for name in COLUMNS[FIRST:] if name not in {*empty, *origin}]
    shown = columns or [*first, *_differing_factors(rows), *origin, *others]
    if not _on_phone():
        rows["experiment"] = rows["experiment"].replace(experiment_titles())

    def open_row(place: int) -> None:
        st.query_params[Key.RUN] = runs["uid"].iloc[place]

    show_rows(
        rows[list(shown)],
        "rows_of_page",
        open_row,
        placeholder="–",
        height="content" if len(rows) <= AT_ONCE else 640,
        column_config={
            **{name: name.replace("_", " ") for name in shown},
            **COLUMN_NAMES,
            "status": st.column_config.TextColumn(width=120),
            "reason": st.column_config.TextColumn(width=300),
            "step_time_us": st.column_config.NumberColumn(COLUMN_NAMES["step_time_us"], format="%.1f"),
            "final_accuracy": st.column_config.NumberColumn(COLUMN_NAMES["final_accuracy"], format="%.4f"),
            **_widths(rows),
        },
        alt=f"Table of {len(runs)} runs",
    )
    st.caption("Choose a row for details. A click on a heading sorts only this page; Sort above sorts all runs.")


def _differing_factors(rows: pd.DataFrame) -> list[str]:
    """The factors in which runs of the same experiment, strategy and number of threads differ."""
    groups = rows.groupby(["experiment", "strategy", "threads"], dropna=False)
    factors = [name for name in TrialSpec.model_fields if name not in COLUMNS and name not in PARAMETERS]
    return [name for name in factors if (groups[name].nunique(dropna=False) > 1).any()]


def _on_phone() -> bool:
    return "Mobi" in st.context.headers.get("User-Agent", "")  # as browsers of phones say


def _widths(rows: pd.DataFrame) -> dict[str, Any]:
    """The columns with a fixed width: names in full, or on a phone so that the first four columns fit."""
    if _on_phone():
        return {
            "experiment": st.column_config.TextColumn(width=84),
            "strategy": st.column_config.TextColumn(width=104),
            "threads": st.column_config.NumberColumn(width=58),
            "step_time_us": st.column_config.NumberColumn("µs per step", format="%.1f", width=72),
        }
    return {name: st.column_config.TextColumn(width=column_width(rows[name])) for name in ("experiment", "strategy")}


@st.cache_data(show_spinner="Counting the runs", max_entries=32)
def _tally(_study: Study, identity: Identity, only: RunFilter) -> pd.DataFrame:
    return queries.tally(_study.reader(), only)


@st.cache_data(show_spinner="Reading the runs", max_entries=32)
def _page(
    _study: Study, identity: Identity, only: RunFilter, order: Order, down: bool, rows: int, offset: int
) -> pd.DataFrame:
    return queries.page(_study.reader(), only, order, down=down, rows=rows, offset=offset)


def table_csv(runs: pd.DataFrame) -> str:
    """Format runs as CSV, one line per run; formulas are escaped."""
    return csv_frame(runs).to_csv(index=False)


def table_json(runs: pd.DataFrame) -> str:
    """Format runs as a JSON list of objects; missing values are null."""
    return json.dumps(runs.astype(object).where(runs.notna(), None).to_dict("records"), allow_nan=False)
