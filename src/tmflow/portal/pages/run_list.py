"""The search for runs: filters, what matched by status, and a page of the runs in the order that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pandas as pd
import streamlit as st
from sqlalchemy import URL

from tmflow.analysis.variants import variants
from tmflow.base import escaping
from tmflow.portal.badges import WORDS, status_badge
from tmflow.portal.figure_view import width_of
from tmflow.portal.pages.run_detail import table_csv, table_json
from tmflow.portal.study_data import Identity, Study
from tmflow.portal.url_state import DATA, EVERY_FACTOR, TOLD, Filter, Key, Selection, choose, go_to, wanted
from tmflow.spec.trial import TrialSpec
from tmflow.store import engine, search
from tmflow.store.queries import Value
from tmflow.store.search import Asked, Order

REACH = 10_000  # runs that pages, and files of runs, go up to
LONGEST = 100  # characters of a text that is looked for

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


def show(study: Study) -> None:
    """The whole page; all that was chosen is in the URL."""
    asked, tally = _asked(study)
    view = choose(_VIEW, tally, {key: words for key, (words, _, _) in ORDERS.items()})
    by_status = {str(status): int(n) for status, n in tally.groupby("status")["n_runs"].sum().items()}
    total, of_all = sum(by_status.values()), int(study.counts["n_runs"].sum())
    if not total:
        st.info(f"None of the {of_all:,} runs matches: take a filter away, or another search text.")
        return
    _bar(by_status, total, of_all)
    _, order, down = ORDERS[view.one(Key.SORT)]
    rows = int(view.one(Key.ROWS))
    page = _pages(min(total, REACH), rows)
    _table(_page(study.url, study.identity, asked, order, down, rows, rows * (page - 1)))
    if total > REACH:
        st.caption(
            f"Pages and files have the first {REACH:,} of these {total:,} runs, in this order: narrow the search, or "
            "turn the order round, for the others."
        )
    _files(study, asked, order, down, total)


def _asked(study: Study) -> tuple[Asked, pd.DataFrame]:
    """What the filters and the search text ask for, and the tally of the runs that match."""
    counts = study.counts.assign(definition=study.counts["definition_sha256"].str[: search.DEFINITION])
    names = study.platform_names
    text = _text()
    first = st.container()
    more = st.expander("More filters", expanded=any(entry.key in wanted() for entry in (*_MORE_OF_DATA, *_MORE)))
    with first:
        data = choose(_useful(_FIRST_OF_DATA, counts), counts, names)
    with more:
        more_data = choose(_useful(_MORE_OF_DATA, counts), data.rows)
    chosen = {**data.chosen, **more_data.chosen}
    asked = Asked(
        experiments=chosen.get(Key.EXPERIMENT, ()),
        scales=chosen.get(Key.SCALE, ()),
        definitions=chosen.get(Key.DEFINITION, ()),
        platforms=chosen.get(Key.PLATFORM, ()),
        evidences=chosen.get(Key.EVIDENCE, ()),
        joined=study.joined,
    )
    tally = _tally(study.url, study.identity, asked)
    with first:
        few = choose(_FIRST, tally, WORDS)
    with more:
        rest = choose(_useful(_MORE, tally), few.rows)
    asked = asked._replace(statuses=few.chosen[Key.STATUS], factors=(*_factors(few), *_factors(rest)), text=text)
    return asked, _tally(study.url, study.identity, asked) if text else rest.rows


def _useful(filters: Sequence[Filter], table: pd.DataFrame) -> list[Filter]:
    """Those that have something to choose, or that the URL asks for."""
    return [entry for entry in filters if table[entry.key].nunique() > 1 or entry.key in wanted()]


def _factors(selection: Selection) -> tuple[tuple[str, tuple[Value, ...]], ...]:
    """What was chosen of each factor, as the database has it."""
    found = []
    for name in TrialSpec.model_fields:
        if selection.chosen.get(name):
            values = {str(value): value for value in selection.rows[name].dropna().unique().tolist()}
            found.append((name, tuple(values[text] for text in selection.chosen[name])))
    return tuple(found)


def _text() -> str:
    """The search text of the URL, in its box; what is too long or cannot be in a text is told."""
    given = st.query_params.get(Key.SEARCH, "")
    text = "".join(character for character in given if character.isprintable()).strip()[:LONGEST]
    if text != given:
        st.warning(
            f"The link asks for a text that cannot be looked for: looking for '{escaping.markdown(text[:TOLD])}'."
        )
    st.session_state[Key.SEARCH] = text
    st.text_input(
        "Search",
        key=Key.SEARCH,
        max_chars=LONGEST,
        type="search",
        placeholder="Words of a reason, or a uid or its first 4 characters",
        on_change=lambda: go_to({Key.SEARCH: _written()}, [Key.SEARCH]),
    )
    return text


def _written() -> list[str]:
    text = st.session_state[Key.SEARCH].strip()
    return [text] if text else []


def _bar(by_status: Mapping[str, int], total: int, of_all: int) -> None:
    """How many matched, and how they ended."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{total:,}** of {of_all:,} runs match:", width="content")
        for status in WORDS:
            if status in by_status:
                status_badge(status, by_status[status])


