"""The search for runs: filters, matches by status, and a sorted page of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pandas as pd
import streamlit as st
from sqlalchemy import URL

from tmflow.analysis.variants import variants
from tmflow.base import escaping
from tmflow.portal.badges import WORDS, status_badge
from tmflow.portal.figure_view import column_width
from tmflow.portal.pages.run_detail import table_csv, table_json
from tmflow.portal.study_data import Identity, Study
from tmflow.portal.url_state import (
    DATA,
    EVERY_FACTOR,
    MAX_QUOTED,
    Filter,
    Key,
    Selection,
    choose,
    go_to,
    url_parameters,
)
from tmflow.spec.trial import TrialSpec
from tmflow.store import engine, search
from tmflow.store.queries import Value
from tmflow.store.search import Order, RunFilter

REACH = 10_000  # the largest number of runs in pages and files
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

_OF_DATA = [entry._replace(with_all=True, several=True, counted=True) for entry in DATA]
_MORE_OF_DATA = [
    *(entry for entry in _OF_DATA if entry.key == Key.SCALE),
    Filter(Key.DEFINITION, "Definition", with_all=True, several=True, counted=True),
]
_FIRST_OF_DATA = [entry for entry in _OF_DATA if entry not in _MORE_OF_DATA]
_STATUS = Filter(Key.STATUS, "Status", with_all=True, several=True, counted=True)
_FIRST = [_STATUS, *(entry for entry in EVERY_FACTOR if entry.key in (Key.STRATEGY, Key.THREADS))]
_MORE = [entry for entry in EVERY_FACTOR if entry not in _FIRST]
_VIEW = [Filter(Key.SORT, "Sort", tuple(ORDERS)), Filter(Key.ROWS, "Rows on a page", ("50", "100"))]

COLUMNS = [
    "experiment", "strategy", "threads", "round", "step_time_us", "final_accuracy", "evidence", "platform_name",
    "dataset", "scale", "disturbed", "started_at_utc", "uid",
]  # fmt: skip


def show_page(study: Study) -> None:
    """Show the page; the URL holds all choices."""
    request, tally = _read_request(study)
    view = choose(_VIEW, tally, {key: words for key, (words, _, _) in ORDERS.items()})
    by_status = {str(status): int(n) for status, n in tally.groupby("status")["n_runs"].sum().items()}
    total, of_all = sum(by_status.values()), int(study.counts["n_runs"].sum())
    if not total:
        st.info(f"None of the {of_all:,} runs matches: remove a filter, or change the search text.")
        return
    _bar(by_status, total, of_all)
    _, order, down = ORDERS[view.one(Key.SORT)]
    rows = int(view.one(Key.ROWS))
    page = _pages(min(total, REACH), rows)
    _table(_page(study.url, study.identity, request, order, down, rows, rows * (page - 1)))
    if total > REACH:
        st.caption(
            f"Pages and files have the first {REACH:,} of these {total:,} runs, in this order: narrow the search, or "
            "turn the order round, for the others."
        )
    _files(study, request, order, down, total)


def _read_request(study: Study) -> tuple[RunFilter, pd.DataFrame]:
    """The request of the filters and the search text, and the tally of the matching runs."""
    counts = study.counts.assign(definition=study.counts["definition_sha256"].str[: search.DEFINITION])
    names = study.platform_names
    text = _text()
    first = st.container()
    more = st.expander(
        "More filters", expanded=any(entry.key in url_parameters() for entry in (*_MORE_OF_DATA, *_MORE))
    )
    with first:
        data = choose(_useful(_FIRST_OF_DATA, counts), counts, names)
    with more:
        more_data = choose(_useful(_MORE_OF_DATA, counts), data.rows)
    chosen = {**data.chosen, **more_data.chosen}
    request = RunFilter(
        experiments=chosen.get(Key.EXPERIMENT, ()),
        scales=chosen.get(Key.SCALE, ()),
        definitions=chosen.get(Key.DEFINITION, ()),
        platforms=chosen.get(Key.PLATFORM, ()),
        evidences=chosen.get(Key.EVIDENCE, ()),
        joined=study.joined,
    )
    tally = _tally(study.url, study.identity, request)
    with first:
        few = choose(_FIRST, tally, WORDS)
    with more:
        rest = choose(_useful(_MORE, tally), few.rows)
    request = request._replace(statuses=few.chosen[Key.STATUS], factors=(*_factors(few), *_factors(rest)), text=text)
    return request, _tally(study.url, study.identity, request) if text else rest.rows


def _useful(filters: Sequence[Filter], table: pd.DataFrame) -> list[Filter]:
    """The filters with at least two values, or with a value in the URL."""
    return [entry for entry in filters if table[entry.key].nunique() > 1 or entry.key in url_parameters()]


def _factors(selection: Selection) -> tuple[tuple[str, tuple[Value, ...]], ...]:
    """The chosen values of each factor, with the types of the database."""
    chosen = []
    for name in TrialSpec.model_fields:
        if selection.chosen.get(name):
            values = {str(value): value for value in selection.rows[name].dropna().unique().tolist()}
            chosen.append((name, tuple(values[text] for text in selection.chosen[name])))
    return tuple(chosen)


def _text() -> str:
    """Show the search box with the text of the URL; warn if the text is too long or unprintable."""
    given = st.query_params.get(Key.SEARCH, "")
    text = "".join(character for character in given if character.isprintable()).strip()[:LONGEST]
    if text != given:
        st.warning(f"The link has an invalid search text: searching for '{escaping.markdown(text[:MAX_QUOTED])}'.")
    st.session_state[Key.SEARCH] = text
    st.text_input(
        "Search",
        key=Key.SEARCH,
        max_chars=LONGEST,
        type="search",
        placeholder="Words of a reason, or a uid or its first 4 characters",
        on_change=lambda: go_to({Key.SEARCH: _written_text()}, [Key.SEARCH]),
    )
    return text


def _written_text() -> list[str]:
    text = st.session_state[Key.SEARCH].strip()
    return [text] if text else []


def _bar(by_status: Mapping[str, int], total: int, of_all: int) -> None:
    """Show the number of matching runs by status."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{total:,}** of {of_all:,} runs match:", width="content")
        for status in WORDS:
            if status in by_status:
                status_badge(status, by_status[status])


