"""What one factor costs: the time of each point over that of the point that differs from it in nothing else."""

from __future__ import annotations

import pandas as pd

from tmflow.stats import ratio_interval
from tmflow.strategy_parameters import PARAMETERS
from tmflow.summaries import POINT, ROUND, variants

COLUMNS = ["experiment", "variant", "threads", "compared", "against", "estimate", "low", "high", "rounds"]


def time_ratios(runs: pd.DataFrame, factor: str, value: object) -> pd.DataFrame:
    """The workers' loop's time at each other value of `factor`, over that at `value` in the same round.

    One row for each pair of points with a result that differ in the factor alone: `COLUMNS`, with the ratio's 95 %
    interval. Strategies may also differ in the parameters that the one compared with does not have. Above 1 is slower.
    Emulated runs have no time and no row.
    """
    timed = runs[(runs["status"] == "ok") & runs["loop_s"].notna()]
    timed = timed.assign(variant=variants(timed))
    base = timed[timed[factor] == value]
    own = [name for name in PARAMETERS if factor == "strategy" and base[name].isna().all()]
    shared = [name for name in POINT if name != factor and name not in own]
    base = base.loc[:, [*shared, *ROUND, "loop_s"]].rename(columns={"loop_s": "base_s"})
    pairs = timed[timed[factor].notna() & (timed[factor] != value)].merge(
        base, on=[*shared, *ROUND], validate="many_to_one"
    )
    rows = []
    for _, point in pairs.groupby([*shared, *own, factor], dropna=False, sort=False):
        first, ratio = point.iloc[0], ratio_interval(point["loop_s"], point["base_s"])
        rows.append(
            [
                first["experiment"],
                first["variant"],
                first["threads"],
                f"{factor} {first[factor]}",
                f"{factor} {value}",
                *ratio,
            ]
        )
    return pd.DataFrame(rows, columns=COLUMNS)
