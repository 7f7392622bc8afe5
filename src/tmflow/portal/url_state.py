"""Filters whose state is the URL: the parameters, the filters, and the selection that a URL requests.

A page resolves the parameters against a table. A requested value that the table does not have is replaced by the
default and reported in a sentence. `tmflow.portal.filter_widgets` shows the filters and writes changes to the URL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import get_args

import pandas as pd

from tmflow.analysis.run_table import WAYS
from tmflow.analysis.variants import ordered_variants
from tmflow.analysis.versions import Versions
from tmflow.base.text import listed
from tmflow.charts.captions import figure_of_the_study
from tmflow.claims.verdict import Verdict
from tmflow.platform.facts import is_local
from tmflow.spec import strategies
from tmflow.spec.factors import ADVISED_DRIVERS, DRIVER_FACTORS
from tmflow.spec.models import MODEL_FACTORS
from tmflow.spec.trial import Evidence, Status

ALL = "all"
JOINED = "sources"  # the value of the parameter `join` that pools the sources of a platform
LEAST_TARGET = 0.1  # percent of test accuracy
MAX_QUOTED, FEW = 60, 3  # characters of a wrong value in a message, and the number of values it names


class Key(StrEnum):
    """The parameters of a URL; those of a filter are also its widget's key."""

    EXPERIMENT = "experiment"
    SCALE = "scale"
    PLATFORM = "platform"
    EVIDENCE = "evidence"
    DATASET = "dataset"
    MODEL = "model"
    STRATEGY = "strategy"
    STATUS = "status"
    METRIC = "metric"
    DEFINITION = "definition"
    SOFTWARE = "software"
    A = "a"
    B = "b"
    C = "c"
    D = "d"
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
    COLUMNS = "columns"
    TARGET = "target"
    SEARCH = "search"
    TERM = "term"
    PART = "part"
    JOIN = "join"
    VERSIONS = "versions"
    CAMPAIGN = "campaign"
    SINCE = "since"
    UNTIL = "until"
    SHAPES = "shapes"
    STEP_US = "step_us"
    WORKERS = "workers"
    CONSISTENCY = "consistency"


ORDER: dict[str, tuple[str, ...]] = {
    Key.SCALE: ("full", "quick", "adhoc"),
    Key.EVIDENCE: get_args(Evidence),
    Key.STATUS: get_args(Status),
    Key.VERDICT: get_args(Verdict),
}

# The names that links of earlier versions have for a value.
EARLIER_NAMES: dict[str, dict[str, Verdict]] = {
    Key.VERDICT: {
        "reproduced": "holds here", "contradicted": "does not hold here", "untested": "untested here",
    },
}  # fmt: skip


@dataclass(frozen=True)
class Filter:
    """A filter: its parameter in the URL, which is also the key of its widget, and its label."""

    key: str
    label: str


@dataclass(frozen=True)
class Choice(Filter):
    """A choice of one of these options, the first by default. The page uses it; the rows stay."""

    options: tuple[str, ...]
    wide: bool = False
    """The options have long names."""


@dataclass(frozen=True)
class ValueFilter(Filter):
    """A filter of one value of the column `key`, by default its first; it keeps the rows with this value."""

    wide: bool = False
    """The values have long names."""
    of_factor: bool = False
    """Hide the filter unless the rows differ in the column; keep the rows without a value."""


@dataclass(frozen=True)
class ValuesFilter(Filter):
    """A filter of several values of the column `key`; by default none, which keeps all rows."""

    of_factor: bool = False
    """As in `ValueFilter`."""
    required: bool = False
    """The default is the first value."""
    counted: bool = False
    """Show the number of runs with each value (the sum of n_runs), and be narrow while nothing is chosen."""


PLATFORM = ValueFilter(Key.PLATFORM, "Platform", wide=True)
DEFINITION = ValueFilter(Key.DEFINITION, "Definition", of_factor=True)
VERSIONS = Choice(Key.VERSIONS, "Software version", get_args(Versions))

# Filters on `queries.counts`: the data that a page reads from the database.
DATA = (
    ValueFilter(Key.EXPERIMENT, "Experiment", wide=True),
    ValueFilter(Key.SCALE, "Scale"),
    PLATFORM,
    ValueFilter(Key.EVIDENCE, "Evidence"),
)


LABELS = {
    "matrix": "Input pixels", "mode": "Mode of updates", "servers": "Parameter servers",
    "slowdown": "Slowdown of the last worker", "shapes": "Shapes of the variables",
    "architecture": "Hash of the user's model", "steps_per_call": "Steps in a call", "step_us": "Work in a step (us)",
}  # fmt: skip
"""The labels of factors that are not called by their names."""


