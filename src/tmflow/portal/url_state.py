"""Filters that live in the URL: a link opens exactly its view, and back and forward step through the views.

Streamlit's own binding of widgets to the URL replaces the address instead of adding to the history, leaves defaults out
(so a link would change its meaning as data arrives) and drops a wrong value silently. So here the URL is the state: a
page resolves it against a table, and a widget that changes writes the whole resolved selection back. A choice of
several values is a parameter that is given several times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

import pandas as pd
import streamlit as st
from streamlit.errors import StreamlitAPIException

from tmflow.analysis.run_table import WAYS
from tmflow.analysis.variants import ordered_variants
from tmflow.base import escaping
from tmflow.base.errors import BadInput
from tmflow.charts.captions import figure_of_the_study
from tmflow.claims.verdict import Verdict
from tmflow.platform.key import is_local
from tmflow.portal import saved_views
from tmflow.spec import strategies
from tmflow.spec.models import MODEL_FACTORS
from tmflow.spec.trial import Evidence, Status, TrialSpec

ALL = "all"
WIDTH = 165  # px: two side by side on a phone
WIDE = 2 * WIDTH + 16  # of a choice of several
WRITTEN = "the URL as a change of a filter left it"  # a key of the session's state
JOINED = "sources"  # the value of the parameter `join`: the reader asks for the sources of a platform as one
TOLD, FEW = 60, 3  # characters of a wrong value that are repeated, and how many values of a choice
MOST, LONGEST = 100, 200  # values of a parameter that are read, and characters of one that a link passes on
ASKED = "the URL as the last run of a page was asked for"  # another
RESOLVED = "resolved"  # in the session: what the filters of the page that is being shown were resolved to


class Key(StrEnum):
    """The parameters of a URL; those of a filter are also its widget's key."""

    EXPERIMENT = "experiment"
    SCALE = "scale"
    PLATFORM = "platform"
    EVIDENCE = "evidence"
    DATASET = "dataset"
    STRATEGY = "strategy"
    STATUS = "status"
    METRIC = "metric"
    DEFINITION = "definition"
    SOFTWARE = "software"
    A = "a"
    B = "b"
    THREADS = "threads"
    RUN = "run"
    FIGURE = "figure"
    CLAIM = "claim"
    VERDICT = "verdict"
    VIEW = "view"
    X = "x"
    COLOUR = "colour"
    FACET = "facet"
    LOG = "log"
    PAGE = "page"
    SORT = "sort"
    ROWS = "rows"
    SEARCH = "search"
    TERM = "term"
    PART = "part"
    JOIN = "join"


ORDER: dict[str, tuple[str, ...]] = {
    Key.SCALE: ("full", "quick", "adhoc"),
    Key.EVIDENCE: get_args(Evidence),
    Key.STATUS: get_args(Status),
    Key.VERDICT: get_args(Verdict),
}


class Filter(NamedTuple):
    """A choice. Without `options` it offers what the table has in column `key`, and keeps the rows that match.

    One that does not narrow leaves the rows as they are: the page uses the choice for a part of itself. One of a factor
    is there only where the rows differ in it, and keeps those to which it does not apply. One of `several` values
    begins with the first, or, `with_all`, with none chosen, which keeps all. One that is `counted` tells of each option
    how many runs it has, the sum of the table's column n_runs, and is narrow while nothing is chosen: a search has
    many. A `wide` one has options with long names.
    """

    key: str
    label: str
    options: tuple[str, ...] = ()
    with_all: bool = False
    narrows: bool = True
    of_factor: bool = False
    several: bool = False
    wide: bool = False
    counted: bool = False


PLATFORM = Filter(Key.PLATFORM, "Platform", wide=True)

# Of `queries.counts`: what a page reads from the database.
DATA = (
    Filter(Key.EXPERIMENT, "Experiment"),
    Filter(Key.SCALE, "Scale"),
    PLATFORM,
    Filter(Key.EVIDENCE, "Evidence"),
)


# Every factor that a new one of the spec may add: how a trial ran, and the parameters of strategies.
OF_FACTORS = tuple(
    Filter(name, name.replace("_", " ").capitalize(), with_all=True, of_factor=True)
    for name in ("dataset", "model", *MODEL_FACTORS, *WAYS, *strategies.PARAMETERS)
)

# Every factor of a spec, of which a search for runs asks for any values.
EVERY_FACTOR = tuple(
    Filter(name, name.replace("_", " ").capitalize(), with_all=True, several=True, counted=True)
    for name in TrialSpec.model_fields
)

Chosen = dict[str, tuple[str, ...]]


class Selection(NamedTuple):
    """What was chosen for each key, what could be chosen, the rows left, and what was wrong with the wish.

    Of a filter that is counted, `counts` has the runs of each option.
    """

    chosen: Chosen
    options: dict[str, Sequence[str]]
    rows: pd.DataFrame
    problems: list[str]
    counts: dict[str, dict[str, int]]

    def one(self, key: str) -> str:
        """The choice of a filter of one value."""
        (value,) = self.chosen[key]
        return value


