"""Runs against a baseline: ratios of time and differences of accuracy, and the cost of each factor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tmflow.analysis.aggregate import NOTHING, Rounds, per_point, with_dataset
from tmflow.analysis.pairing import pair_by_round
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

Told = Literal["more", "less", "same", "open"]
"""Surely more than the baseline, surely less, the same but for what is too small to matter, or none of these."""

EQUAL_ACCURACY = 0.02  # a difference of accuracy that matters; a fraction


class _Way(NamedTuple):
    """How two values of a round are compared; `none` is where there is no difference."""

    measure: str
    unit: str
    column: str
    interval: Callable[[ArrayLike, ArrayLike], Interval]
    same: Callable[[ArrayLike, ArrayLike], Equivalence]
    none: float


# A ratio of speeds is that of times the other way round.
_SPEED = _Way(
    "speed_ratio",
    "1",
    "loop_s",
    lambda own, base: ratio_interval(base, own),
    lambda own, base: equivalence(base, own, BOUND),
    1.0,
)
_ACCURACY = _Way(
    "accuracy_difference",
    "fraction",
    "final_accuracy",
    difference_interval,
    lambda own, base: difference_equivalence(own, base, EQUAL_ACCURACY),
    0.0,
)


def speed(runs: pd.DataFrame, baseline: str, least_rounds: int) -> pd.DataFrame:
    """Speed over that of the strategy `baseline`: a summary as of `summaries`, without rows of the baseline itself.

    Beside the usual columns it has `told` (see `Told`), which is "open" for fewer than `least_rounds` rounds. The same
    is within 5 %. runs: of any status, measured, of a baseline that is one variant.
    """
    return _against(runs, baseline, least_rounds, _SPEED)


def accuracy(runs: pd.DataFrame, baseline: str, least_rounds: int) -> pd.DataFrame:
    """Test accuracy less that of `baseline`, a fraction; as `speed`, and the same is within 2 points."""
    return _against(runs, baseline, least_rounds, _ACCURACY)


def _against(runs: pd.DataFrame, baseline: str, least_rounds: int, way: _Way) -> pd.DataFrame:
    paired = _paired(with_dataset(runs), baseline, way.column)
    paired["variant"] = variants(paired)

    def estimate(rounds: Rounds) -> tuple[Interval, str | None]:
        based = ~np.isnan(rounds["base"])
        missing = int((~based).sum())
        reason = f"{missing} of {len(based)} rounds with a result lack {baseline}" if missing else None
        pairs = rounds[way.column][based], rounds["base"][based]
        return (way.interval(*pairs) if based.any() else NOTHING), reason

    def told(rounds: pd.DataFrame) -> Told:
        pairs = rounds[(rounds["status"] == "ok") & rounds["base"].notna()]
        if len(pairs) < least_rounds:
            return "open"
        if way.same(pairs[way.column], pairs["base"]).equivalent:
            return "same"
        interval = way.interval(pairs[way.column], pairs["base"])
        return "more" if interval.low > way.none else "less" if interval.high < way.none else "open"

    summary = per_point(paired, way.measure, way.unit, estimate)
    of_points = {key: told(rounds) for key, rounds in paired.groupby(["variant", "threads"])}
    return summary.assign(told=[of_points[key] for key in zip(summary["variant"], summary["threads"], strict=True)])


def _paired(runs: pd.DataFrame, baseline: str, column: str) -> pd.DataFrame:
    """The runs of all others, each with the baseline's value of its round as `base`; NaN where it has none."""
    shared = [name for name in POINT if name not in VARIANT]
    of_baseline = (runs["strategy"] == baseline) & (runs["status"] == "ok")
    paired = pair_by_round(runs, of_baseline, shared, column, "base")
    return paired[paired["strategy"] != baseline].reset_index(drop=True)


COMPARED = ["experiment", "model", "variant", "against", "threads"]
COLUMNS = [*COMPARED, "estimate", "low", "high", "rounds"]


def time_ratios(runs: pd.DataFrame, factor: str, value: object) -> pd.DataFrame:
    """The workers' loop's time at each other value of `factor`, over that at `value` in the same round.

    One row for each pair of points with a result that differ in the factor alone: `COLUMNS`, both named by what tells
    the variants of `runs` apart, with the ratio's 95 % interval. Strategies may also differ in the parameters that one
    of the two does not have. Above 1 is slower. Emulated runs have no time and no row.
    """
    timed = runs[(runs["status"] == "ok") & runs["loop_s"].notna()]
    timed = timed.assign(variant=variants(timed))
    base, others = timed[timed[factor] == value], timed[timed[factor].notna() & (timed[factor] != value)]
    rows = []
    for _, its in others.groupby("strategy", sort=False):
        own = [name for name in PARAMETERS if base[name].isna().all() or its[name].isna().all()]
        shared = [name for name in POINT if name != factor and name not in own]
        against = base[[*shared, *ROUND, "variant", "loop_s"]].rename(
            columns={"variant": "against", "loop_s": "base_s"}
        )
        pairs = its.merge(against, on=[*shared, *ROUND])
        for _, point in pairs.groupby([*POINT, "against"], dropna=False, sort=False):
            ratio = ratio_interval(point["loop_s"], point["base_s"])
            rows.append([*point.iloc[0][COMPARED], *ratio])
    table = pd.DataFrame(rows, columns=COLUMNS)
    rank = {variant: place for place, variant in enumerate(ordered_variants(timed["variant"]))}
    return table.sort_values(
        COMPARED, ignore_index=True, key=lambda c: c.map(rank) if c.name in ("variant", "against") else c
    )