def factor_label(name: str) -> str:
    """The label of the filter of a factor or another column."""
    return LABELS.get(name, name.replace("_", " ").capitalize())


# Factors of how a trial ran, and the parameters of strategies; new factors of the spec appear here.
_OF_DRIVERS = tuple(name for driver in ("cluster", *ADVISED_DRIVERS) for name in DRIVER_FACTORS[driver])
OF_FACTORS = tuple(
    ValuesFilter(name, factor_label(name), of_factor=True)
    for name in ("dataset", "model", *MODEL_FACTORS, *WAYS, *_OF_DRIVERS, *strategies.PARAMETERS)
)

Chosen = dict[str, tuple[str, ...]]
Defaults = Mapping[str, Sequence[str]]
"""Defaults for keys that a URL may omit: the first of the values that is available."""


@dataclass
class Selection:
    """The choice and the options of each key, the remaining rows, and the problems of the requested values."""

    rows: pd.DataFrame
    chosen: Chosen = field(default_factory=dict)
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    """The number of runs of each option of a counted filter."""

    def one(self, key: str) -> str:
        """The choice of a filter with a single value."""
        (value,) = self.chosen[key]
        return value


def resolve(
    filters: Sequence[Filter],
    table: pd.DataFrame,
    requested: Mapping[str, Sequence[str]],
    defaults: Defaults = MappingProxyType({}),
) -> Selection:
    """Narrow the rows filter by filter; an unavailable value is replaced by the default and reported."""
    selection = Selection(table)
    for entry in filters:
        key, rows = entry.key, selection.rows
        options = entry.options if isinstance(entry, Choice) else column_values(rows, key)
        first = tuple(value for value in (*defaults.get(key, ()), *options) if value in options)[:1]
        earlier = EARLIER_NAMES.get(key, {})
        values = [earlier.get(value, value) for value in requested.get(key, ())]
        chosen, problem = _match_options(entry, options, values, first)
        selection.problems += [problem] if problem else []
        of_factor = isinstance(entry, ValueFilter | ValuesFilter) and entry.of_factor
        if of_factor and len(options) < 2:
            continue
        selection.chosen[key], selection.options[key] = chosen, options
        if isinstance(entry, ValuesFilter) and entry.counted:
            selection.counts[key] = {str(value): int(n) for value, n in rows.groupby(key)["n_runs"].sum().items()}
        if chosen and not isinstance(entry, Choice):
            kept = rows[key].astype("str").isin(list(chosen))
            selection.rows = rows[kept | rows[key].isna()] if of_factor else rows[kept]
    return selection


def parse_target(text: str) -> float | None:
    """A target accuracy in percent, such as "97.5"; None if it is no number from `LEAST_TARGET` to 100."""
    try:
        target = float(text)
    except ValueError:
        return None
    return target if LEAST_TARGET <= target <= 100 else None


def _match_options(
    entry: Filter, options: Sequence[str], requested: Sequence[str], first: tuple[str, ...]
) -> tuple[tuple[str, ...], str | None]:
    """The requested values among the options, in their order, or the default; and the problem of the request."""
    matching = tuple(option for option in options if option in requested)
    chosen = matching if isinstance(entry, ValuesFilter) else matching[:1]
    if not chosen and (not isinstance(entry, ValuesFilter) or entry.required):
        chosen = first
    missing = [value for value in dict.fromkeys(requested) if value not in options]
    if missing:
        wrong = f"{entry.label.lower()} {_quoted(missing)}, which {'is' if len(missing) == 1 else 'are'} not here"
    elif len(matching) > len(chosen):
        wrong = f"more than one {entry.label.lower()}"
    else:
        return chosen, None
    return chosen, f"The link asks for {wrong}: showing {_quoted(chosen) or 'all'}."


def _quoted(values: Sequence[str]) -> str:
    """Quote the first few values for a sentence."""
    quoted = [f"'{value[:MAX_QUOTED]}'" for value in values[:FEW]]
    quoted += [f"{len(values) - FEW} more"] if len(values) > FEW else []
    return listed(quoted) if quoted else ""


def _by_figure(experiment: str) -> tuple[bool, list[int], str]:
    """Sort key: figures of the study first, by number, then other experiments by name."""
    figure = figure_of_the_study(experiment)
    return figure is None, [int(part) for part in figure.split(".")] if figure else [], experiment


def column_values(table: pd.DataFrame, key: str) -> tuple[str, ...]:
    """The distinct values of a column of the table, sorted.

    Figures of the study come first, planned before ad hoc experiments; platforms with runs that were ingested here come
    before contributed ones, those with more runs first; strategies and numbers keep their order; other values are
    sorted by name.
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
