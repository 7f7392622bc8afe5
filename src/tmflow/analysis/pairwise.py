"""Comparison of two selections of runs, A and B, at each point that both have.

A side is one variant on one platform by one software: a table as from `store.queries.runs`, with `software_sha256`.
Points match if all factors are equal except the strategy and its parameters. Two sides are meant to differ in these, in
the platform and in the software; `comparability` lists all other differences, and whether they block the comparison.
(`baseline` computes what one factor costs within an experiment; here the selections may come from anywhere.)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

import pandas as pd

from tmflow.analysis.aggregate import INTEGER_FACTORS, NOTHING, flags, without_result
from tmflow.analysis.run_table import ROUND, VARIANT
from tmflow.analysis.stats import (
    BOUND,
    CONFIDENCE,
    SAME,
    Between,
    Interval,
    difference_interval,
    equivalence,
    independent_difference_interval,
    independent_ratio_interval,
    joint_confidence,
    ratio_interval,
)
from tmflow.analysis.variants import name_of, variants
from tmflow.base.text import interval, listed
from tmflow.runfile.record import NO_TIME
from tmflow.spec.trial import TrialSpec

Measure = Literal["speed", "accuracy"]
MEASURES: dict[Measure, str] = {
    "speed": "how many times as fast B is as A",
    "accuracy": "how much higher the test accuracy of B is than that of A",
}
FACTORS = tuple(name for name in TrialSpec.model_fields if name not in VARIANT)
FIRST_TOLD = ("model", "dataset", "driver", "measures", "reading", "layout", "batch")  # first in the labels of parts
# Identify a round. Campaign and round are not enough: a contribution may claim those of another source.
PROCESSES = ("platform", "experiment", "scale", "definition_sha256", *ROUND)
VALUE = {"speed": "loop_s", "accuracy": "final_accuracy"}
# Columns of a run, in addition to its factors and its round.
_RUN_COLUMNS = ("uid", "status", "reason", "disturbed", "hardware_threads", "started_at_utc", *VALUE.values())
TELLING = {"platform": "on", "experiment": "in", "evidence": "as", "software_sha256": "by", "definition_sha256": "of"}
DIGITS = 8  # of a hash
WITHIN = f"{100 * BOUND:g} %"


class Sides(NamedTuple):
    """The runs of A and of B, of any status."""

    a: pd.DataFrame
    b: pd.DataFrame

    @property
    def paired(self) -> bool:
        """Whether a round has results of both sides, so that its disturbances cancel out."""
        rounds = [set(_ok(side)[[*PROCESSES]].itertuples(index=False, name=None)) for side in self]
        return not rounds[0].isdisjoint(rounds[1])

    @property
    def names(self) -> tuple[str, str]:
        """Names of the two sides: the variant, the platform if it differs, else another column that differs."""
        firsts = pd.concat([side.head(1) for side in self], ignore_index=True)
        names = list(variants(firsts))
        for column, word in TELLING.items():
            different = firsts[column].nunique(dropna=False) > 1
            if different and (column == "platform" or names[0] == names[1]):
                values = [str(value)[:DIGITS] if column.endswith("_sha256") else value for value in firsts[column]]
                names = [f"{name} {word} {value}" for name, value in zip(names, values, strict=True)]
        return (names[0], names[1]) if names[0] != names[1] else (f"{names[0]} (A)", f"{names[1]} (B)")


def compared(sides: Sides, measure: Measure) -> pd.DataFrame:
    """Compare B with A, one row for each point that A or B has: `FACTORS`, then

    - estimate, low, high: B relative to A with its 95 % interval; a ratio of speeds (above 1: B is faster) or a
      difference of accuracies (a fraction, above 0: B is higher). Paired if rounds have results of both, else Welch's.
      NaN bounds for a single pair, or if a side has a single round;
    - joint_low, joint_high: bounds of intervals that together hold with 95 % for a curve over the number of workers;
    - same: for speeds, "yes" if they are equivalent within 5 %, "no" if the interval is beyond 5 %, else "cannot be
      told";
    - rounds: pairs, or the smaller number of rounds if not paired; rounds_a and rounds_b: rounds with a result;
    - reason: why the estimate is missing; disturbed_rounds, oversubscribed, hardware_threads (the smaller number),
      last_run_utc;
    - variant: the names of the two sides; strategy: that of B.
    """
    columns = [*dict.fromkeys((*FACTORS, *_RUN_COLUMNS, *PROCESSES))]  # grouping is faster with few columns
    both = pd.concat(
        [side[columns].assign(side=name) for name, side in zip("ab", sides, strict=True)], ignore_index=True
    )
    paired = sides.paired
    groups = [(key, point) for key, point in both.groupby([*FACTORS], dropna=False, sort=False)]
    pairs = [_values(point, measure, paired) for _, point in groups]
    curves = [_curve_key(key) for key, _ in groups]
    several = Counter(curve for curve, (a, b, _) in zip(curves, pairs, strict=True) if min(len(a), len(b)) > 1)
    rows = [
        {
            **dict(zip(FACTORS, key, strict=True)),
            **_row(point),
            **_estimates(pair, measure, paired, max(several[curve], 1)),
        }
        for (key, point), curve, pair in zip(groups, curves, pairs, strict=True)
    ]
    name_a, name_b = sides.names
    table = pd.DataFrame(rows).assign(
        measure=measure,
        unit="1" if measure == "speed" else "fraction",
        variant=f"{name_b} against {name_a}",
        strategy=sides.b["strategy"].iloc[0],
        evidence=sides.b["evidence"].iloc[0],
    )
    integers = [name for name in (*INTEGER_FACTORS, "hardware_threads") if name in table]
    table[integers] = table[integers].astype("Int64")
    table["oversubscribed"] = table["threads"].astype("Int64") > table["hardware_threads"]
    return table.sort_values([*FACTORS], kind="stable", ignore_index=True)


def parts(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Split a comparison into (label, part), so that the points of a part differ only in the number of workers.

    Parts without an estimate come last; among the others, those with full measures come last.
    """
    candidates = [name for name in (*FIRST_TOLD, *FACTORS) if name != "threads"]
    keys: list[str] = []
    for name in dict.fromkeys(candidates):
        if table.groupby([*keys, name], dropna=False).ngroups > (
            table.groupby(keys, dropna=False).ngroups if keys else 1
        ):
            keys.append(name)
    if not keys:
        return [("", table)]
    labelled = []
    for _, part in table.groupby(keys, dropna=False, sort=False):
        values = part.iloc[0][keys].dropna()
        labelled.append((", ".join(f"{name_of(str(name))} {value}" for name, value in values.items()), part))
    return sorted(labelled, key=lambda part: (part[1]["estimate"].isna().all(), (part[1]["measures"] == "full").all()))


