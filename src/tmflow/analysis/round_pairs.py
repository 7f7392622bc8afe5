"""Pairing of each run with the baseline of the same round: the input of every ratio and difference."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tmflow.analysis.aggregate import flags
from tmflow.analysis.run_table import ROUND, numbered


def pair_by_round(
    runs: pd.DataFrame, baseline: pd.Series, shared: Iterable[str], column: str, name: str
) -> pd.DataFrame:
    """Add a column `name`: the value that the baseline of the same round has in `column`, NaN without a baseline.

    The mask `baseline` selects the possible baselines. The baseline of a run has the same round and equal values in
    the columns `shared`; two unknown values are equal. `disturbed` is set if either of the two runs was disturbed.
    Raises ValueError where a run has several baselines.
    """
    places = _baseline_places(runs, baseline, [*shared, *ROUND])
    of_baseline = runs[[column, "disturbed"]].astype({"disturbed": "boolean"}).take(places).set_axis(runs.index)
    has_baseline = places >= 0
    return runs.assign(
        **{name: of_baseline[column].where(has_baseline)},
        disturbed=flags(runs["disturbed"]) | flags(of_baseline["disturbed"].where(has_baseline)),
    )


def _baseline_places(runs: pd.DataFrame, baseline: pd.Series, shared: Iterable[str]) -> NDArray[np.int64]:
    """The row position of the baseline of each run; -1 for none."""
    number = numbered(runs, shared)
    places = np.flatnonzero(baseline.to_numpy(dtype=bool))
    if len(np.unique(number[places])) < len(places):
        raise ValueError("a run has several baselines in its round")
    of_number = np.full(len(runs), -1, dtype=np.int64)
    of_number[number[places]] = places
    return of_number[number]