def _pages(reachable: int, rows: int) -> int:
    """The page that the URL asks for, from 1; where there are several, with a way to the others."""
    last = -(-reachable // rows)
    wish = st.query_params.get(Key.PAGE, "1")
    page = int(wish) if wish.isascii() and wish.isdigit() and len(wish) < 9 else 0
    if not 1 <= page <= last:
        st.warning(
            f"The link asks for page '{escaping.markdown(wish[:TOLD])}', and pages go from 1 to {last}: showing 1."
        )
        page = 1
    if last > 1:
        key = f"page {page} of {last}"
        st.pagination(last, default=page, key=key, on_change=lambda: go_to({Key.PAGE: [str(st.session_state[key])]}))
    return page


def _table(runs: pd.DataFrame) -> None:
    """The runs of a page; choosing a row opens its run."""
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
            **{name: st.column_config.TextColumn(width=width_of(rows[name])) for name in ("experiment", "strategy")},
            "platform_name": "platform",
            "started_at_utc": "started (UTC)",
        },
        on_select=lambda: _open(runs["uid"]),
        selection_mode="single-row",
        key="rows_of_page",
        alt=f"Table of {len(runs)} runs",
    )
    st.caption("Choose a row to see its run in full. A click on a heading sorts this page alone; Sort above, all runs.")


def _open(uids: pd.Series) -> None:
    chosen = st.session_state["rows_of_page"]["selection"]["rows"]
    if chosen:
        st.query_params[Key.RUN] = uids.iloc[chosen[0]]


def _files(study: Study, asked: Asked, order: Order, down: bool, total: int) -> None:
    """All that match as files, made when they are asked for."""
    which = f"of all {total:,}" if total <= REACH else f"of the first {REACH:,} of {total:,}"

    with st.container(horizontal=True):
        for label, mime, form in (("CSV", "text/csv", table_csv), ("JSON", "application/json", table_json)):
            st.download_button(
                f"{label} {which}",
                partial(_file, form, study, asked, order, down),
                file_name=f"runs.{label.lower()}",
                mime=mime,
                icon=":material/download:",
                on_click="ignore",
            )


def _file(form: Callable[[pd.DataFrame], str], study: Study, asked: Asked, order: Order, down: bool) -> str:
    return form(search.page(study.reader(), asked, order, down=down, rows=REACH))


# A URL may hold a password, so its hash is not taken: `identity` stands for it.


@st.cache_data(show_spinner="Counting the runs", max_entries=32)
def _tally(_url: URL, identity: Identity, asked: Asked) -> pd.DataFrame:
    return search.tally(engine.open_reader(_url), asked)


@st.cache_data(show_spinner="Reading the runs", max_entries=32)
def _page(
    _url: URL, identity: Identity, asked: Asked, order: Order, down: bool, rows: int, offset: int
) -> pd.DataFrame:
    return search.page(engine.open_reader(_url), asked, order, down=down, rows=rows, offset=offset)
