"""A number of a page: the runs of a query, its measure, and the text of the estimate with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import pandas as pd

from tmflow.analysis import baseline, elements, summaries
from tmflow.analysis.run_table import POINT, n_rounds
from tmflow.base.errors import BadInput
from tmflow.base.text import interval, several
from tmflow.reports.pages.bundle_runs import Published, Tables
from tmflow.reports.pages.schema import Query, Value
from tmflow.spec.strategies import PARAMETERS, STRATEGY_PARAMETERS

SUMMARIES: Mapping[str, Callable[[Tables], pd.DataFrame]] = {
    "speedup": lambda tables: summaries.speedup(tables.runs),
    "speedup_vs_tf_lock": lambda tables: summaries.speedup(tables.runs, "tf_lock"),
    "step_time": lambda tables: summaries.step_time(tables.runs),
    "accuracy": lambda tables: summaries.accuracy(tables.runs),
    "commits": lambda tables: summaries.commits(tables.runs, tables.transactions),
    "lost": lambda tables: summaries.lost(tables.runs, tables.full),
    "torn": lambda tables: summaries.torn(tables.runs, tables.full),
    "staleness": lambda tables: summaries.mean_staleness(tables.runs, tables.staleness),
}
"""The summary of each measure that needs no other argument; one row for each point."""


class Numbers:
    """Computes numbers from published runs; remembers summaries, because many cells share one."""

    def __init__(self, published: Published) -> None:
        self.published = published
        self._summaries: dict[tuple[str, str, str], pd.DataFrame] = {}

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
        rounds, row = n_rounds(runs, runs["status"] != ""), self._estimate(query, tables, runs)
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
        """The experiment of a query and its number of rounds, for the line under a table."""
        return f"{query.experiment} ({several(self._tables(query).rounds, 'round')})"

    def _tables(self, query: Query) -> Tables:
        return self.published.tables(str(query.experiment), query.evidence or "measured")

    def _estimate(self, query: Query, tables: Tables, runs: pd.DataFrame) -> pd.Series | None:
        """The row of the estimate, with the columns estimate, low, high and rounds; None without one."""
        if query.base is not None:
            return _ratio(query, tables.runs, runs)
        summary = self._summary(query, tables)
        rows = select(summary, query.where)
        if query.variable is not None:
            rows = rows[rows["variable"] == query.variable]
        return rows.iloc[0] if len(rows) else None

    def _summary(self, query: Query, tables: Tables) -> pd.DataFrame:
        measure, by_variable = str(query.measure), query.variable is not None
        key = (str(query.experiment), query.evidence or "measured", measure + ("/variable" if by_variable else ""))
        if key not in self._summaries:
            if measure == "elements":
                summary = elements.committed_elements(tables.runs, tables.variables, by_variable=by_variable)
            else:
                summary = SUMMARIES[measure](tables)
            self._summaries[key] = summary
        return self._summaries[key]


def select(table: pd.DataFrame, where: Mapping[str, Value]) -> pd.DataFrame:
    """The rows of a table of runs or points that have these factors."""
    chosen = pd.Series(True, index=table.index)
    for factor, value in where.items():
        chosen &= (table[factor] == value).fillna(False).astype(bool)
    return table[chosen]


def _require_one_point(runs: pd.DataFrame, where: str) -> None:
    factors = [name for name in POINT if name not in ("dataset_sha256", "platform", "platform_name")]
    if differing := [name for name in factors if runs[name].nunique(dropna=False) > 1]:
        raise BadInput(f"{where}: the runs differ in {', '.join(differing)}; 'where' must name their values.")


def _ratio(query: Query, every: pd.DataFrame, runs: pd.DataFrame) -> pd.Series | None:
    """The ratio of the times of the runs and of those of the base in the same round; of `speed`, its reciprocal."""
    ((factor, value),) = (query.base or {}).items()
    shared = query.where
    if factor == "strategy":  # the base lacks the parameters of the other strategy
        lacking = set(PARAMETERS) - set(STRATEGY_PARAMETERS.get(str(value), {}))
        shared = {name: given for name, given in shared.items() if name not in lacking}
    of_base = select(every, {**shared, factor: value})
    compared = pd.concat([runs, of_base])
    against = value if query.measure == "time" else runs[factor].iloc[0]
    ratios = baseline.time_ratios(compared, factor, against)
    return ratios.iloc[0] if len(ratios) else None


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
    """The estimate with its interval."""
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