Defaults = Mapping[str, Sequence[str]]
"""For keys that a URL may leave out: what to begin with, the first of these that there is."""


def resolve(
    filters: Sequence[Filter],
    table: pd.DataFrame,
    wanted: Mapping[str, Sequence[str]],
    defaults: Defaults = MappingProxyType({}),
) -> Selection:
    """Narrow the rows filter by filter; a wish that cannot be met falls back to the first option, and says so."""
    selection = Selection({}, {}, table, [], {})
    for entry in filters:
        key = entry.key
        values = entry.options or _values(selection.rows, key)
        options = (ALL, *values) if entry.with_all and not entry.several else values
        begin = [value for value in defaults.get(key, ()) if value in options] or options
        chosen = _met(entry, options, wanted.get(key, ()), begin[0] if begin else None, selection.problems)
        if entry.of_factor and len(values) < 2:
            continue
        selection.chosen[key], selection.options[key] = chosen, options
        if entry.counted:
            n_runs = selection.rows.groupby(key)["n_runs"].sum()
            selection.counts[key] = {str(value): int(n) for value, n in n_runs.items()}
        if entry.narrows and not entry.options and chosen and ALL not in chosen:
            column = selection.rows[key]
            kept = (column.isna() & entry.of_factor) | column.astype("str").isin(list(chosen))
            selection = selection._replace(rows=selection.rows[kept])
    return selection


def _met(
    entry: Filter, options: Sequence[str], wishes: Sequence[str], begin: str | None, problems: list[str]
) -> tuple[str, ...]:
    """The wishes that are among the options, in their order; else what the filter begins with."""
    met = tuple(option for option in options if option in wishes)
    first = () if begin is None or (entry.several and entry.with_all) else (begin,)
    chosen = (met if entry.several else met[:1]) or first
    missing = [wish for wish in dict.fromkeys(wishes) if wish not in options]
    showing = f"showing {_quoted(chosen, 'and') or 'all'}."
    if missing:
        are = "is" if len(missing) == 1 else "are"
        problems.append(
            f"The link asks for {entry.label.lower()} {_quoted(missing, 'and')}, which {are} not here: {showing}"
        )
    elif len(met) > len(chosen):
        problems.append(f"The link asks for more than one {entry.label.lower()}: {showing}")
    return chosen


def _quoted(values: Sequence[str], last: str) -> str:
    """The first few of the values, as a sentence names them."""
    told = [f"'{value[:TOLD]}'" for value in values[:FEW]]
    told += [f"{len(values) - FEW} more"] if len(values) > FEW else []
    return told[0] if len(told) == 1 else f" {last} ".join([", ".join(told[:-1]), told[-1]]) if told else ""


def _by_figure(experiment: str) -> tuple[bool, list[int], str]:
    """The figures of the study first, in their order; then all else by name."""
    figure = figure_of_the_study(experiment)
    return figure is None, [int(part) for part in figure.split(".")] if figure else [], experiment


def _values(table: pd.DataFrame, key: str) -> tuple[str, ...]:
    """What the table has in a column.

    Figures of the study first, planned before ad hoc, real before substitute, strategies and numbers in their order,
    platforms with runs that were ingested here before contributed ones, the one with the most runs first, all else by
    name.
    """
    values = set(table[key].dropna())
    if key == Key.EXPERIMENT:
        planned = set(table.loc[table["scale"] != "adhoc", key])
        return tuple(sorted(values, key=lambda name: (name not in planned, *_by_figure(str(name)))))
    if key == Key.STRATEGY:
        return tuple(ordered_variants(values))
    if key == Key.PLATFORM and "n_runs" in table:
        runs = table.groupby(key)["n_runs"].sum()
        return tuple(sorted(values, key=lambda value: (not is_local(value), -runs[value], value)))
    if pd.api.types.is_integer_dtype(table[key]):
        return tuple(str(number) for number in sorted(values))
    known = ORDER.get(key, ())
    return (*(value for value in known if value in values), *map(str, sorted(values - set(known))))


def keep_address() -> None:
    """Before every page: put what the page is asked for into the browser's address and history.

    Where a link leads from a page to another view of the same page, Streamlit (1.67) shows that view and leaves the
    address as it is. The browser does nothing with what it has already; nor is a link from elsewhere rewritten.
    """
    asked = wanted()
    if st.session_state.setdefault(ASKED, asked) != asked:
        st.session_state[ASKED] = asked
        st.query_params.from_dict(asked)


