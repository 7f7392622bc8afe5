"""What one factor costs: the time of each point over that of the point that differs from it in nothing else."""

from __future__ import annotations

import pandas as pd

from tmflow.analysis.run_table import POINT, ROUND
from tmflow.analysis.stats import ratio_interval
from tmflow.analysis.variants import ordered_variants, variants
from tmflow.spec.strategies import PARAMETERS

POINTS = ["experiment", "model", "variant", "against", "threads"]
COLUMNS = [*POINTS, "estimate", "low", "high", "rounds"]


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
            rows.append([*point.iloc[0][POINTS], *ratio])
    table = pd.DataFrame(rows, columns=COLUMNS)
    rank = {variant: place for place, variant in enumerate(ordered_variants(timed["variant"]))}
    return table.sort_values(
        POINTS, ignore_index=True, key=lambda c: c.map(rank) if c.name in ("variant", "against") else c
    )
