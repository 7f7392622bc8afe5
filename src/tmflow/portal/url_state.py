"""Filters whose state is the URL: a link opens exactly its view, and the browser's history steps through the views.

Streamlit's own binding of widgets to the URL replaces the address instead of adding to the history, omits defaults (so
the meaning of a link would change as data arrives) and silently drops wrong values. Here the URL is the state: a page
resolves it against a table, and a changed widget writes the complete resolved selection back. A choice of several
values repeats its parameter.
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
WIDTH = 165  # px: two fit side by side on a phone
WIDE = 2 * WIDTH + 16  # px: a filter of several values
WRITTEN = "the URL as a change of a filter left it"  # a key of the session's state
JOINED = "sources"  # the value of the parameter `join` that pools the sources of a platform
MAX_QUOTED, FEW = 60, 3  # characters of a wrong value in a message, and the number of values it names
MOST, LONGEST = 100, 200  # largest number of values of a parameter, and their length in a shared link
REQUESTED = "the URL as the last run of a page was asked for"  # another key of the session's state
RESOLVED = "resolved"  # in the session's state: the resolved filters of the current page


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
    """A filter. Without `options` it offers the values of the table's column `key` and keeps the matching rows.

    narrows: False leaves the rows unchanged; the page uses the choice itself. of_factor: show the filter only if the
    rows differ in the factor, and keep rows without it. several: allow several values; the default is the first value,
    or with `with_all` none, which keeps all rows. counted: show the number of runs of each option (the sum of n_runs),
    and be narrow while nothing is chosen. wide: options have long names.
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

# Filters on `queries.counts`: the data that a page reads from the database.
DATA = (
    Filter(Key.EXPERIMENT, "Experiment"),
    Filter(Key.SCALE, "Scale"),
    PLATFORM,
    Filter(Key.EVIDENCE, "Evidence"),
)


# Factors of how a trial ran, and the parameters of strategies; new factors of the spec appear here.
OF_FACTORS = tuple(
    Filter(name, name.replace("_", " ").capitalize(), with_all=True, of_factor=True)
    for name in ("dataset", "model", *MODEL_FACTORS, *WAYS, *strategies.PARAMETERS)
)

# Every factor of a spec, for the search for runs.
EVERY_FACTOR = tuple(
    Filter(name, name.replace("_", " ").capitalize(), with_all=True, several=True, counted=True)
    for name in TrialSpec.model_fields
)

Chosen = dict[str, tuple[str, ...]]


class Selection(NamedTuple):
    """The choice and the options of each key, the remaining rows, and the problems of the requested values.

    `counts` has the number of runs of each option of a counted filter.
    """

    chosen: Chosen
    options: dict[str, Sequence[str]]
    rows: pd.DataFrame
    problems: list[str]
    counts: dict[str, dict[str, int]]

    def one(self, key: str) -> str:
        """The choice of a filter with a single value."""
        (value,) = self.chosen[key]
        return value


Defaults = Mapping[str, Sequence[str]]
"""Defaults for keys that a URL may omit: the first of the values that is available."""


def resolve(
    filters: Sequence[Filter],
    table: pd.DataFrame,
    wishes: Mapping[str, Sequence[str]],
    defaults: Defaults = MappingProxyType({}),
) -> Selection:
    """Narrow the rows filter by filter; an unavailable value is replaced by the default and reported."""
    selection = Selection({}, {}, table, [], {})
    for entry in filters:
        key = entry.key
        values = entry.options or _values(selection.rows, key)
        options = (ALL, *values) if entry.with_all and not entry.several else values
        begin = [value for value in defaults.get(key, ()) if value in options] or options
        chosen = _match_options(entry, options, wishes.get(key, ()), begin[0] if begin else None, selection.problems)
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


def _match_options(
    entry: Filter, options: Sequence[str], wishes: Sequence[str], begin: str | None, problems: list[str]
) -> tuple[str, ...]:
    """The requested values among the options, in their order; otherwise the default of the filter."""
    matching = tuple(option for option in options if option in wishes)
    first = () if begin is None or (entry.several and entry.with_all) else (begin,)
    chosen = (matching if entry.several else matching[:1]) or first
    missing = [wish for wish in dict.fromkeys(wishes) if wish not in options]
    showing = f"showing {_quoted(chosen, 'and') or 'all'}."
    if missing:
        are = "is" if len(missing) == 1 else "are"
        problems.append(
            f"The link asks for {entry.label.lower()} {_quoted(missing, 'and')}, which {are} not here: {showing}"
        )
    elif len(matching) > len(chosen):
        problems.append(f"The link asks for more than one {entry.label.lower()}: {showing}")
    return chosen


