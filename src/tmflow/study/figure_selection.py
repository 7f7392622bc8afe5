"""Selection of the runs that the figures and the table of an experiment show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from tmflow.analysis.experiment_records import Records


def shown_of(runs: pd.DataFrame, only: Mapping[str, list[Any]]) -> pd.DataFrame:
    """Select the runs that have one of these values of each factor, or to which the factor does not apply.

    So `only: {manager: [backoff]}` leaves out only software transactions under another manager.
    """
    for factor, values in only.items():
        runs = runs[runs[factor].isna() | runs[factor].isin(values)]
    return runs


class Shown(NamedTuple):
    """The records `of`, restricted to the runs that `only` selects; tables are read as lazily as those of `of`."""

    of: Records
    only: Mapping[str, list[Any]]

    @property
    def runs(self) -> pd.DataFrame:
        return shown_of(self.of.runs, self.only)

    @property
    def curves(self) -> pd.DataFrame:
        return self.of.curves

    @property
    def staleness(self) -> pd.DataFrame:
        return self.of.staleness

    @property
    def transactions(self) -> pd.DataFrame:
        return self.of.transactions

    @property
    def aborts(self) -> pd.DataFrame:
        return self.of.aborts

    @property
    def full(self) -> pd.DataFrame:
        return self.of.full
