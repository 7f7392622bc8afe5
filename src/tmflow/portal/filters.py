"""Filters that live in the URL: a link opens exactly its view, and back and forward step through the views.

Streamlit's own binding of widgets to the URL replaces the address instead of adding to the history, leaves defaults out
(so a link would change its meaning as data arrives) and drops a wrong value silently. So here the URL is the state: a
page resolves it against the runs, and a widget that changes writes the whole resolved selection back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, get_args

import pandas as pd
import streamlit as st

from tmflow import strategy_parameters
from tmflow.palette import ordered
from tmflow.point import WAYS
from tmflow.spec import Evidence, Status
from tmflow.train.models import MODEL_FACTORS

ALL = "all"
WIDTH = 165  # px: two side by side on a phone


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
    BASELINE = "baseline"
    THREADS = "threads"
    RUN = "run"


ORDER: dict[str, tuple[str, ...]] = {
    Key.SCALE: ("full", "quick", "adhoc"),
    Key.EVIDENCE: get_args(Evidence),
    Key.STATUS: get_args(Status),
}


class Filter(NamedTuple):
    """A choice of one. Without `options` it offers what the runs have in column `key`, and keeps those that match.

    One that does not narrow leaves the runs as they are: the page uses the choice for a part of itself. One of a factor
    is there only where the runs differ in it, and keeps those to which it does not apply.
    """

    key: str
    label: str
    options: tuple[str, ...] = ()
    with_all: bool = False
    narrows: bool = True
    of_factor: bool = False


DATA = (
    Filter(Key.EXPERIMENT, "Experiment"),
    Filter(Key.SCALE, "Scale"),
    Filter(Key.PLATFORM, "Platform"),
    Filter(Key.EVIDENCE, "Evidence"),
    Filter(Key.DATASET, "Dataset"),
)


# Every factor that a new one of the spec may add: how a trial ran, and the parameters of strategies.
OF_FACTORS = tuple(
    Filter(name, name.replace("_", " ").capitalize(), with_all=True, of_factor=True)
    for name in ("model", *MODEL_FACTORS, *WAYS, *strategy_parameters.PARAMETERS)
)


class Selection(NamedTuple):
    """What was chosen for each key, what could be chosen, the runs left, and what was wrong with the wish."""

    chosen: dict[str, str]
    options: dict[str, Sequence[str]]
    runs: pd.DataFrame
    problems: list[str]


def resolve(filters: Sequence[Filter], runs: pd.DataFrame, wanted: Mapping[str, str]) -> Selection:
    """Narrow the runs filter by filter; a wish that cannot be met falls back to the first option, and says so."""
    selection = Selection({}, {}, runs, [])
    for key, label, fixed, with_all, narrows, of_factor in filters:
        values = fixed or _values(selection.runs, key)
        options = (ALL, *values) if with_all else values
        value = wanted.get(key, options[0])
        if value not in options:
            selection.problems.append(
                f"The link asks for {label.lower()} '{value}', which is not here: showing '{options[0]}'."
            )
            value = options[0]
        if of_factor and len(values) < 2:
            continue
        selection.chosen[key], selection.options[key] = value, options
        if narrows and not fixed and value != ALL:
            column = selection.runs[key]
            kept = (column.isna() & of_factor) | (column.astype("str") == value)
            selection = selection._replace(runs=selection.runs[kept])
    return selection


def _values(runs: pd.DataFrame, key: str) -> tuple[str, ...]:
    """What the runs have in a column: planned before ad hoc, real before substitute, else by name."""
    values = set(runs[key].dropna())
    if key == Key.EXPERIMENT:
        planned = set(runs.loc[runs["scale"] != "adhoc", key])
        return tuple(sorted(values, key=lambda value: (value not in planned, value)))
    if key == Key.STRATEGY:
        return tuple(ordered(values))
    if pd.api.types.is_integer_dtype(runs[key]):
        return tuple(str(number) for number in sorted(values))
    known = ORDER.get(key, ())
    return (*(value for value in known if value in values), *sorted(values - set(known)))


def choose(filters: Sequence[Filter], runs: pd.DataFrame, names: Mapping[str, str] | None = None) -> Selection:
    """Show the filters as the URL says, and what is wrong with the URL; `names` are longer words for options."""
    selection = resolve(filters, runs, st.query_params.to_dict())
    for problem in selection.problems:
        st.warning(problem)
    words = names or {}
    with st.container(horizontal=True):
        for key, label in ((entry.key, entry.label) for entry in filters if entry.key in selection.chosen):
            st.session_state[key] = selection.chosen[key]
            st.selectbox(
                label,
                selection.options[key],
                key=key,
                format_func=lambda option: words.get(option, option),
                on_change=_write,
                args=(filters, runs, selection.chosen, key),
                width=WIDTH,
            )
    return selection


def _write(filters: Sequence[Filter], runs: pd.DataFrame, chosen: Mapping[str, str], changed: str) -> None:
    """The URL after a change: what was chosen before as far as the change leaves it possible."""
    others = {key: value for key, value in st.query_params.items() if key not in {entry.key for entry in filters}}
    now = resolve(filters, runs, {**chosen, changed: st.session_state[changed]}).chosen
    st.query_params.from_dict({**others, **now})
