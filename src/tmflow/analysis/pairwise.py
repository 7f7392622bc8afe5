"""Two selections of runs, A and B, against each other: at each point that both have, how B compares with A.

A side is one variant on one platform by one software: a table as `store.queries.runs` gives it, with `software_sha256`.
Points match where all factors are equal but the strategy and its parameters: those, the platform and the software are
what two sides are meant to differ in. What else differs, and whether that forbids comparing, `comparability` tells.
(`comparisons` asks what one factor costs within an experiment; here two selections of any origin meet.)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

import pandas as pd

from tmflow.analysis.aggregate import NOTHING, WHOLE, flags, without_result
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
FIRST_TOLD = ("model", "dataset", "driver", "measures", "reading", "layout", "batch")  # of what tells parts apart
# Of one of these a round is, whatever its number. A contribution may claim the campaign and round of somebody else.
PROCESSES = ("platform", "experiment", "scale", "definition_sha256", *ROUND)
VALUE = {"speed": "loop_s", "accuracy": "final_accuracy"}
# Of a run, beside its factors and its round.
ASKED = ("uid", "status", "reason", "disturbed", "hardware_threads", "started_at_utc", *VALUE.values())
TELLING = {"platform": "on", "experiment": "in", "evidence": "as", "software_sha256": "by", "definition_sha256": "of"}
DIGITS = 8  # of a hash
WITHIN = f"{100 * BOUND:g} %"


class Sides(NamedTuple):
    """The runs of A and of B, of any status."""

    a: pd.DataFrame
    b: pd.DataFrame

    @property
    def paired(self) -> bool:
        """Whether a round has results of both, so that what it did to them cancels out."""
        rounds = [set(_ok(side)[[*PROCESSES]].itertuples(index=False, name=None)) for side in self]
        return not rounds[0].isdisjoint(rounds[1])

    @property
    def names(self) -> tuple[str, str]:
        """What to call them: the variant, the platform where they differ in it, else what tells one from the other."""
        firsts = pd.concat([side.head(1) for side in self], ignore_index=True)
        told = list(variants(firsts))
        for column, word in TELLING.items():
            different = firsts[column].nunique(dropna=False) > 1
            if different and (column == "platform" or told[0] == told[1]):
                values = [str(value)[:DIGITS] if column.endswith("_sha256") else value for value in firsts[column]]
                told = [f"{name} {word} {value}" for name, value in zip(told, values, strict=True)]
        return (told[0], told[1]) if told[0] != told[1] else (f"{told[0]} (A)", f"{told[1]} (B)")


def compared(sides: Sides, measure: Measure) -> pd.DataFrame:
    """One row for each point that A or B has: `FACTORS`, then

    - estimate, low, high: B against A with its 95 % interval; a ratio of speeds (above 1: B is faster) or a difference
      of accuracies (a fraction, above 0: B is higher). Paired within rounds where rounds have both, else Welch's.
      NaN bounds where there is a single pair, or a single round of a side;
    - joint_low, joint_high: of intervals that all hold at once with 95 %, those of a curve over the number of workers;
    - same: of speeds, "yes" if they are surely within 5 % of each other, "no" if surely not, else "cannot be told";
    - rounds, or the smaller number of them where they are not paired; rounds_a and rounds_b: with a result;
    - reason: what is missing of it; disturbed_rounds, oversubscribed, hardware_threads (the fewer), last_run_utc;
    - variant: the names of the two; strategy: that of B.
    """
    asked = [*dict.fromkeys((*FACTORS, *ASKED, *PROCESSES))]  # few columns are quick to divide
    both = pd.concat([side[asked].assign(side=name) for name, side in zip("ab", sides, strict=True)], ignore_index=True)
    paired = sides.paired
    groups = [(key, point) for key, point in both.groupby([*FACTORS], dropna=False, sort=False)]
    pairs = [_values(point, measure, paired) for _, point in groups]
    curves = [_but_threads(key) for key, _ in groups]
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
    whole = [name for name in (*WHOLE, "hardware_threads") if name in table]
    table[whole] = table[whole].astype("Int64")
    table["oversubscribed"] = table["threads"].astype("Int64") > table["hardware_threads"]
    return table.sort_values([*FACTORS], kind="stable", ignore_index=True)


def parts(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The parts of a comparison that differ in more than the number of workers, with what tells each from the rest.

    Parts that were measured in full come after those that were not, and those with nothing to compare last.
    """
    others = [name for name in (*FIRST_TOLD, *FACTORS) if name != "threads"]
    told: list[str] = []
    for name in dict.fromkeys(others):
        if table.groupby([*told, name], dropna=False).ngroups > (
            table.groupby(told, dropna=False).ngroups if told else 1
        ):
            told.append(name)
    if not told:
        return [("", table)]
    found = []
    for _, part in table.groupby(told, dropna=False, sort=False):
        values = part.iloc[0][told].dropna()
        found.append((", ".join(f"{name_of(str(name))} {value}" for name, value in values.items()), part))
    return sorted(found, key=lambda part: (part[1]["estimate"].isna().all(), (part[1]["measures"] == "full").all()))


