"""The widgets of filters, and the browser's address: a link opens exactly its view, and the history has every view.

Streamlit's own binding of widgets to the URL replaces the address instead of adding to the history, omits defaults (so
the meaning of a link would change as data arrives) and silently drops wrong values. Here the URL is the state: a page
resolves it against a table, and a changed widget writes the complete resolved selection back. A choice of several
values repeats its parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.errors import StreamlitAPIException

from tmflow.analysis.summaries import TARGETS
from tmflow.base.errors import BadInput
from tmflow.base.text import listed, markdown, percent
from tmflow.portal import saved_views
from tmflow.portal.url_state import (
    JOINED,
    LEAST_TARGET,
    MAX_QUOTED,
    OF_FACTORS,
    Choice,
    Chosen,
    Defaults,
    Filter,
    Key,
    Selection,
    ValueFilter,
    ValuesFilter,
    parse_target,
    resolve,
)

WIDTH = 165  # px: two fit side by side on a phone
WIDE = 2 * WIDTH + 16  # px: a filter of several values
SENTENCE = 480  # px: a choice among long names, such as platforms
MOST, LONGEST = 100, 400  # largest number of values of a parameter, and their length in a shared link
# Keys of the session's state:
WRITTEN = "the URL as a change of a filter left it"
REQUESTED = "the URL as the last run of a page was asked for"
RESOLVED = "resolved"  # the resolved filters of the current page


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
        if view is None:
            warn_unknown("the view", name, "which is not saved here.")
            return
        # The file may be hand-written: a view that names a view could redirect forever.
        choices = {key: values for key, values in view.choices.items() if key != Key.VIEW}
        st.switch_page(f"views/{view.page}.py", query_params=choices)
    except BadInput as error:
        st.warning(markdown(error))
    except StreamlitAPIException:
        warn_unknown("the view", name, "whose page does not exist.")


def warn_unknown(what: str, value: str, consequence: str) -> None:
    """Warn that the link asks for a value that does not exist."""
    st.warning(f"The link asks for {what} '{markdown(value[:MAX_QUOTED])}', {consequence}")


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
    names: Mapping[str, str] = MappingProxyType({}),
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
    chosen_before = selection.chosen  # for the callback, which would otherwise keep the selection's table alive

    def with_side(chosen: Chosen) -> Chosen:
        return {f"{side}{key}": values for key, values in chosen.items()}

    def replace(chosen: Chosen) -> None:
        go_to(with_side(chosen), [f"{side}{entry.key}" for entry in filters])

    def write(changed: str) -> None:
        """Write the URL after a change; other choices stay if the change leaves them possible."""
        value = st.session_state[f"{side}{changed}"]
        requested = {**chosen_before, changed: [value] if isinstance(value, str) else value}
        replace(resolve(filters, table, requested, defaults).chosen)

    if selection.problems and url_parameters() == st.session_state.get(WRITTEN):
        replace(selection.chosen)
        selection.problems.clear()
    for problem in selection.problems:
        st.warning(markdown(problem))
    share_choices(with_side(selection.chosen))
    with st.expander(behind) if behind else nullcontext(), st.container(horizontal=True):
        for entry in filters:
            if entry.key in selection.chosen:
                _show_widget(entry, selection, names, f"{side}{entry.key}", partial(write, entry.key))
    return selection


def _show_widget(entry: Filter, selection: Selection, names: Mapping[str, str], key: str, write: partial[None]) -> None:
    chosen, options = selection.chosen[entry.key], selection.options[entry.key]
    counts = {value: f" ({n:,})" for value, n in selection.counts.get(entry.key, {}).items()}

    def label(option: str) -> str:
        return names.get(option, option) + counts.get(option, "")

    if isinstance(entry, ValuesFilter):
        st.session_state[key] = list(chosen)
        width = WIDTH if entry.counted and not chosen else WIDE
        st.multiselect(entry.label, options, width=width, key=key, format_func=label, on_change=write)
    else:
        st.session_state[key] = chosen[0]
        width = SENTENCE if isinstance(entry, Choice | ValueFilter) and entry.wide else WIDTH
        st.selectbox(entry.label, options, width=width, key=key, format_func=label, on_change=write)


def go_to(chosen: Mapping[str, Sequence[str]], instead_of: Sequence[str] = ()) -> None:
    """Write a selection to the URL in place of these keys; other parameters stay.

    The page number of a list is reset.
    """
    others = {key: values for key, values in url_parameters().items() if key not in (*instead_of, Key.PAGE)}
    st.query_params.from_dict({key: list(values) for key, values in {**others, **chosen}.items()})
    st.session_state[WRITTEN] = url_parameters()


def share_choices(chosen: Chosen) -> None:
    """Add resolved choices to the link of the current view."""
    st.session_state.setdefault(RESOLVED, {}).update(chosen)


def choose_target() -> float | None:
    """Show the box for a target accuracy in percent; return that of the URL, a fraction, or None for the usual ones."""
    usual = listed([percent(target) for target in TARGETS])
    given = st.query_params.get(Key.TARGET)
    target = None if given is None else parse_target(given)
    if given is not None and target is None:
        warn_unknown("the target", given, f"but a target is from {LEAST_TARGET:g} to 100 %: showing {usual}.")

    def write() -> None:
        chosen = st.session_state[Key.TARGET]
        go_to({} if chosen is None else {Key.TARGET: [f"{chosen:g}"]}, [Key.TARGET])

    st.session_state[Key.TARGET] = target
    st.number_input(
        "Target accuracy (%)", LEAST_TARGET, 100.0, None, key=Key.TARGET, format="%g", step=1.0, placeholder=usual,
        on_change=write, width=WIDTH,
    )  # fmt: skip
    return None if target is None else target / 100


def search_box(label: str, text: str, **options: Any) -> None:
    """Show a search box with this text; a change is written to the URL."""
    text_box(Key.SEARCH, label, text, **options)


def text_box(key: Key, label: str, text: str, **options: Any) -> None:
    """Show a box with this text; a change is written to the URL, and an empty box removes the parameter."""

    def write() -> None:
        words = st.session_state[key].strip()
        go_to({key: [words]} if words else {}, [key])

    st.session_state[key] = text
    st.text_input(label, key=key, on_change=write, **options)
