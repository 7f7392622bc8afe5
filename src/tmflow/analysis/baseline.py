"""Runs against a baseline: ratios of time and differences of accuracy, and the cost of each factor."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tmflow.analysis.repeats import average_repeats
from tmflow.analysis.rounds import NOTHING, Rounds, pair_by_round, per_point, with_dataset
from tmflow.analysis.run_table import POINT, ROUND, VARIANT
from tmflow.analysis.stats import (
    CONFIDENCE,
    SAME,
    TOST_CONFIDENCE,
    Between,
    Bounds,
    Interval,
    difference_interval,
    ratio_interval,
)
from tmflow.analysis.variants import has_defaults, ordered_variants, variants
from tmflow.spec.strategies import PARAMETERS

Ranking = Literal["more", "less", "same", "open"]
"""Significantly more or less than the baseline, equivalent to it ("same"), or inconclusive ("open")."""

SAME_ACCURACY = Bounds(-0.02, 0.02)
"""The differences of accuracy that count as none; fractions."""


def speed(runs: pd.DataFrame, baseline: str, least_rounds: int) -> pd.DataFrame:
    """Compute the speed relative to the strategy `baseline` with default parameters, as a summary (see `summaries`).

    The baseline itself has no row. The additional column `ranking` holds a `Ranking`: "open" for fewer than
    `least_rounds` rounds, "same" if the speeds are equivalent within 5 %. `test_low` and `test_high` are the 90 %
    interval of the equivalence test where it says so, otherwise NaN. The runs are measured, of any status; the
    baseline must be one variant.
    """
    return _compare(runs, baseline, least_rounds, ("speed_ratio", "1"), "loop_s", _speed_ratio, 1, SAME)


def accuracy(runs: pd.DataFrame, baseline: str, least_rounds: int) -> pd.DataFrame:
    """Compute the test accuracy minus that of `baseline`, a fraction; equivalent within 2 points; else as `speed`."""
    measure = ("accuracy_difference", "fraction")
    return _compare(runs, baseline, least_rounds, measure, "final_accuracy", difference_interval, 0, SAME_ACCURACY)


def _speed_ratio(seconds: ArrayLike, base_seconds: ArrayLike, confidence: float) -> Interval:
    return ratio_interval(base_seconds, seconds, confidence)


def _compare(
    runs: pd.DataFrame,
    baseline: str,
    least_rounds: int,
    measure: tuple[str, str],
    column: str,
    between: Between,
    neutral: float,
    same: Bounds,
) -> pd.DataFrame:
    """Compare a column of the runs with that of the baseline in the same round.

    measure: the name and the unit of the result. neutral, same: the result that means no difference, and the range of
    those that are equivalent to it.
    """
    runs = average_repeats(with_dataset(runs))
    of_baseline = has_defaults(runs, baseline) & (runs["status"] == "ok")
    shared = [name for name in POINT if name not in VARIANT]
    paired = pair_by_round(runs, of_baseline, shared, column, "base")

    def summarise(confidence: float) -> pd.DataFrame:
        def estimate(rounds: Rounds) -> tuple[Interval, str | None]:
            based = ~np.isnan(rounds["base"])
            missing = int((~based).sum())
            reason = f"{missing} of {len(based)} rounds with a result lack {baseline}" if missing else None
            pairs = rounds[column][based], rounds["base"][based]
            return (between(*pairs, confidence) if based.any() else NOTHING), reason

        summary = per_point(paired, *measure, estimate)  # with the baseline, which the names of its variants depend on
        return summary[~has_defaults(summary, baseline)].reset_index(drop=True)

    summary, narrow = summarise(CONFIDENCE), summarise(TOST_CONFIDENCE)
    rankings = {
        "open": summary["rounds"] < least_rounds,
        "same": (same.low < narrow["low"]) & (narrow["high"] < same.high),
        "more": summary["low"] > neutral,
        "less": summary["high"] < neutral,
    }
    ranking = np.select(list(rankings.values()), list(rankings), "open")
    equivalent = ranking == "same"
    return summary.assign(
        ranking=ranking, test_low=narrow["low"].where(equivalent), test_high=narrow["high"].where(equivalent)
    )


COMPARED = ["experiment", "model", "variant", "against", "threads"]
COLUMNS = [*COMPARED, "estimate", "low", "high", "rounds"]


def time_ratios(runs: pd.DataFrame, factor: str, value: object) -> pd.DataFrame:
    """Compute the loop time at each other value of `factor`, divided by that at `value` in the same round.

    Returns `COLUMNS`, with the 95 % interval of the ratio (above 1 is slower): one row for each pair of points with a
    result that differ only in the factor. Points of two strategies may also differ in parameters that one of the two
    strategies lacks. Variant names show what distinguishes the variants in `runs`. Emulated runs have no time, and so
    no row.
    """
    timed = average_repeats(runs[(runs["status"] == "ok") & runs["loop_s"].notna()])
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


def point_ratio(runs: pd.DataFrame, base: pd.DataFrame) -> Interval:
    """Compute the loop time of one point over that of another in the same round, whatever the two differ in.

    runs, base: the runs of a point each, of any status. Returns the geometric mean with its 95 % interval; NaN without
    a round in which both have a result.
    """
    times = _times_by_round(runs, base)
    return NOTHING if times.empty else ratio_interval(times[0], times[1])


def speedup_ratio(runs: tuple[pd.DataFrame, pd.DataFrame], base: tuple[pd.DataFrame, pd.DataFrame]) -> Interval:
    """Compute the speedup of one point over that of another, each against one worker of its own configuration.

    runs, base: the runs with one worker, and those with several. A round counts if all four have a result; otherwise
    as `point_ratio`.
    """
    times = _times_by_round(*runs, *base)
    return NOTHING if times.empty else ratio_interval(times[0] / times[1], times[2] / times[3])


def _times_by_round(*points: pd.DataFrame) -> pd.DataFrame:
    """The loop times of points, a column each, in the rounds in which all of them have a result."""
    times = [
        average_repeats(runs[(runs["status"] == "ok") & runs["loop_s"].notna()]).set_index([*ROUND])["loop_s"]
        for runs in points
    ]
    return pd.concat(times, axis="columns", join="inner", keys=range(len(times)))
