"""All that the runs of an experiment recorded, as tables of pandas: what figures and notebooks are made from."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import pandas as pd


class Records(Protocol):
    """Each table as the function of `store.queries` of its name gives it; `full` is that of `full_measures`.

    `runs` are of any status; the others have no row of a run that did not record such a thing.
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
    """Records that were all read at once."""

    runs: pd.DataFrame
    curves: pd.DataFrame
    staleness: pd.DataFrame
    transactions: pd.DataFrame
    aborts: pd.DataFrame
    full: pd.DataFrame
