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
