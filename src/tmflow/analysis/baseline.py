"""Runs against a baseline: ratios of time and differences of accuracy, and the cost of each factor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tmflow.analysis.aggregate import NOTHING, Rounds, per_point, with_dataset
from tmflow.analysis.round_pairs import pair_by_round
from tmflow.analysis.run_table import POINT, ROUND, VARIANT
from tmflow.analysis.stats import (
    BOUND,
    Equivalence,
    Interval,
    difference_equivalence,
    difference_interval,
    equivalence,
    ratio_interval,
)
from tmflow.analysis.variants import ordered_variants, variants
from tmflow.spec.strategies import PARAMETERS

Ranking = Literal["more", "less", "same", "open"]
"""Significantly more or less than the baseline, equivalent to it ("same"), or inconclusive ("open")."""

EQUAL_ACCURACY = 0.02  # the smallest difference of accuracy that matters; a fraction


class _Comparison(NamedTuple):
    """How two values of a round are compared; `neutral` is the value that means no difference."""

    measure: str
    unit: str
    column: str
    interval: Callable[[ArrayLike, ArrayLike], Interval]
    same: Callable[[ArrayLike, ArrayLike], Equivalence]
    neutral: float


# The ratio of two speeds is the inverse of the ratio of their times.
_SPEED = _Comparison(
    "speed_ratio",
    "1",
    "loop_s",
    lambda seconds, base: ratio_interval(base, seconds),
    lambda seconds, base: equivalence(base, seconds, BOUND),
    1.0,
)
_ACCURACY = _Comparison(
    "accuracy_difference",
    "fraction",
    "final_accuracy",
    difference_interval,
    lambda accuracies, base: difference_equivalence(accuracies, base, EQUAL_ACCURACY),
    0.0,
)


def speed(runs: pd.DataFrame, baseline: str, least_rounds: int) -> pd.DataFrame:
    """Compute the speed relative to the strategy `baseline`, as a summary (see `summaries`).

    The baseline itself has no row. The additional column `told` holds a `Ranking`: "open" for fewer than `least_rounds`
    rounds, "same" if the speeds are equivalent within 5 %. The runs are measured, of any status; the baseline must be
    one variant.
    """
    return _compare(runs, baseline, least_rounds, _SPEED)


def accuracy(runs: pd.DataFrame, baseline: str, least_rounds: int) -> pd.DataFrame:
    """Compute the test accuracy minus that of `baseline`, a fraction; as `speed`, equivalent within 2 points."""
    return _compare(runs, baseline, least_rounds, _ACCURACY)


def _compare(runs: pd.DataFrame, baseline: str, least_rounds: int, comparison: _Comparison) -> pd.DataFrame:
    paired = _pair_others(with_dataset(runs), baseline, comparison.column)
    paired["variant"] = variants(paired)

    def estimate(rounds: Rounds) -> tuple[Interval, str | None]:
        based = ~np.isnan(rounds["base"])
        missing = int((~based).sum())
        reason = f"{missing} of {len(based)} rounds with a result lack {baseline}" if missing else None
        pairs = rounds[comparison.column][based], rounds["base"][based]
        return (comparison.interval(*pairs) if based.any() else NOTHING), reason

    def decide(rounds: pd.DataFrame) -> Ranking:
        pairs = rounds[(rounds["status"] == "ok") & rounds["base"].notna()]
        if len(pairs) < least_rounds:
            return "open"
        if comparison.same(pairs[comparison.column], pairs["base"]).equivalent:
            return "same"
        interval = comparison.interval(pairs[comparison.column], pairs["base"])
        if interval.low > comparison.neutral:
            return "more"
        return "less" if interval.high < comparison.neutral else "open"

    summary = per_point(paired, comparison.measure, comparison.unit, estimate)
    decisions = {key: decide(rounds) for key, rounds in paired.groupby(["variant", "threads"])}
    return summary.assign(told=[decisions[key] for key in zip(summary["variant"], summary["threads"], strict=True)])


def _pair_others(runs: pd.DataFrame, baseline: str, column: str) -> pd.DataFrame:
    """Give each run of the other strategies the baseline's value in its round as `base`, NaN if there is none."""
    shared = [name for name in POINT if name not in VARIANT]
    of_baseline = (runs["strategy"] == baseline) & (runs["status"] == "ok")
    paired = pair_by_round(runs, of_baseline, shared, column, "base")
    return paired[paired["strategy"] != baseline].reset_index(drop=True)


COMPARED = ["experiment", "model", "variant", "against", "threads"]
COLUMNS = [*COMPARED, "estimate", "low", "high", "rounds"]


def time_ratios(runs: pd.DataFrame, factor: str, value: object) -> pd.DataFrame:
    """Compute the loop time at each other value of `factor`, divided by that at `value` in the same round.

    Returns `COLUMNS`, with the 95 % interval of the ratio (above 1 is slower): one row for each pair of points with a
    result that differ only in the factor. Points of two strategies may also differ in parameters that one of the two
    strategies lacks. Variant names show what distinguishes the variants in `runs`. Emulated runs have no time and no
    row.
    """
    timed = runs[(runs["status"] == "ok") & runs["loop_s"].notna()]
    timed = timed.assign(variant=variants(timed))
    base, others = timed[timed[factor] == value], timed[timed[factor].notna() & (timed[factor] != value)]
    rows = []
    for _, strategy_runs in others.groupby("strategy", sort=False):
        unshared = [name for name in PARAMETERS if base[name].isna().all() or strategy_runs[name].isna().all()]
        shared = [name for name in POINT if name != factor and name not in unshared]
        against = base[[*shared, *ROUND, "variant", "loop_s"]].rename(
            columns={"variant": "against", "loop_s": "base_s"}
        )
        pairs = strategy_runs.merge(against, on=[*shared, *ROUND])
        for _, point in pairs.groupby([*POINT, "against"], dropna=False, sort=False):
            ratio = ratio_interval(point["loop_s"], point["base_s"])
            rows.append([*point.iloc[0][COMPARED], *ratio])
    table = pd.DataFrame(rows, columns=COLUMNS)
    rank = {variant: place for place, variant in enumerate(ordered_variants(timed["variant"]))}
    return table.sort_values(
        COMPARED, ignore_index=True, key=lambda c: c.map(rank) if c.name in ("variant", "against") else c
    )
