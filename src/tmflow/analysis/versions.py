"""The software versions of runs: which runs stand for an experiment, and which are left out.

An origin is the definition of the experiment and the software version that measured it, on one machine and from one
source. Runs of different origins are never pooled unless a reader asks for it, because the change between them may
cause a difference. Campaigns of one origin are pooled: six rounds and another six make twelve. Claims, charts and
tables choose by the same rule, that of `origins`.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import pandas as pd

from tmflow.analysis.run_table import ROUND, n_rounds, numbered
from tmflow.base.text import listed, several

Versions = Literal["one", "all"]
"""The software versions of a summary: one for each of `SAMPLE`, by the rule of `origins`, or all of them, pooled."""

LEAST_ROUNDS = 6  # fewer rounds give no verdict
# Runs that differ in one of these columns are never pooled, even if all versions are.
SAMPLE = (
    "experiment", "scale", "definition_sha256", "platform", "hardware_threads", "evidence", "backend", "dataset",
)  # fmt: skip
LEFT_OUT = "runs_left_out"  # the number of runs of other versions, with any status, in the sample of a run
NAMED = 3  # the most experiments that a sentence names


class Origin(NamedTuple):
    """The runs of an experiment with one origin, with any status."""

    experiment: str
    definition: str
    software: str
    runs: pd.DataFrame

    @property
    def rounds(self) -> int:
        """The number of rounds with a result."""
        return n_rounds(self.runs, self.runs["status"] == "ok")

    def as_json(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment,
            "definition": self.definition,
            "software": self.software,
            "rounds": self.rounds,
            "runs": len(self.runs),
        }


def origins(runs: pd.DataFrame, experiment: str) -> list[Origin]:
    """Split the runs of one machine by origin: first the one that is used, then those that are left out.

    The newest origin with enough rounds for a verdict is used; if none has enough, the one with the most rounds, ties
    going to the newest. The order does not depend on results.
    """
    number = numbered(runs, ["definition_sha256", "software"])
    parts = [runs] if len(runs) else []
    if len(runs) and number.max() > 0:  # most machines have one origin: splitting is slow
        parts = [runs[number == index] for index in range(number.max() + 1)]
    result = [
        Origin(experiment, str(part["definition_sha256"].iloc[0]), str(part["software"].iloc[0]), part)
        for part in parts
    ]
    result.sort(key=lambda origin: str(origin.runs["started_at_utc"].fillna("").max()), reverse=True)
    return sorted(result, key=lambda origin: min(origin.rounds, LEAST_ROUNDS), reverse=True)


def ranked_software(runs: pd.DataFrame) -> list[str]:
    """The software versions of runs of one definition, first the one that a reader sees who asks for none.

    It is the version that charts show of the largest `SAMPLE`, by the number of runs with any status.
    """
    columns = ["experiment", "definition_sha256", "software", "status", "started_at_utc", *ROUND]  # splitting is slow
    samples = [sample for _, sample in runs[columns].groupby(numbered(runs, SAMPLE), sort=False)]
    samples.sort(key=len, reverse=True)
    ranked = (origins(sample, str(sample["experiment"].iloc[0])) for sample in samples)
    return list(dict.fromkeys(origin.software for of_sample in ranked for origin in of_sample))


def without_others(runs: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """The runs except those that are left out, because another software version stands for their sample.

    `samples` is a table of `store.queries.runs`: the runs of any status and of all versions of the samples that `runs`
    has. The column `LEFT_OUT` counts those of other versions in the sample of a run. It does not depend on which runs
    of the sample are wanted.
    """
    uids = _uids_left_out(samples)
    if not uids:
        return runs.assign(**{LEFT_OUT: 0})
    is_out = samples["uid"].isin(uids)
    n_out = is_out.groupby(numbered(samples, SAMPLE)).transform("sum").astype("int64")
    of_run = runs["uid"].map(pd.Series(n_out.to_numpy(), index=samples["uid"]))
    return runs.assign(**{LEFT_OUT: of_run})[~runs["uid"].isin(uids)].reset_index(drop=True)


def left_out_sentence(table: pd.DataFrame) -> str | None:
    """Count the runs that are left out of the samples of a table of runs, or of a summary of them; None if none are.

    A table without the column `LEFT_OUT` leaves none out.
    """
    if LEFT_OUT not in table:
        return None
    is_first = ~pd.Series(numbered(table, SAMPLE)).duplicated().to_numpy()
    samples = table.loc[is_first & (table[LEFT_OUT] > 0).to_numpy(), ["experiment", LEFT_OUT]]
    if samples.empty:
        return None
    names, n = list(dict.fromkeys(samples["experiment"])), int(samples[LEFT_OUT].sum())
    of = f"{'experiment' if len(names) == 1 else 'experiments'} {listed(names)}"
    left_out = f"{several(n, 'run')} by other versions of the software {'is' if n == 1 else 'are'} left out"
    return f"Of {of if len(names) <= NAMED else several(len(names), 'experiment')}, {left_out}."


def _uids_left_out(runs: pd.DataFrame) -> list[str]:
    if runs["software"].nunique() < 2:  # most experiments have one version
        return []
    number = numbered(runs, SAMPLE)
    is_mixed = (runs["software"].groupby(number).transform("nunique") > 1).to_numpy()
    mixed = runs.loc[
        is_mixed, ["uid", "experiment", "definition_sha256", "software", "status", "started_at_utc", *ROUND]
    ]
    uids: list[str] = []
    for _, sample in mixed.groupby(number[is_mixed], sort=False):  # of few columns: splitting is slow
        _, *others = origins(sample, str(sample["experiment"].iloc[0]))
        uids += [uid for origin in others for uid in origin.runs["uid"]]
    return uids
