"""What tells a point from all others, and a round from others: columns of the table of runs."""

from __future__ import annotations

from collections.abc import Iterable

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
# How a trial ran, whatever its strategy, and the usual way. Runs that differ in it are never drawn in one panel.
WAYS = {"driver": TrialSpec.model_fields["driver"].default, **VALUES_BEFORE}
ROUND = ("campaign_uid", "round")


def n_rounds(runs: pd.DataFrame, among: pd.Series) -> int:
    """Of how many rounds those of the runs are that are `among` them, a flag for each."""
    chosen = among.to_numpy(dtype=bool)
    return len(set(zip(*(runs[column].to_numpy()[chosen] for column in ROUND), strict=True)))


def numbered(table: pd.DataFrame, columns: Iterable[str]) -> NDArray[np.int64]:
    """A number for each row, the same where all of these columns are equal, unknown being a value; the first is 0.

    That is what `groupby` tells, in a tenth of its time where there are many columns of which most are constant.
    """
    number = np.zeros(len(table), dtype=np.int64)
    for name in columns:
        codes, values = pd.factorize(table[name])
        if len(values) > 1 or (len(values) == 1 and (codes < 0).any()):
            number = np.asarray(pd.factorize(number * (len(values) + 1) + codes)[0], dtype=np.int64)
    return number


def fellows(runs: pd.DataFrame, among: pd.Series, shared: Iterable[str]) -> NDArray[np.int64]:
    """For each run the place of the one `among` them, a flag for each, that is equal in these columns; -1 for none.

    Raises ValueError where one has several.
    """
    number = numbered(runs, shared)
    places = np.flatnonzero(among.to_numpy(dtype=bool))
    if len(np.unique(number[places])) < len(places):
        raise ValueError("a run has several fellows")
    of_number = np.full(len(runs), -1, dtype=np.int64)
    of_number[number[places]] = places
    return of_number[number]


def of_fellow(column: pd.Series, places: NDArray[np.int64]) -> pd.Series:
    """A column as each run's fellow has it, by its place; unknown where there is none."""
    known = column.take(places).set_axis(column.index)  # of -1 the last, which is then taken away
    return known.where(places >= 0)
