"""Which runs the answers and the findings compare: the experiments of each question, and the selection of their runs.

They use measured runs and follow the rules of claims: MNIST only, one definition of an experiment, one software
version, no oversubscribed runs, and no conclusion from fewer than six rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from tmflow.analysis.run_table import ROUND, VARIANT
from tmflow.analysis.variants import has_defaults
from tmflow.analysis.versions import origins
from tmflow.claims.origins import provenance_note
from tmflow.claims.selection import Missing, usable
from tmflow.spec.trial import TrialSpec
from tmflow.store import queries
from tmflow.store.frames import Source
from tmflow.store.run_filter import RunFilter, Value


class Comparison(NamedTuple):
    """Runs of an experiment that differ in strategy and number of workers, and the baseline strategy."""

    experiment: str
    where: dict[str, Value]
    baseline: str
    measures: str = "usual"
    scale: str = "full"

    @property
    def factors(self) -> dict[str, Value]:
        """The factors that all its runs share."""
        return {**self.where, "measures": self.measures}


def results_of(platform: str, joined: bool, comparison: Comparison) -> RunFilter:
    """The filter for the runs of a comparison that have a result."""
    return replace(_filter(platform, joined, comparison), statuses=["ok"])


def _filter(platform: str, joined: bool, *comparisons: Comparison) -> RunFilter:
    """The filter for the runs of these comparisons on a platform, given by its key (`tmflow.platform.facts`).

    It keeps all definitions: `select_runs` chooses one, because the platform may not have run the newest.
    """
    return RunFilter(
        settings=[(comparison.experiment, comparison.factors) for comparison in comparisons],
        scales=sorted({comparison.scale for comparison in comparisons}),
        platforms=[platform],
        evidences=["measured"],
        joined=joined,
    )


# The large model with batches of one, where an update costs most relative to a step.
OF_STUDY = Comparison("fig-4.10", {"batch": 1}, "tf_lock")
OF_ALL = Comparison("consistency-for-free", {"model": "mnist_deep", "variables": "ref", "reading": "plain"}, "lock")
# The small model, whose step is little more than its update.
OF_STUDY_SMALL = Comparison("fig-4.7", {}, "tf_lock")
OF_ALL_SMALL = Comparison(
    "consistency-for-free", {"model": "mnist_softmax", "variables": "ref", "reading": "plain"}, "lock"
)
OF_NATIVE = Comparison("native-softmax", {}, "lock")
OF_CONTENTION = Comparison("true-contention", {"reading": "plain"}, "lock")
# The small model, which converges in this number of steps; the large one does not.
OF_ACCURACY = Comparison("fig-4.1", {"matrix": 784}, "tf_lock")
OF_LOSSES = OF_CONTENTION._replace(measures="full")
# Where transactions could win: small critical sections, and rows of a large variable.
OF_SECTIONS = Comparison("break-even", {"model": "mnist_softmax", "driver": "native"}, "lock")
OF_ROWS = Comparison("sparse-contention", {"nonzeros": 16, "width": 64, "skew": 0.0}, "striped")


class SelectedRuns(NamedTuple):
    """The runs that an answer uses, all with the same number of workers."""

    runs: pd.DataFrame
    left_out: str | None
    """A sentence on runs left out because of their origin; None if there are none."""


def select_runs(runs: pd.DataFrame, comparison: Comparison) -> SelectedRuns:
    """Select the runs of one origin with the most workers that have a hardware thread each.

    `runs` is a table of `queries.runs` with all runs of the experiment: which origin is used does not depend on the
    factors of the comparison. Runs whose process could use fewer hardware threads than others are left out. Raises
    Missing if no run is left, if no round has both the baseline and another strategy, or if a round has several points
    of one strategy.
    """
    name, baseline = comparison.experiment, comparison.baseline
    eligible = usable(runs, "measured", "any", comparison.scale)
    if (compared := having(eligible, comparison.factors)).empty:
        raise Missing(f"there is no measured run of {name} at {comparison.scale} scale, on MNIST, on this platform")
    eligible = eligible[eligible["hardware_threads"] == compared["hardware_threads"].max()]
    if eligible.empty:
        raise Missing(f"the number of hardware threads that the runs of {name} could use is unknown")
    by_origin = origins(eligible, name)
    origin_runs = having(by_origin[0].runs, comparison.factors)
    fits = origin_runs[(origin_runs["threads"] <= origin_runs["hardware_threads"]).astype(bool)]
    with_result = fits.loc[fits["status"] == "ok", ["strategy", "threads", *ROUND]]
    of_baseline = has_defaults(fits[fits["status"] == "ok"], baseline)
    shared = with_result[of_baseline].merge(with_result[~of_baseline], on=["threads", *ROUND])["threads"]
    if shared.empty:
        raise Missing(f"{name} has no round with results of {baseline} and another strategy with as many workers")
    selected = fits[fits["threads"] == shared.max()]
    values = selected.drop_duplicates([*TrialSpec.model_fields, *ROUND])  # without further repeats
    if values.duplicated([*ROUND, *VARIANT]).any() or values[has_defaults(values, baseline)].duplicated([*ROUND]).any():
        raise Missing(f"{name} has several points of {baseline}, or of another strategy, to choose from")
    return SelectedRuns(selected, provenance_note(by_origin))


def having(runs: pd.DataFrame, values: Mapping[str, Value]) -> pd.DataFrame:
    """The runs with these values of columns."""
    for name, value in values.items():
        runs = runs[(runs[name] == value).fillna(False).to_numpy(dtype=bool)]
    return runs


def read_experiments(source: Source, platform: str, joined: bool, *comparisons: Comparison) -> Iterator[pd.DataFrame]:
    """Yield the runs of the experiment of each comparison, with any factors, from a single read."""
    runs = queries.runs(source, _filter(platform, joined, *comparisons).of_samples)
    for comparison in comparisons:
        yield having(runs, {"experiment": comparison.experiment}).reset_index(drop=True)