def _pages(reachable: int, rows: int) -> int:
    """The page number of the URL, from 1; if there are several pages, show the pagination."""
    last = -(-reachable // rows)
    wish = st.query_params.get(Key.PAGE, "1")
    page = int(wish) if wish.isascii() and wish.isdigit() and len(wish) < 9 else 0
    if not 1 <= page <= last:
        st.warning(
            f"The link asks for page '{escaping.markdown(wish[:MAX_QUOTED])}', and pages go from 1 to {last}: "
            "showing 1."
        )
        page = 1
    if last > 1:
        key = f"page {page} of {last}"
        st.pagination(last, default=page, key=key, on_change=lambda: go_to({Key.PAGE: [str(st.session_state[key])]}))
    return page


def _table(runs: pd.DataFrame) -> None:
    """Show the runs of a page; choosing a row opens the run."""
    rows = runs.assign(step_time_us=(1e6 * runs["loop_s"] / runs["iterations"]).where(runs["status"] == "ok"))
    rows["strategy"] = variants(rows)
    rows["status"] = rows["status"].map(WORDS)
    why = ["reason"] if rows["reason"].notna().any() else []
    st.dataframe(
        rows[["status", *why, *COLUMNS]],
        hide_index=True,
        placeholder="–",
        height="content" if len(rows) <= 24 else 640,
        column_config={
            "status": st.column_config.TextColumn(width=120),
            "reason": st.column_config.TextColumn(width=300),
            "step_time_us": st.column_config.NumberColumn("time per step (µs)", format="%.1f"),
            "final_accuracy": st.column_config.NumberColumn("accuracy", format="%.4f"),
            **{
                name: st.column_config.TextColumn(width=column_width(rows[name])) for name in ("experiment", "strategy")
            },
            "platform_name": "platform",
            "started_at_utc": "started (UTC)",
        },
        on_select=lambda: _open(runs["uid"]),
        selection_mode="single-row",
        key="rows_of_page",
        alt=f"Table of {len(runs)} runs",
    )
    st.caption("Choose a row for details. A click on a heading sorts only this page; Sort above sorts all runs.")


def _open(uids: pd.Series) -> None:
    chosen = st.session_state["rows_of_page"]["selection"]["rows"]
    if chosen:
        st.query_params[Key.RUN] = uids.iloc[chosen[0]]


def _files(study: Study, request: RunFilter, order: Order, down: bool, total: int) -> None:
    """Show buttons that download all matching runs; the files are generated on demand."""
    which = f"of all {total:,}" if total <= REACH else f"of the first {REACH:,} of {total:,}"

    with st.container(horizontal=True):
        for label, mime, form in (("CSV", "text/csv", table_csv), ("JSON", "application/json", table_json)):
            st.download_button(
                f"{label} {which}",
                partial(_file, form, study, request, order, down),
                file_name=f"runs.{label.lower()}",
                mime=mime,
                icon=":material/download:",
                on_click="ignore",
            )


def _file(form: Callable[[pd.DataFrame], str], study: Study, request: RunFilter, order: Order, down: bool) -> str:
    return form(search.page(study.reader(), request, order, down=down, rows=REACH))


# A URL may hold a password, so it is not hashed: `identity` replaces it in cache keys.


@st.cache_data(show_spinner="Counting the runs", max_entries=32)
def _tally(_url: URL, identity: Identity, request: RunFilter) -> pd.DataFrame:
    return search.tally(engine.open_reader(_url), request)


@st.cache_data(show_spinner="Reading the runs", max_entries=32)
def _page(
    _url: URL, identity: Identity, request: RunFilter, order: Order, down: bool, rows: int, offset: int
) -> pd.DataFrame:
    return search.page(engine.open_reader(_url), request, order, down=down, rows=rows, offset=offset)
