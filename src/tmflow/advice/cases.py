"""Cases: the times of several strategies for one model, on one machine, with one number of workers."""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tmflow.analysis.elements import variable_sizes
from tmflow.analysis.repeats import average_repeats
from tmflow.analysis.run_table import ROUND, VARIANT, numbered
from tmflow.native.automatic import Consistency, consistency_of
from tmflow.native.registry import UPDATE_CONSISTENCY
from tmflow.spec.models import MODELS, OWN_MODEL
from tmflow.spec.shapes import describe_shapes, parse_shapes
from tmflow.spec.strategies import PARAMETERS, parameters_of
from tmflow.spec.trial import TrialSpec

LOCK = "lock"
MIN_STRATEGIES = 3  # of a case
MIN_ROUNDS = 3
DIGITS = 8  # of the hash of a user's model
# Strategies that keep every update, and whose updates all workers see at once. Others are not compared by time alone.
COMPARED = (
    LOCK, "lock_pthread", "spin", "spin_then_mutex", "striped", "combining", "block_stm", "adaptive", "htm",
    "htm_if_fits", "tle", "stm",
)  # fmt: skip
# One process that trains: not what only updates arrays, after work of a given time.
DRIVERS = ("session", "native", "keras")
# Factors that a user of a model cannot choose, or that slow a trial down: only runs with these values are compared.
USUAL = {
    "kernel": "plain", "optimisation": "O3", "measures": "usual", "pinning": "none", "executor": "tensorflow",
    "gradient_cost": 1,
}  # fmt: skip
# The factors of a case are all but those that tell its strategies and its numbers of workers apart, and the number of
# steps, of which `tmflow advise` makes as many as fit into its time.
FACTORS = [
    name for name in TrialSpec.model_fields if name not in ("strategy", "threads", "seed", "iterations", *PARAMETERS)
]
DESCRIBED = (
    "batch", "matrix", "hidden", "layout", "reading", "optimiser", "features", "nonzeros", "users", "items", "words",
    "width", "skew", "steps_per_call",
)  # fmt: skip
OF_CASE = [
    "platform", "experiment", "model", "architecture", "shapes", "driver", "elements", "hardware_threads", *DESCRIBED,
    "strategy", "variant", "threads", *ROUND, "us",
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """What one configuration took on one machine with some workers, under each strategy.

    elements: that a step updates. alone_us: microseconds of a step of one worker. us: by strategy, the microseconds of
    a step in each round, the same rounds for all; wall time over the steps of all workers, of the strategy's fastest
    variant. oversubscribed: there were more workers than processors.
    """

    experiment: str
    machine: str
    model: str
    driver: str
    workers: int
    oversubscribed: bool
    elements: float
    alone_us: float
    us: Mapping[str, NDArray[np.float64]] = field(hash=False)
    description: str = ""

    @property
    def density(self) -> float:
        """The elements that a step updates, for each microsecond that it takes one worker."""
        return self.elements / self.alone_us

    @cached_property
    def logs(self) -> dict[str, float]:
        """Of each strategy, the mean logarithm of its time over that of `lock`; 0 for `lock`."""
        return {name: float(np.log(us / self.us[LOCK]).mean()) for name, us in self.us.items()}

    @property
    def fastest(self) -> str:
        """The strategy with the smallest geometric mean of its times."""
        return min(self.logs, key=lambda name: self.logs[name])


def cases_of(runs: pd.DataFrame) -> list[Case]:
    """The cases of measured runs (`store.queries.runs`) of any experiment.

    A case has `lock` and at least three strategies in three common rounds, and one worker was measured, too.
    """
    eligible = runs[(runs["status"] == "ok") & (runs["evidence"] == "measured") & runs["loop_s"].notna()]
    eligible = eligible[eligible["strategy"].isin(COMPARED) & eligible["driver"].isin(DRIVERS)]
    for factor, value in USUAL.items():
        eligible = eligible[(eligible[factor] == value) | eligible[factor].isna()]
    if eligible.empty:
        return []
    eligible = average_repeats(eligible.reset_index(drop=True)).reset_index(drop=True)
    eligible = eligible.assign(
        us=1e6 * eligible["loop_s"].astype(float) / eligible["iterations"].astype(float),
        elements=updated_elements(eligible),
        variant=numbered(eligible, ("strategy", *PARAMETERS)),
    )
    sizes = eligible[["us", "elements"]].to_numpy(float)  # a database may hold anything
    eligible = eligible[(np.isfinite(sizes) & (sizes > 0)).all(axis=1)]
    configuration = numbered(eligible, ("platform", "experiment", "definition_sha256", *FACTORS))
    # Without the other columns, of which each group would be a copy.
    return [case for _, rows in eligible[OF_CASE].groupby(configuration) for case in _cases(rows)]


def guaranteeing(runs: pd.DataFrame, consistency: Consistency) -> pd.DataFrame:
    """The runs of compared strategies whose variants guarantee at least this consistency, whatever the size."""
    of_compared = runs[runs["strategy"].isin(COMPARED)]
    variant = numbered(of_compared, VARIANT)
    examples = of_compared[~pd.Series(variant).duplicated().to_numpy()]  # in the order of their numbers
    enough = [_guarantees(row, consistency) for row in examples[[*VARIANT]].to_dict("records")]
    return of_compared[np.array(enough, dtype=bool)[variant]]


def _guarantees(variant: Mapping[Hashable, Any], consistency: Consistency) -> bool:
    """Whether a variant, a row with the columns `VARIANT`, guarantees a consistency."""
    strategy = str(variant["strategy"])
    given = {name: variant[name] for name in PARAMETERS if pd.notna(variant[name])}
    parameters = parameters_of(strategy) | {
        name: value if isinstance(value, str) else int(value) for name, value in given.items()
    }
    levels = get_args(Consistency)
    guaranteed = consistency_of(strategy, UPDATE_CONSISTENCY[strategy], parameters, sys.maxsize)
    return guaranteed in levels and levels.index(guaranteed) >= levels.index(consistency)


def updated_elements(runs: pd.DataFrame) -> pd.Series:
    """The elements that a step of each run updates: all, or those of the rows of its examples; NaN if unknown."""
    sizes = variable_sizes(runs).groupby("uid")["elements"].sum()
    by_rows = runs["model"].isin([name for name, model in MODELS.items() if model.by_rows])
    updated: pd.Series = (runs["batch"] * _rows_of_example(runs) * runs["width"]).astype(float)
    updated = updated.where(by_rows, runs["uid"].map(sizes).astype(float))
    return updated.where(runs["model"] != OWN_MODEL, runs["shapes"].map(_updated_of, na_action="ignore").astype(float))


def _updated_of(shapes: str) -> int:
    return sum(shape.updated for shape in parse_shapes(shapes))


def _rows_of_example(runs: pd.DataFrame) -> pd.Series:
    """The rows that one example of a model of rows changes; NaN for other models."""
    rows = {
        "sparse_logistic": runs["nonzeros"],
        "matrix_factorisation": pd.Series(2, index=runs.index),  # of the user and of the item
        "skipgram": 2 + runs["negatives"],  # of the word, its context, and the drawn words
    }
    number = pd.Series(math.nan, index=runs.index)
    for model, of_model in rows.items():
        number = number.where(runs["model"] != model, of_model.astype(float))
    return number


def _cases(rows: pd.DataFrame) -> Iterator[Case]:
    """The cases of one configuration, one for each number of workers."""
    alone_us = _alone_us(rows[rows["threads"] == 1])
    first = rows.iloc[0]
    for workers in sorted(int(number) for number in rows["threads"].unique()):
        us = _fastest_variants(rows[rows["threads"] == workers])
        if alone_us is None or LOCK not in us or len(us) < MIN_STRATEGIES:
            continue
        yield Case(
            experiment=str(first["experiment"]),
            machine=str(first["platform"]),
            model=_model(first),
            driver=str(first["driver"]),
            workers=workers,
            oversubscribed=bool(workers > first["hardware_threads"]),
            elements=float(first["elements"]),
            alone_us=alone_us,
            us=us,
            description=_describe(first),
        )


def _alone_us(rows: pd.DataFrame) -> float | None:
    """The geometric mean of the times of one worker, under `lock` if it was measured; None without a run."""
    under_lock = rows[rows["strategy"] == LOCK]
    chosen = rows if under_lock.empty else under_lock
    return None if chosen.empty else float(np.exp(np.log(chosen["us"].to_numpy(float)).mean()))


def _fastest_variants(rows: pd.DataFrame) -> dict[str, NDArray[np.float64]]:
    """The times of each strategy's fastest variant, in the rounds that all variants have; empty if these are few."""
    table = rows.pivot_table(index=[*ROUND], columns=["strategy", "variant"], values="us", aggfunc="mean").dropna()
    fastest: dict[str, NDArray[np.float64]] = {}
    if len(table) >= MIN_ROUNDS:
        for strategy, variants in np.log(table).mean().groupby(level="strategy"):
            fastest[str(strategy)] = table[variants.idxmin()].to_numpy(float)
    return fastest


def _model(run: pd.Series) -> str:
    """The model; of a user's own also the beginning of its hash, because each is another model."""
    return f"{run['model']} {run['architecture'][:DIGITS]}" if run["model"] == OWN_MODEL else str(run["model"])


def _describe(run: pd.Series) -> str:
    """The values of the factors that are not the usual ones, such as "batch 1, skew 1.5"."""
    usual = {name: TrialSpec.model_fields[name].default for name in DESCRIBED}
    given = {name: run[name] for name in DESCRIBED if pd.notna(run[name]) and run[name] != usual[name]}
    words = [f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in given.items()]
    return ", ".join([describe_shapes(run["shapes"]), *words] if run["model"] == OWN_MODEL else words)