def _quoted(values: Sequence[str], last: str) -> str:
    """Quote the first few values for a sentence."""
    quoted = [f"'{value[:MAX_QUOTED]}'" for value in values[:FEW]]
    quoted += [f"{len(values) - FEW} more"] if len(values) > FEW else []
    return quoted[0] if len(quoted) == 1 else f" {last} ".join([", ".join(quoted[:-1]), quoted[-1]]) if quoted else ""


def _by_figure(experiment: str) -> tuple[bool, list[int], str]:
    """Sort key: figures of the study first, by number, then other experiments by name."""
    figure = figure_of_the_study(experiment)
    return figure is None, [int(part) for part in figure.split(".")] if figure else [], experiment


def _values(table: pd.DataFrame, key: str) -> tuple[str, ...]:
    """The distinct values of a column of the table, sorted.

    Figures of the study come first, planned before ad hoc experiments; platforms with runs that were ingested here come
    before contributed ones, those with more runs first; strategies and numbers keep their order; others go by name.
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
    order = ORDER.get(key, ())
    return (*(value for value in order if value in values), *map(str, sorted(values - set(order))))


def keep_address() -> None:
    """Write the requested parameters to the browser's address and history; call it before every page.

    If a link leads to another view of the same page, Streamlit (1.67) shows that view without changing the address.
    Writing an unchanged address has no effect.
    """
    requested = url_parameters()
    if st.session_state.setdefault(REQUESTED, requested) != requested:
        st.session_state[REQUESTED] = requested
        st.query_params.from_dict(requested)


def begin() -> None:
    """Start a page: a link that names a view (`?view=...`) is redirected to the view's page and choices."""
    st.session_state[RESOLVED] = {}
    name = st.query_params.get(Key.VIEW)
    if name is None:
        return
    try:
        view = saved_views.load_views(saved_views.path()).get(name)
        if view is not None:
            # The file may be hand-written: a view that names a view could redirect forever.
            choices = {key: values for key, values in view.choices.items() if key != Key.VIEW}
            st.switch_page(f"views/{view.page}.py", query_params=choices)
        problem = f"The link asks for the view '{name[:MAX_QUOTED]}', which is not saved here."
    except BadInput as error:
        problem = str(error)
    except StreamlitAPIException:
        problem = f"The link asks for the view '{name[:MAX_QUOTED]}', whose page is not here."
    st.warning(escaping.markdown(problem))


def url_parameters(side: str = "") -> dict[str, list[str]]:
    """The values of the URL parameters that begin with the prefix `side`, by key without the prefix."""
    return {
        key.removeprefix(side): st.query_params.get_all(key)[:MOST] for key in st.query_params if key.startswith(side)
    }


def sources_joined() -> bool:
    """Whether the URL asks to pool the sources of each platform."""
    return st.query_params.get(Key.JOIN) == JOINED


def current_choices() -> dict[str, list[str]]:
    """The URL parameters that open the current view, including resolved defaults.

    Parameters that no page uses are left out.
    """
    allowed = {*Key, *(entry.key for entry in OF_FACTORS)} - {Key.VIEW}
    passed = {
        key: kept
        for key, values in url_parameters().items()
        if key.rpartition(".")[2] in allowed and (kept := [value for value in values if len(value) <= LONGEST])
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
    """Show the filters with the choices of the URL, and the problems of the URL; `names` are labels of options.

    side: a prefix of the keys in the URL, for pages with several selections. behind: the label of an expander that
    holds the filters. A value that became impossible because the visitor changed another filter is dropped from the
    URL without a message.
    """
    selection = resolve(filters, table, url_parameters(side), defaults)
    if selection.problems and url_parameters() == st.session_state.get(WRITTEN):
        _replace_selection(filters, selection.chosen, side)
        selection.problems.clear()
    for problem in selection.problems:
        st.warning(escaping.markdown(problem))
    st.session_state.setdefault(RESOLVED, {}).update(
        {f"{side}{key}": values for key, values in selection.chosen.items()}
    )
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
    """Write the URL after a change; other choices stay if the change leaves them possible."""
    value = st.session_state[f"{side}{changed}"]
    wish = {**chosen, changed: [value] if isinstance(value, str) else value}
    _replace_selection(filters, resolve(filters, table, wish, defaults).chosen, side)


def _replace_selection(filters: Sequence[Filter], chosen: Chosen, side: str) -> None:
    go_to({f"{side}{key}": values for key, values in chosen.items()}, [f"{side}{entry.key}" for entry in filters])


def go_to(chosen: Mapping[str, Sequence[str]], instead_of: Sequence[str] = ()) -> None:
    """Write a selection to the URL in place of these keys; other parameters stay.

    The page number of a list is reset.
    """
    others = {key: values for key, values in url_parameters().items() if key not in (*instead_of, Key.PAGE)}
    st.query_params.from_dict({key: list(values) for key, values in {**others, **chosen}.items()})
    st.session_state[WRITTEN] = url_parameters()
