"""Which of the runs that an experiment draws on its figures and its table show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from tmflow.analysis.experiment_records import Records


def shown_of(runs: pd.DataFrame, only: Mapping[str, list[Any]]) -> pd.DataFrame:
    """The runs that have one of these values of each factor; those without such a factor are shown, too.

    So `only: {manager: [backoff]}` leaves out software transactions under another manager, and nothing else.
    """
    for factor, values in only.items():
        runs = runs[runs[factor].isna() | runs[factor].isin(values)]
    return runs


class Shown(NamedTuple):
    """Records of which only some runs are shown; each table is read when it is asked for, if those of `of` are."""

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
