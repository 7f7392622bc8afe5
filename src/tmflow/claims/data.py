"""The runs of the claims' experiments as tables, and the candidate runs for their statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tmflow.analysis.run_table import ROUND
from tmflow.base.errors import Diverged
from tmflow.claims.checks import Factors, Measure
from tmflow.claims.statements import Values
from tmflow.spec.trial import TrialSpec
from tmflow.store import queries
from tmflow.store.frames import Source, connected
from tmflow.store.queries import Only


@dataclass(frozen=True)
class Tables:
    """The runs of an experiment with any status, scale and definition, and the counts of those with a result.

    `runs` are as from `store.queries.runs`.
    """

    runs: pd.DataFrame
    transactions: pd.DataFrame
    aborts: pd.DataFrame

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
                return self._of_runs(self.runs["iterations"] / self.runs["loop_s"])
            case "accuracy":
                return self._of_runs(self.runs["final_accuracy"])
            case "commits":
                counts = self.transactions.set_index("uid").astype(float)
                return _share(counts["commits"], counts["commits"] + counts["fallbacks"].fillna(0))
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
    """Load the tables of each experiment in a single read of the database.

    platforms: only these, by key (`tmflow.platform.key`). joined: pool the sources of a platform.
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
        experiment_runs = runs[(runs["experiment"] == name).to_numpy(dtype=bool)].reset_index(drop=True)
        counted = [table[table["uid"].isin(experiment_runs["uid"])] for table in (transactions, aborts)]
        tables[name] = Tables(experiment_runs, *counted)
    return tables


def _share(part: pd.Series, total: pd.Series) -> pd.Series:
    return (part / total.where(total > 0, np.nan)).dropna()


# The columns that a verdict keeps of the runs that it is based on.
RUN_COLUMNS = [
    "uid", "experiment", *ROUND, "definition_sha256", "software", "status", "reason", "threads", "disturbed", "resumed",
    "started_at_utc",
]  # fmt: skip
Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]


class Candidates:
    """The runs of an experiment, with any status, from one machine and one origin.

    All arrays have one item per run, in the order of `runs`.
    """

    def __init__(self, runs: pd.DataFrame, measured: Callable[[Measure], pd.Series]) -> None:
        """measured: gives the value of each run of the experiment, by uid."""
        self.runs = runs
        self._measured = measured
        self.values = cache(self._values)
        self._codes = cache(self._codes_of)
        self._has = cache(self._equal)

    def having(self, wanted: Factors) -> Mask:
        """The mask of the runs with these factors."""
        mask = np.ones(len(self.runs), dtype=bool)
        for factor, value in wanted.items():
            mask &= self._has(factor, value)
        return mask

    def of_several(self, mask: Mask, factors: Sequence[str]) -> list[str]:
        """The factors in which the runs of the mask differ."""
        return [name for name in factors if len(np.unique(self._codes(name)[mask])) > 1]

    @cached_property
    def run_facts(self) -> pd.DataFrame:
        """The columns of the runs that a verdict keeps."""
        return self.runs[RUN_COLUMNS]

    @cached_property
    def ok(self) -> Mask:
        return self._equal("status", "ok")

    @cached_property
    def ended(self) -> Mask:
        """The mask of runs without a result that could have run: crashed, hung or otherwise failed."""
        return ~(self.ok | self._equal("status", "unsupported"))

    @cached_property
    def diverged(self) -> Mask:
        """The mask of runs that ended with weights or scores that are not finite."""
        why = self.runs["reason"].fillna("").str.startswith(f"{Diverged.__name__}:")
        return self._equal("status", "failed") & why.to_numpy(dtype=bool)

    @cached_property
    def threads(self) -> Numbers:
        return self.runs["threads"].to_numpy(dtype=np.int64)

    @cached_property
    def fits(self) -> Mask:
        """The mask of runs with at most as many workers as hardware threads; False if unknown."""
        within = self.runs["threads"] <= self.runs["hardware_threads"]
        return within.fillna(False).to_numpy(dtype=bool)

    @cached_property
    def rounds(self) -> Numbers:
        """The index of each run's round."""
        return np.asarray(self.runs.groupby([*ROUND], sort=True).ngroup(), dtype=np.int64)

    def _values(self, measure: Measure) -> Values:
        """The value of each run; NaN if it has none."""
        return self.runs["uid"].map(self._measured(measure)).to_numpy(dtype=float)

    def _equal(self, column: str, value: object) -> Mask:
        return (self.runs[column] == value).fillna(False).to_numpy(dtype=bool)

    def _codes_of(self, factor: str) -> NDArray[np.intp]:
        """Codes of the factor's values: equal for equal values, -1 where it does not apply."""
        return pd.factorize(self.runs[factor])[0]