def sentence(row: pd.Series) -> str:
    """Describe the comparison at one point."""
    if pd.isna(row["estimate"]):
        return f"Nothing: {row['reason']}."
    low, high = (None if pd.isna(row[bound]) else float(row[bound]) for bound in ("low", "high"))
    if row["measure"] == "speed":
        ratio = f"B is {interval(row['estimate'], low, high)} times as fast as A"
        return f"{ratio}; the same within {WITHIN}: {row['same']}."
    bounds = "" if low is None or high is None else f" [{100 * low:+.2f}, {100 * high:+.2f}]"
    return f"B's accuracy is {100 * row['estimate']:+.2f}{bounds} percentage points from A's."


def joint_sentence(table: pd.DataFrame) -> str:
    """Describe the comparison over the entire curve, by joint intervals."""
    points = table[table["joint_low"].notna()]
    if points.empty:
        return "The curve as a whole is inconclusive: no point has an interval."
    level, more, less = (1, "faster", "slower") if points["measure"].iloc[0] == "speed" else (0, "higher", "lower")
    above, below = points["joint_low"] > level, points["joint_high"] < level
    decided = [
        f"{word} with {listed(list(points.loc[where, 'threads']))}"
        for word, where in ((more, above), (less, below))
        if where.any()
    ]
    open_threads = points.loc[~(above | below), "threads"]
    undecided = f"undecided with {listed(list(open_threads))}" if len(open_threads) else ""
    result = "; ".join(filter(None, [f"B is {' and '.join(decided)}" if decided else "", undecided]))
    equivalent_threads = list(table.loc[table["same"] == "yes", "threads"])
    same = (
        f" The same within {WITHIN}, each by itself: with {listed(equivalent_threads)}." if equivalent_threads else ""
    )
    return f"All together, with 95 % (Bonferroni over {len(points)}), by workers: {result}.{same}"


