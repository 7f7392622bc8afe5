"""A number of a page: the runs of a query, its measure, and the text of the estimate with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import pandas as pd

from tmflow.analysis import baseline, elements, summaries
from tmflow.analysis.run_table import POINT, Loaded, n_rounds
from tmflow.base.errors import BadInput
from tmflow.base.text import interval, several
from tmflow.charts.axes import EVENTS
from tmflow.reports.pages.bundle_runs import Published
from tmflow.reports.pages.schema import OF, Query, Value
from tmflow.spec.strategies import PARAMETERS, STRATEGY_PARAMETERS

SUMMARIES: Mapping[str, Callable[[Loaded], pd.DataFrame]] = {
    "speedup": lambda tables: summaries.speedup(tables.runs),
    "speedup_vs_tf_lock": lambda tables: summaries.speedup(tables.runs, "tf_lock"),
    "step_time": lambda tables: summaries.step_time(tables.runs),
    "node_time": lambda tables: summaries.node_time(tables.runs),
    "image_rate": lambda tables: summaries.image_rate(tables.runs),
    "accuracy": lambda tables: summaries.accuracy(tables.runs),
    "time_to_accuracy": lambda tables: summaries.time_to_accuracy(tables.runs, tables.curves),
    "commits": lambda tables: summaries.commits(tables.runs, tables.transactions),
    "aborted": lambda tables: summaries.failures(tables.runs, tables.transactions, tables.aborts),
    "lost": lambda tables: summaries.lost(tables.runs, tables.full),
    "torn": lambda tables: summaries.torn(tables.runs, tables.full),
    "inconsistent": lambda tables: summaries.inconsistent(tables.runs, tables.full),
    "lock_waited": lambda tables: summaries.lock_waited(tables.runs, tables.full),
    "lock_held": lambda tables: summaries.lock_held(tables.runs, tables.full),
    "staleness": lambda tables: summaries.mean_staleness(tables.runs, tables.staleness),
    "phases": lambda tables: summaries.phases(tables.runs, tables.phases),
    "step_transfers": lambda tables: summaries.step_transfers(tables.runs, tables.phases),
    "step_bytes": lambda tables: summaries.step_bytes(tables.runs, tables.phases),
}
"""The summary of each measure that needs no other argument; one row for each point."""


class Numbers:
    """Computes numbers from published runs; remembers summaries, because many cells share one.

    machines: the published runs of each machine, by its folder in contrib/; `default` is used where a query names none.
    """

    def __init__(self, machines: Mapping[str, Published], default: str) -> None:
        self._machines, self._default = machines, default
        self._summaries: dict[tuple[str, str, str, str], pd.DataFrame] = {}

    def published(self, machine: str | None) -> Published:
        """The published runs of a machine; None: of the default."""
        return self._machines[machine or self._default]

    def cell(self, query: Query, where: str) -> str:
        """The text of a number; empty if there are no such runs. `where` names its place in errors.

        If rounds have no result, the text gives the number of those that have one. Raises BadInput if the query selects
        several points: it must name every factor in which they differ.
        """
        tables = self._tables(query)
        runs = select(tables.runs, query.where)
        if runs.empty:
            return ""
        _require_one_point(runs, where)
        if query.measure == "size":
            return _size(runs, query, where)
        rounds, row = n_rounds(runs, runs["status"] != ""), self._estimate(query, tables, runs, where)
        if row is None or pd.isna(row["estimate"]):
            results = n_rounds(runs, runs["status"] == "ok")
            return f"{results} of {rounds} rounds" if results < rounds else ""
        text = _number(row, query)
        return text if row["rounds"] == rounds else f"{text}, {row['rounds']} of {rounds} rounds"

    def value(self, query: Query, where: str) -> str:
        """The text of a number in a sentence. Raises BadInput as `cell`, and if there is no estimate."""
        text = self.cell(query, where)
        if not text:
            raise BadInput(f"{where}: the published runs of {query.experiment} give no such number.")
        return text

    def rounds(self, query: Query) -> str:
        """The runs of a query in words, for the line under a table: experiment, rounds, evidence and machine."""
        runs = self._tables(query).runs
        rounds = several(n_rounds(runs, runs["status"] == "ok"), "round")
        return f"{query.experiment} ({rounds}), {query.evidence or 'measured'} on {query.machine or self._default}"

    def _tables(self, query: Query) -> Loaded:
        return self.published(query.machine).tables(str(query.experiment), query.evidence or "measured")

    def _estimate(self, query: Query, tables: Loaded, runs: pd.DataFrame, where: str) -> pd.Series | None:
        """The row of the estimate, with the columns estimate, low, high and rounds; None without one."""
        if query.base is not None:
            return _ratio(query, tables.runs, runs, where)
        summary = self._summary(query, tables)
        along = {key: getattr(query, key) for key in OF}
        rows = select(summary, query.where | {key: value for key, value in along.items() if value is not None})
        return rows.iloc[0] if len(rows) else None

    def _summary(self, query: Query, tables: Loaded) -> pd.DataFrame:
        measure, by_variable = str(query.measure), query.variable is not None
        shown = measure + ("/variable" if by_variable else "")
        key = (query.machine or self._default, str(query.experiment), query.evidence or "measured", shown)
        if key not in self._summaries:
            if measure == "elements":
                summary = elements.committed_elements(tables.runs, tables.variables, by_variable=by_variable)
            else:
                summary = SUMMARIES[measure](tables)
            self._summaries[key] = summary
        return self._summaries[key]


def select(table: pd.DataFrame, where: Mapping[str, Value | None]) -> pd.DataFrame:
    """The rows of a table of runs or points that have these factors; None: the rows without this factor."""
    chosen = pd.Series(True, index=table.index)
    for factor, value in where.items():
        chosen &= table[factor].isna() if value is None else (table[factor] == value).fillna(False).astype(bool)
    return table[chosen]


def _require_one_point(runs: pd.DataFrame, where: str) -> None:
    factors = [name for name in POINT if name not in ("dataset_sha256", "platform", "platform_name")]
    if differing := [name for name in factors if runs[name].nunique(dropna=False) > 1]:
        raise BadInput(f"{where}: the runs differ in {', '.join(differing)}; 'where' must name their values.")


def _ratio(query: Query, every: pd.DataFrame, runs: pd.DataFrame, where: str) -> pd.Series:
    """The ratio of the runs to those of the base in the same round: of times, speeds or speedups."""
    base, shared = query.base or {}, query.where
    if "strategy" in base:  # the base lacks the parameters of the other strategy
        lacking = set(PARAMETERS) - set(STRATEGY_PARAMETERS.get(str(base["strategy"]), {}))
        shared = {name: given for name, given in shared.items() if name not in lacking}
    of_base = select(every, {**shared, **base})
    _require_one_point(of_base, f"{where}, base")
    if query.measure == "speedup":
        one, base_one = (select(every, {**factors, "threads": 1}) for factors in (query.where, {**shared, **base}))
        for single in (one, base_one):
            _require_one_point(single, f"{where}, one worker")
        interval = baseline.speedup_ratio((one, runs), (base_one, of_base))
    else:
        interval = baseline.point_ratio(*((runs, of_base) if query.measure == "time" else (of_base, runs)))
    estimate, low, high, rounds = interval
    return pd.Series({"estimate": estimate, "low": low, "high": high, "rounds": rounds}, dtype=object)


def _size(runs: pd.DataFrame, query: Query, where: str) -> str:
    sizes = elements.variable_sizes(runs.head(1))
    if query.variable is not None:
        sizes = sizes[sizes["variable"] == query.variable]
    if sizes.empty:
        raise BadInput(f"{where}: the model has no variable '{query.variable}'.")
    return f"{sizes['elements'].sum():,}"


def stable(number: float) -> float:
    """Round to nine digits, so that the last bits of a sum, which depend on the processor, change no text."""
    return float(f"{number:.9g}")


def _number(row: pd.Series, query: Query) -> str:
    """The estimate with its interval; where no round lost an update or tore a read, the number of rounds."""
    if query.measure in EVENTS and row["estimate"] == 0:
        return f"none in {several(int(row['rounds']), 'round')}"
    scale, unit = (100, " %") if query.unit == "%" else (1, "")
    estimate, low, high = (scale * float(row[name]) for name in ("estimate", "low", "high"))
    return number_text(estimate, low, high, query.digits) + unit


def number_text(estimate: float, low: float, high: float, digits: int | None) -> str:
    """An estimate with its interval; without one if a bound is NaN or the interval has no width.

    digits: decimals; None: those that the interval justifies.
    """
    estimate, low, high = map(stable, (estimate, low, high))
    bounded = not math.isnan(low) and low != high
    if digits is None:
        return interval(estimate, low, high) if bounded else f"{estimate:.3g}"
    bounds = f" [{low:,.{digits}f}, {high:,.{digits}f}]" if bounded else ""
    return f"{estimate:,.{digits}f}{bounds}"
