"""Which of the runs that an experiment draws on its figures and its table show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd


def shown_of(runs: pd.DataFrame, only: Mapping[str, list[Any]]) -> pd.DataFrame:
    """The runs that have one of these values of each factor; those without such a factor are shown, too.

    So `only: {manager: [backoff]}` leaves out software transactions under another manager, and nothing else.
    """
    for factor, values in only.items():
        runs = runs[runs[factor].isna() | runs[factor].isin(values)]
    return runs
