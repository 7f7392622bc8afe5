"""Where transactions could win, in sentences: small critical sections and updates of rows (docs/when-tm-wins.md)."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from tmflow.analysis.repeats import average_repeats
from tmflow.analysis.rounds import pair_by_round
from tmflow.analysis.run_table import POINT, VARIANT
from tmflow.analysis.stats import Interval, ratio_interval
from tmflow.analysis.summaries import grains
from tmflow.analysis.variants import has_defaults
from tmflow.analysis.versions import LEAST_ROUNDS, origins
from tmflow.base.text import interval, workers
from tmflow.claims.selection import usable
from tmflow.reports.comparisons import OF_ROWS, OF_SECTIONS, Comparison, having
from tmflow.reports.narrative import HARDWARE

UNMEASURED = (
    "Small critical sections and updates of a few rows, where transactions could win, were not measured with hardware "
    "transactions and several workers in at least six rounds on this platform."
)
GRAIN = "grain"


def describe_workloads(sections: pd.DataFrame, rows: pd.DataFrame) -> str:
    """Describe what hardware transactions do where they could win.

    sections, rows: tables of `queries.runs` of the experiments of `OF_SECTIONS` and `OF_ROWS`, with any status.
    """
    sentences = [describe_sections(sections), describe_rows(rows)]
    return " ".join(sentence for sentence in sentences if sentence) or UNMEASURED


def describe_sections(runs: pd.DataFrame) -> str | None:
    """Compare a transaction for each section with a lock for it, at the size where transactions do best."""
    paired = _over_striped(_with_transactions(runs, OF_SECTIONS))
    sizes = paired[GRAIN].value_counts()
    ratios = {int(size): _ratio(paired[paired[GRAIN] == size]) for size in sizes.index[sizes >= LEAST_ROUNDS]}
    if not ratios:
        return None
    best = min(ratios, key=lambda size: ratios[size].estimate)
    return (
        f"With critical sections of {best:,} elements ({_where(OF_SECTIONS, paired)}), the size where transactions do "
        f"best, a step with a transaction for each section takes {_times(ratios[best])} times as long as with a lock "
        "for each."
    )


def describe_rows(runs: pd.DataFrame) -> str | None:
    """Compare a transaction for each row with a lock for each row."""
    paired = _over_striped(_with_transactions(runs, OF_ROWS))
    paired = paired[(paired[GRAIN] == OF_ROWS.where["width"]).fillna(False).to_numpy(dtype=bool)]
    if len(paired) < LEAST_ROUNDS:
        return None
    return (
        f"With updates of {OF_ROWS.where['nonzeros']} rows ({_where(OF_ROWS, paired)}), a step with a transaction for "
        f"each row takes {_times(_ratio(paired))} times as long as with a lock for each row."
    )


def _with_transactions(runs: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
    """The runs of one origin with the most workers, each with a hardware thread, that have hardware transactions."""
    eligible: pd.DataFrame = usable(runs, "measured", "any", comparison.scale)
    most_processors = having(eligible, comparison.factors)["hardware_threads"].max()
    eligible = eligible[(eligible["hardware_threads"] == most_processors).fillna(False).to_numpy(dtype=bool)]
    if eligible.empty:
        return eligible
    chosen = having(origins(eligible, comparison.experiment)[0].runs, comparison.factors)
    chosen = chosen[(chosen["threads"] > 1) & (chosen["threads"] <= chosen["hardware_threads"])]
    of_transactions = chosen[chosen["strategy"].isin(HARDWARE) & (chosen["status"] == "ok")]
    most = of_transactions["threads"].max() if len(of_transactions) else math.nan
    return chosen[chosen["threads"] == most]


def _over_striped(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of transactions with `base_s`, the time of `striped` in their round with blocks of as many elements."""
    runs = average_repeats(runs[runs["status"] == "ok"])
    runs = runs.assign(**{GRAIN: grains(runs)})
    base = has_defaults(runs.assign(block=None), "striped")
    shared = [name for name in POINT if name not in VARIANT]
    paired = pair_by_round(runs, base, [*shared, GRAIN], "loop_s", "base_s")
    return paired[paired["strategy"].isin(HARDWARE) & paired["base_s"].notna()]


def _ratio(paired: pd.DataFrame) -> Interval:
    return ratio_interval(paired["loop_s"].to_numpy(np.float64), paired["base_s"].to_numpy(np.float64))


def _where(comparison: Comparison, paired: pd.DataFrame) -> str:
    return f"{comparison.experiment}, {workers(int(paired['threads'].iloc[0]))}"


def _times(ratio: Interval) -> str:
    return interval(ratio.estimate, ratio.low, ratio.high)
