"""Everything that the runs of an experiment recorded, as pandas data frames for figures and notebooks."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import pandas as pd


class Records(Protocol):
    """Tables as returned by the functions of the same names in `store.queries` (`full`: by `full_measures`).

    `runs` has runs of any status; a run has no row in a table of what it did not record.
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


class Loaded(NamedTuple):
    """Records that are in memory."""

    runs: pd.DataFrame
    curves: pd.DataFrame
    staleness: pd.DataFrame
    transactions: pd.DataFrame
    aborts: pd.DataFrame
    full: pd.DataFrame