def pairing_sentence(sides: Sides) -> str:
    """Describe whether the intervals are paired, and what that means."""
    if sides.paired:
        return "Paired: each round that has both gives one value, so what the machine did in that round cancels out."
    return (
        "Not paired: no round has both, so rounds of A are compared with other rounds of B (Welch's t on "
        "independent samples). The result includes every difference between the machines, days and software."
    )


def _curve_key(key: tuple[object, ...]) -> str:
    """The key of a point's curve: its `FACTORS` (the values in `key`) without the number of workers."""
    return str([value for name, value in zip(FACTORS, key, strict=True) if name != "threads"])


def _ok(side: pd.DataFrame) -> pd.DataFrame:
    return side[side["status"] == "ok"]


def _values(point: pd.DataFrame, measure: Measure, paired: bool) -> tuple[Sequence[float], Sequence[float], str | None]:
    """The values of A and of B, in pairs if `paired`, and the reason if any are missing."""
    results = _ok(point)
    column = VALUE[measure]
    timed = results[results[column].notna()]
    a, b = (timed[timed["side"] == side] for side in "ab")
    if a.empty or b.empty:
        return [], [], _missing(point, results)
    if not paired:
        return list(a[column]), list(b[column]), None
    joined = a.merge(b, on=[*PROCESSES], suffixes=("_a", "_b"))
    if joined.empty:
        return [], [], "no round has both"
    unpaired = max(len(a), len(b)) - len(joined)
    reason = f"rounds with only one of the two: {unpaired} of {len(joined) + unpaired}" if unpaired else None
    return list(joined[f"{column}_a"]), list(joined[f"{column}_b"]), reason


def _missing(point: pd.DataFrame, results: pd.DataFrame) -> str:
    """Describe why a point cannot be compared."""
    reasons = []
    for side in "ab":
        runs = point[point["side"] == side]
        if runs.empty:
            reasons.append(f"{side.upper()} was not run there")
        elif results[results["side"] == side].empty:
            reasons.append(f"{side.upper()}: {without_result(runs)}")
    return "; ".join(reasons) or NO_TIME


def _estimates(
    pair: tuple[Sequence[float], Sequence[float], str | None], measure: Measure, paired: bool, points: int
) -> dict[str, object]:
    a, b, reason = pair
    between, numbers = _between(measure, paired), (a, b) if measure == "speed" else (b, a)
    single, joint = NOTHING, NOTHING
    if len(a) and len(b):
        single, joint = between(*numbers, CONFIDENCE), between(*numbers, joint_confidence(points))
    return {
        "estimate": single.estimate,
        "low": single.low,
        "high": single.high,
        "joint_low": joint.low,
        "joint_high": joint.high,
        "same": _same(single, a, b, between) if measure == "speed" and len(a) and len(b) else None,
        "rounds": single.n,
        "reason": reason,
    }


def _between(measure: Measure, paired: bool) -> Between:
    if measure == "speed":
        return ratio_interval if paired else independent_ratio_interval
    return difference_interval if paired else independent_difference_interval


def _same(ratio: Interval, a: Sequence[float], b: Sequence[float], between: Between) -> str:
    if not math.isnan(ratio.low) and equivalence(a, b, between=between).equivalent:
        return "yes"
    if ratio.low > SAME.high or ratio.high < SAME.low:
        return "no"
    return "cannot be told"


def _row(point: pd.DataFrame) -> dict[str, object]:
    results = _ok(point)
    return {
        "rounds_a": int((results["side"] == "a").sum()),
        "rounds_b": int((results["side"] == "b").sum()),
        "disturbed_rounds": int(flags(results["disturbed"]).sum()),
        "hardware_threads": point["hardware_threads"].min(),
        "last_run_utc": point["started_at_utc"].max(),
    }
