"""What tells a point from all others, and a round from others: columns of the table of runs."""

from __future__ import annotations

import pandas as pd

from tmflow.spec import AS_BEFORE, TrialSpec
from tmflow.strategy_parameters import PARAMETERS

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
WAYS = {"driver": TrialSpec.model_fields["driver"].default, **AS_BEFORE}
ROUND = ("campaign_uid", "round")


def n_rounds(runs: pd.DataFrame, among: pd.Series) -> int:
    """Of how many rounds those of the runs are that are `among` them, a flag for each."""
    chosen = among.to_numpy(dtype=bool)
    return len(set(zip(*(runs[column].to_numpy()[chosen] for column in ROUND), strict=True)))
