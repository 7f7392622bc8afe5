"""What the database holds of the experiments that claims are about, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from tmflow.claims.checks import Measure
from tmflow.spec.trial import TrialSpec
from tmflow.store import queries
from tmflow.store.frames import Source, connected
from tmflow.store.queries import Only


@dataclass(frozen=True)
class Tables:
    """The runs of an experiment of any status, scale and definition, and what those with a result counted.

    `runs` are as `store.queries.runs` gives them.
    """

    runs: pd.DataFrame
    transactions: pd.DataFrame
    aborts: pd.DataFrame

    @cached_property
    def varying(self) -> list[str]:
        """The factors, but for the number of workers, in which runs differ."""
        factors = [name for name in TrialSpec.model_fields if name != "threads"]
        return [name for name in factors if self.runs[name].nunique(dropna=False) > 1]

    @cached_property
    def evidences(self) -> frozenset[str]:
        """The kinds of evidence that there are runs of."""
        return frozenset(self.runs["evidence"])

    def measured(self, measure: Measure) -> pd.Series:
        """The value of each run, by its uid; runs without one are left out."""
        match measure.name:
            case "speed":
                return self._of_runs(self.runs["iterations"] / self.runs["loop_s"])
            case "accuracy":
                return self._of_runs(self.runs["final_accuracy"])
            case "commits":
                known = self.transactions.set_index("uid").astype(float)
                return _share(known["commits"], known["commits"] + known["fallbacks"].fillna(0))
            case "share of aborts":
                counted = self._aborts()
                return _share(self._aborts(measure.causes).reindex(counted.index, fill_value=0), counted)
            case "share of attempts":
                attempts = self.transactions.set_index("uid")["attempts"].dropna().astype(float)
                return _share(self._aborts(measure.causes).reindex(attempts.index, fill_value=0), attempts)

    def _of_runs(self, values: pd.Series) -> pd.Series:
        return pd.Series(values.to_numpy(), index=self.runs["uid"]).dropna()

    def _aborts(self, causes: Iterable[str] | None = None) -> pd.Series:
        chosen = self.aborts if causes is None else self.aborts[self.aborts["family"].isin(list(causes))]
        return chosen.groupby("uid")["n"].sum().astype(float)


def load(
    source: Source, experiments: Iterable[str], platforms: Sequence[str] | None = None, *, joined: bool = False
) -> dict[str, Tables]:
    """The tables of each experiment, in one reading of the database.

    platforms: of these alone, by their keys (`tmflow.platform.key`). joined: the sources of a platform as one.
    """
    names = list(dict.fromkeys(experiments))
    with_result: Only = {"experiments": names, "all_definitions": True, "joined": joined}
    if platforms is not None:
        with_result["platforms"] = platforms
    every: Only = {**with_result, "status": None}
    with connected(source) as connection:
        runs, transactions, aborts = (
            queries.runs(connection, **every),
            queries.transactions(connection, **with_result),
            queries.aborts(connection, **with_result),
        )
    tables = {}
    for name in names:
        its = runs[(runs["experiment"] == name).to_numpy(dtype=bool)].reset_index(drop=True)
        counted = [table[table["uid"].isin(its["uid"])] for table in (transactions, aborts)]
        tables[name] = Tables(its, *counted)
    return tables


def _share(part: pd.Series, whole: pd.Series) -> pd.Series:
    return (part / whole.where(whole > 0, np.nan)).dropna()