def sentence(row: pd.Series) -> str:
    """What one point says."""
    if pd.isna(row["estimate"]):
        return f"Nothing: {row['reason']}."
    low, high = (None if pd.isna(row[bound]) else float(row[bound]) for bound in ("low", "high"))
    if row["measure"] == "speed":
        told = f"B is {interval(row['estimate'], low, high)} times as fast as A"
        return f"{told}; the same within {WITHIN}: {row['same']}."
    bounds = "" if low is None or high is None else f" [{100 * low:+.2f}, {100 * high:+.2f}]"
    return f"B's accuracy is {100 * row['estimate']:+.2f}{bounds} percentage points from A's."


def joint_sentence(table: pd.DataFrame) -> str:
    """What the whole curve says, by intervals that all hold at once."""
    known = table[table["joint_low"].notna()]
    if known.empty:
        return "Of the curve as a whole nothing can be said: no point has an interval."
    level, more, less = (1, "faster", "slower") if known["measure"].iloc[0] == "speed" else (0, "higher", "lower")
    above, below = known["joint_low"] > level, known["joint_high"] < level
    told = [
        f"{word} with {listed(list(known.loc[where, 'threads']))}"
        for word, where in ((more, above), (less, below))
        if where.any()
    ]
    left = known.loc[~(above | below), "threads"]
    undecided = f"undecided with {listed(list(left))}" if len(left) else ""
    says = "; ".join(filter(None, [" and ".join(told) and f"B is {' and '.join(told)}", undecided]))
    alike = list(table.loc[table["same"] == "yes", "threads"])
    same = f" The same within {WITHIN}, each by itself: with {listed(alike)}." if alike else ""
    return f"All together, with 95 % (Bonferroni over {len(known)}), by workers: {says}.{same}"


def pairing_sentence(sides: Sides) -> str:
    """How the intervals were made, and what that means."""
    if sides.paired:
        return "Paired: each round that has both gives one value, so what the machine did in that round cancels out."
    return (
        "Not paired: no round has both, so rounds of A are compared with other rounds of B (Welch's t on "
        "independent samples). What differed between the machines, days or software is in it, as if it were the "
        "difference of the two."
    )


def _but_threads(key: tuple[object, ...]) -> str:
    """Which curve a point is of, `key` being its `FACTORS`."""
    return str([value for name, value in zip(FACTORS, key, strict=True) if name != "threads"])


def _ok(side: pd.DataFrame) -> pd.DataFrame:
    return side[side["status"] == "ok"]


def _values(point: pd.DataFrame, measure: Measure, paired: bool) -> tuple[Sequence[float], Sequence[float], str | None]:
    """The values of A and of B, in pairs if so, and what is missing of them."""
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
    alone = max(len(a), len(b)) - len(joined)
    reason = f"rounds with only one of the two: {alone} of {len(joined) + alone}" if alone else None
    return list(joined[f"{column}_a"]), list(joined[f"{column}_b"]), reason


def _missing(point: pd.DataFrame, results: pd.DataFrame) -> str:
    """Why a point cannot be compared."""
    reasons = []
    for side in "ab":
        its = point[point["side"] == side]
        if its.empty:
            reasons.append(f"{side.upper()} was not run there")
        elif results[results["side"] == side].empty:
            reasons.append(f"{side.upper()}: {without_result(its)}")
    return "; ".join(reasons) or NO_TIME


def _estimates(
    pair: tuple[Sequence[float], Sequence[float], str | None], measure: Measure, paired: bool, points: int
) -> dict[str, object]:
    a, b, reason = pair
    between, numbers = _between(measure, paired), (a, b) if measure == "speed" else (b, a)
    found, joint = NOTHING, NOTHING
    if len(a) and len(b):
        found, joint = between(*numbers, CONFIDENCE), between(*numbers, joint_confidence(points))
    return {
        "estimate": found.estimate,
        "low": found.low,
        "high": found.high,
        "joint_low": joint.low,
        "joint_high": joint.high,
        "same": _same(found, a, b, between) if measure == "speed" and len(a) and len(b) else None,
        "rounds": found.n,
        "reason": reason,
    }


def _between(measure: Measure, paired: bool) -> Between:
    if measure == "speed":
        return ratio_interval if paired else independent_ratio_interval
    return difference_interval if paired else independent_difference_interval


def _same(found: Interval, a: Sequence[float], b: Sequence[float], between: Between) -> str:
    if not math.isnan(found.low) and equivalence(a, b, between=between).equivalent:
        return "yes"
    if found.low > SAME.high or found.high < SAME.low:
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
