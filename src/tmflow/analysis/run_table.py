"""Columns of the table of runs that identify a point, a variant and a round."""

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
# Factors of every strategy, with their usual values. Runs that differ in one are never drawn in the same panel.
WAYS = {"driver": TrialSpec.model_fields["driver"].default, **VALUES_BEFORE}
ROUND = ("campaign_uid", "round")


def n_rounds(runs: pd.DataFrame, selected: pd.Series) -> int:
    """Count the distinct rounds of the selected runs; `selected` is a boolean mask."""
    chosen = selected.to_numpy(dtype=bool)
    return len(set(zip(*(runs[column].to_numpy()[chosen] for column in ROUND), strict=True)))


def numbered(table: pd.DataFrame, columns: Iterable[str]) -> NDArray[np.int64]:
    """Number the rows: equal numbers where all of these columns are equal; the first row has 0.

    Two unknown values are equal. This gives the groups of `groupby` in a tenth of its time where most of many columns
    are constant.
    """
    number = np.zeros(len(table), dtype=np.int64)
    for name in columns:
        codes, values = pd.factorize(table[name])
        if len(values) > 1 or (len(values) == 1 and (codes < 0).any()):
            number = np.asarray(pd.factorize(number * (len(values) + 1) + codes)[0], dtype=np.int64)
    return number
