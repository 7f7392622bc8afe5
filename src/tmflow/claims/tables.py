"""The runs and counts of each experiment that claims name, and the value of each measure of a run."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from tmflow.claims.measures import Measure
from tmflow.spec.trial import TrialSpec
from tmflow.store import queries
from tmflow.store.frames import Source, connected
from tmflow.store.run_filter import RunFilter


@dataclass(frozen=True)
class Tables:
    """The runs of an experiment with any status, scale and definition, and the counts of those with a result.

    `runs` is a table of `store.queries.runs`.
    """

    runs: pd.DataFrame
    transactions: pd.DataFrame
    aborts: pd.DataFrame
    full_measures: pd.DataFrame
    processes: pd.DataFrame

    @cached_property
    def varying(self) -> list[str]:
        """The factors in which runs differ, except the number of workers."""
        factors = [name for name in TrialSpec.model_fields if name != "threads"]
        return [name for name in factors if self.runs[name].nunique(dropna=False) > 1]

    @cached_property
    def evidences(self) -> frozenset[str]:
        """The kinds of evidence of the runs."""
        return frozenset(self.runs["evidence"])

    def measured(self, measure: Measure) -> pd.Series:
        """The value of each run by uid; runs without a value are left out."""
        match measure.name:
            case "speed":
                times = self.runs.set_index("uid")
                values = times["iterations"] / times["loop_s"]
            case "speed_of_others":
                values = self.processes.set_index("uid")["others_per_s"]
            case "accuracy" | "accuracy_spread":
                values = self.runs.set_index("uid")["final_accuracy"]
            case "lock_waiting":
                values = self.full_measures.set_index("uid")["lock_waited_fraction"]
            case "lock_holding":
                times = self.full_measures.set_index("uid").astype(float)
                values = times["lock_held_fraction"] / (1 - times["lock_waited_fraction"])
            case "commits" | "commits_of_attempts":
                counts = self.transactions.set_index("uid").astype(float)
                updates = counts["commits"] + counts["fallbacks"].fillna(0)
                values = _share(counts["commits"], updates if measure.name == "commits" else counts["attempts"])
            case "aborts" | "attempts":
                attempts = self.transactions.set_index("uid")["attempts"].dropna().astype(float)
                total = self._aborts() if measure.name == "aborts" else attempts
                values = _share(self._aborts(measure.causes).reindex(total.index, fill_value=0), total)
        return values.astype(float).dropna()

    def without(self, uids: Container[str]) -> Tables:
        """The tables without these runs."""
        return Tables(*(table[[uid not in uids for uid in table["uid"]]] for table in self._tables))

    def joined_with(self, other: Tables) -> Tables:
        """The tables with the runs of another database, which has other runs of the same experiment."""
        pairs = zip(self._tables, other._tables, strict=True)
        return Tables(*(pd.concat(pair, ignore_index=True) for pair in pairs))

    @property
    def _tables(self) -> tuple[pd.DataFrame, ...]:
        return self.runs, self.transactions, self.aborts, self.full_measures, self.processes

    def _aborts(self, causes: Iterable[str] | None = None) -> pd.Series:
        chosen = self.aborts if causes is None else self.aborts[self.aborts["family"].isin(list(causes))]
        return chosen.groupby("uid")["n"].sum().astype(float)


def load(
    source: Source, experiments: Iterable[str], platforms: Sequence[str] | None = None, *, joined: bool = False
) -> dict[str, Tables]:
    """Load the tables of each experiment in a single read of the database.

    platforms: only these, by key (`tmflow.platform.facts`). joined: pool the sources of a platform.
    """
    names = list(dict.fromkeys(experiments))
    every = RunFilter(experiments=names, platforms=platforms, joined=joined)
    with_result = replace(every, statuses=["ok"])
    with connected(source) as connection:
        runs, *counts = (
            queries.runs(connection, every),
            queries.transactions(connection, with_result),
            queries.aborts(connection, with_result),
            queries.full_measures(connection, with_result),
            queries.processes(connection, with_result),
        )
    tables = {}
    for name in names:
        experiment_runs = runs[(runs["experiment"] == name).to_numpy(dtype=bool)].reset_index(drop=True)
        counted = [table[table["uid"].isin(experiment_runs["uid"])] for table in counts]
        tables[name] = Tables(experiment_runs, *counted)
    return tables


def _share(part: pd.Series, total: pd.Series) -> pd.Series:
    return (part / total.where(total > 0, np.nan)).dropna()
