"""Runs against the baseline of their own round: what every ratio and difference is computed from."""

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
    """All runs, each with the value that the baseline of its round has in `column`, as the column `name`.

    The baseline of a run is the one run of the mask `baseline` that has the same round and is equal in the columns
    `shared`, where unknown is a value, too. Where there is none, the value is NaN. `disturbed` tells of the two runs
    together. Raises ValueError where a run has several baselines.
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
