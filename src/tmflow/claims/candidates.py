"""The runs among which checks select, as arrays of the few columns that tell: many checks look at the same runs.

A table of runs has some sixty columns, most of them text, and taking rows of it costs milliseconds: that is done last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tmflow.analysis.run_table import ROUND
from tmflow.base.errors import Diverged
from tmflow.claims.checks import Factors, Measure
from tmflow.claims.curve import Values

# What a verdict tells of the runs that it is drawn from.
TOLD = [
    "uid", "experiment", *ROUND, "definition_sha256", "software", "status", "reason", "threads", "disturbed", "resumed",
    "started_at_utc",
]  # fmt: skip
Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]


class Candidates:
    """The runs of an experiment, of any status, that are of one machine and one origin.

    All arrays have an item for each run, in the order of `runs`.
    """

    def __init__(self, runs: pd.DataFrame, measured: Callable[[Measure], pd.Series]) -> None:
        """measured: the value of each run of the experiment, by its uid."""
        self.runs = runs
        self._measured = measured
        self.values = cache(self._values)
        self._codes = cache(self._codes_of)
        self._has = cache(self._equal)

    def having(self, wanted: Factors) -> Mask:
        """Which have these factors."""
        own = np.ones(len(self.runs), dtype=bool)
        for factor, value in wanted.items():
            own &= self._has(factor, value)
        return own

    def of_several(self, mask: Mask, factors: Sequence[str]) -> list[str]:
        """The factors in which those of the mask differ."""
        return [name for name in factors if len(np.unique(self._codes(name)[mask])) > 1]

    @cached_property
    def told(self) -> pd.DataFrame:
        """What is told of them."""
        return self.runs[TOLD]

    @cached_property
    def ok(self) -> Mask:
        return self._equal("status", "ok")

    @cached_property
    def ended(self) -> Mask:
        """Which crashed, hung, or ended otherwise without a result, though they could run."""
        return ~(self.ok | self._equal("status", "unsupported"))

    @cached_property
    def diverged(self) -> Mask:
        """Which ended in weights or scores that are not finite."""
        why = self.runs["reason"].fillna("").str.startswith(f"{Diverged.__name__}:")
        return self._equal("status", "failed") & why.to_numpy(dtype=bool)

    @cached_property
    def threads(self) -> Numbers:
        return self.runs["threads"].to_numpy(dtype=np.int64)

    @cached_property
    def fits(self) -> Mask:
        """Which have no more workers than hardware threads, as far as is known."""
        within = self.runs["threads"] <= self.runs["hardware_threads"]
        return within.fillna(False).to_numpy(dtype=bool)

    @cached_property
    def rounds(self) -> Numbers:
        """The number of each run's round among all of them."""
        return np.asarray(self.runs.groupby([*ROUND], sort=True).ngroup(), dtype=np.int64)

    def _values(self, measure: Measure) -> Values:
        """What each run measured; NaN where it did not."""
        return self.runs["uid"].map(self._measured(measure)).to_numpy(dtype=float)

    def _equal(self, column: str, value: object) -> Mask:
        return (self.runs[column] == value).fillna(False).to_numpy(dtype=bool)

    def _codes_of(self, factor: str) -> NDArray[np.intp]:
        """Equal numbers where the factor has equal values; -1 where it does not apply."""
        return pd.factorize(self.runs[factor])[0]