def begin() -> None:
    """At the start of a page: a link that names a view (`?view=...`) goes on to its page and its choices."""
    st.session_state[RESOLVED] = {}
    name = st.query_params.get(Key.VIEW)
    if name is None:
        return
    try:
        view = saved_views.saved(saved_views.path()).get(name)
        if view is not None:
            # The file may have been written by hand: a view that named one would go in circles.
            choices = {key: values for key, values in view.choices.items() if key != Key.VIEW}
            st.switch_page(f"views/{view.page}.py", query_params=choices)
        problem = f"The link asks for the view '{name[:TOLD]}', which is not saved here."
    except BadInput as error:
        problem = str(error)
    except StreamlitAPIException:
        problem = f"The link asks for the view '{name[:TOLD]}', which is of a page that is not here."
    st.warning(escaping.markdown(problem))


def wanted(side: str = "") -> dict[str, list[str]]:
    """The parameters of the URL that begin with `side`, without it, each with its values."""
    return {
        key.removeprefix(side): st.query_params.get_all(key)[:MOST] for key in st.query_params if key.startswith(side)
    }


def sources_joined() -> bool:
    """Whether the URL asks for the sources of each platform as one."""
    return st.query_params.get(Key.JOIN) == JOINED


def present() -> dict[str, list[str]]:
    """What the page shows, as parameters of a URL that opens just that: choices made for the reader are among them.

    What no page knows is left out.
    """
    known = {*Key, *(entry.key for entry in OF_FACTORS)} - {Key.VIEW}
    passed = {
        key: kept
        for key, values in wanted().items()
        if key.rpartition(".")[2] in known and (kept := [value for value in values if len(value) <= LONGEST])
    }
    return {**passed, **{key: list(values) for key, values in st.session_state.get(RESOLVED, {}).items()}}


def choose(
    filters: Sequence[Filter],
    table: pd.DataFrame,
    names: Mapping[str, str] | None = None,
    side: str = "",
    defaults: Defaults = MappingProxyType({}),
    behind: str | None = None,
) -> Selection:
    """Show the filters as the URL says, and what is wrong with the URL; `names` are longer words for options.

    `side` stands before each key in the URL: a page with several selections tells them apart by it. behind: the label
    of what is opened to see them. A wish that the visitor's own change of another filter made impossible is no wrong
    link: it is dropped from the URL.
    """
    selection = resolve(filters, table, wanted(side), defaults)
    if selection.problems and wanted() == st.session_state.get(WRITTEN):
        _put(filters, selection.chosen, side)
        selection.problems.clear()
    for problem in selection.problems:
        st.warning(escaping.markdown(problem))
    st.session_state.setdefault(RESOLVED, {}).update({f"{side}{key}": its for key, its in selection.chosen.items()})
    words = names or {}
    with st.expander(behind) if behind else nullcontext(), st.container(horizontal=True):
        for entry in filters:
            if entry.key in selection.chosen:
                _widget(entry, selection, words, (filters, table, side, defaults))
    return selection


def _widget(
    entry: Filter,
    selection: Selection,
    words: Mapping[str, str],
    context: tuple[Sequence[Filter], pd.DataFrame, str, Defaults],
) -> None:
    chosen, options = selection.chosen[entry.key], selection.options[entry.key]
    key = f"{context[2]}{entry.key}"
    shared: dict[str, Any] = {
        "key": key,
        "format_func": lambda option: (
            words.get(option, option) + _runs(selection.counts.get(entry.key, {}).get(option))
        ),
        "on_change": _write,
        "args": (*context, selection.chosen, entry.key),
    }
    if entry.several:
        st.session_state[key] = list(chosen)
        st.multiselect(entry.label, options, width=WIDTH if entry.counted and not chosen else WIDE, **shared)
    else:
        st.session_state[key] = chosen[0]
        st.selectbox(entry.label, options, width=WIDE if entry.wide else WIDTH, **shared)


def _runs(n: int | None) -> str:
    return "" if n is None else f" ({n:,})"


def _write(
    filters: Sequence[Filter], table: pd.DataFrame, side: str, defaults: Defaults, chosen: Chosen, changed: str
) -> None:
    """The URL after a change: what was chosen before as far as the change leaves it possible."""
    value = st.session_state[f"{side}{changed}"]
    wish = {**chosen, changed: [value] if isinstance(value, str) else value}
    _put(filters, resolve(filters, table, wish, defaults).chosen, side)


def _put(filters: Sequence[Filter], chosen: Chosen, side: str) -> None:
    go_to({f"{side}{key}": its for key, its in chosen.items()}, [f"{side}{entry.key}" for entry in filters])


def go_to(chosen: Mapping[str, Sequence[str]], instead_of: Sequence[str] = ()) -> None:
    """Put a selection into the URL, in place of these keys; all other parameters stay as they are.

    But for the page of a list: another selection is shown from its first.
    """
    others = {key: values for key, values in wanted().items() if key not in (*instead_of, Key.PAGE)}
    st.query_params.from_dict({key: list(values) for key, values in {**others, **chosen}.items()})
    st.session_state[WRITTEN] = wanted()
