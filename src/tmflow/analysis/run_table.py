"""The tables of recorded runs, the runs that a figure shows, and the columns of a point, a variant and a round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tmflow.spec.factors import VALUES_BEFORE
from tmflow.spec.strategies import PARAMETERS
from tmflow.spec.trial import TrialSpec

CONTEXT = (
    "experiment",
    "scale",
    "definition_sha256",
    "platform",
    "platform_name",
    "hardware_threads",
    "evidence",
    "backend",
    "time_domain",
    "dataset_sha256",
)
POINT = (*CONTEXT, *TrialSpec.model_fields)
VARIANT = ("strategy", *PARAMETERS)
SERIES = (*VARIANT, "threads")
# Factors of every strategy, with their usual values. Runs that differ in one are never drawn in the same panel.
WAYS = {"driver": TrialSpec.model_fields["driver"].default, **VALUES_BEFORE}
ROUND = ("campaign_uid", "round")


def n_rounds(runs: pd.DataFrame, selected: pd.Series) -> int:
    """Count the distinct rounds of the selected runs; `selected` is a boolean mask."""
    chosen = selected.to_numpy(dtype=bool)
    return len(set(zip(*(runs[column].to_numpy()[chosen] for column in ROUND), strict=True)))


def numbered(table: pd.DataFrame, columns: Iterable[str]) -> NDArray[np.int64]:
    """Number the rows: equal numbers where all of these columns are equal; the first row has 0.

    Two unknown values are equal. The groups are those of `groupby`, in a tenth of the time if most of many columns are
    constant.
    """
    number = np.zeros(len(table), dtype=np.int64)
    for name in columns:
        codes, values = pd.factorize(table[name])
        if len(values) > 1 or (len(values) == 1 and (codes < 0).any()):
            number = np.asarray(pd.factorize(number * (len(values) + 1) + codes)[0], dtype=np.int64)
    return number


class Records(Protocol):
    """Tables as returned by the functions of the same names in `store.queries`.

    `full` is returned by `full_measures`, `variables` by `variable_transactions`.

    `runs` has runs of any status; the other tables have no rows for runs that did not record their data.
    """

    @property
    def runs(self) -> pd.DataFrame: ...
    @property
    def curves(self) -> pd.DataFrame: ...
    @property
    def staleness(self) -> pd.DataFrame: ...
    @property
    def transactions(self) -> pd.DataFrame: ...
    @property
    def aborts(self) -> pd.DataFrame: ...
    @property
    def full(self) -> pd.DataFrame: ...
    @property
    def variables(self) -> pd.DataFrame: ...
    @property
    def phases(self) -> pd.DataFrame: ...


class Loaded(NamedTuple):
    """Records that are in memory."""

    runs: pd.DataFrame
    curves: pd.DataFrame
    staleness: pd.DataFrame
    transactions: pd.DataFrame
    aborts: pd.DataFrame
    full: pd.DataFrame
    variables: pd.DataFrame
    phases: pd.DataFrame


def shown_of(runs: pd.DataFrame, only: Mapping[str, list[Any]]) -> pd.DataFrame:
    """Select the runs that have one of these values of each factor, or to which the factor does not apply.

    For example, `only: {manager: [backoff]}` leaves out only software transactions with another manager.
    """
    for factor, values in only.items():
        runs = runs[runs[factor].isna() | runs[factor].isin(values)]
    return runs


def _table(name: str) -> cached_property[pd.DataFrame]:
    return cached_property(lambda shown: getattr(shown.of, name))


class Shown:
    """The records `of`, restricted to the runs that `only` selects; tables are read as lazily as those of `of`."""

    def __init__(self, of: Records, only: Mapping[str, list[Any]]) -> None:
        self.of, self.only = of, only

    @cached_property
    def runs(self) -> pd.DataFrame:
        return shown_of(self.of.runs, self.only)

    curves = _table("curves")
    staleness = _table("staleness")
    transactions = _table("transactions")
    aborts = _table("aborts")
    full = _table("full")
    variables = _table("variables")
    phases = _table("phases")
