"""Comparison of a selection of runs, B, with another one, A, at each point that both have.

There may be several comparisons with one A: the other side is then called C or D, and the joint intervals hold for all
comparisons together.

A side is one variant on one platform with one software version: a table of `store.queries.runs` with the column
`software_sha256`. Two points match if all factors except the strategy and its parameters are equal. The sides may
differ in these, in the platform and in the software; `comparability` lists all other differences and says which of them
block the comparison. (`baseline` computes the cost of one factor within an experiment; here the selections may come
from any experiments.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from tmflow.analysis.repeats import average_repeats
from tmflow.analysis.rounds import INTEGER_FACTORS, NOTHING, flags, rounds_with_result, without_result
from tmflow.analysis.run_table import ROUND, VARIANT, numbered
from tmflow.analysis.stats import (
    BOUND,
    CONFIDENCE,
    SAME,
    TOST_CONFIDENCE,
    Between,
    Interval,
    difference_interval,
    equivalent,
    independent_difference_interval,
    independent_ratio_interval,
    joint_confidence,
    ratio_interval,
)
from tmflow.analysis.variants import name_of, variants
from tmflow.base.text import interval, listed
from tmflow.runfile.record import NO_ACCURACY, NO_TIME
from tmflow.spec.trial import TrialSpec

Measure = Literal["speed", "accuracy"]
MEASURES: dict[Measure, str] = {
    "speed": "how many times as fast B is as A",
    "accuracy": "how much higher the test accuracy of B is than that of A",
}
FACTORS = tuple(name for name in TrialSpec.model_fields if name not in VARIANT)
FIRST_TOLD = ("model", "dataset", "driver", "measures", "reading", "layout", "batch")  # first in the labels of parts
# These identify a round. Campaign and round are not enough: a contribution may claim those of another source.
PROCESSES = ("platform", "experiment", "scale", "definition_sha256", *ROUND)
VALUE = {"speed": "loop_s", "accuracy": "final_accuracy"}
# How two samples are compared, by the measure and whether they are paired.
BETWEEN: dict[tuple[Measure, bool], Between] = {
    ("speed", True): ratio_interval,
    ("speed", False): independent_ratio_interval,
    ("accuracy", True): difference_interval,
    ("accuracy", False): independent_difference_interval,
}
# Columns of a run, in addition to its factors and its round.
_RUN_COLUMNS = ("uid", "status", "reason", "disturbed", "hardware_threads", "started_at_utc", *VALUE.values())
TELLING = {
    "platform": "on", "experiment": "in", "evidence": "as", "software_sha256": "by", "definition_sha256": "of",
    "campaign_uid": "of campaign",
}  # fmt: skip
DIGITS = 8  # shown of a hash
WITHIN = f"{100 * BOUND:g} %"


@dataclass(frozen=True, eq=False)
class Sides:
    """The runs of A and of the side compared with it, of any status; an iterator yields the two.

    letter: what the other side is called. comparisons: how many sides are compared with A.
    """

    a: pd.DataFrame
    b: pd.DataFrame
    letter: str = "B"
    comparisons: int = 1

    def __iter__(self) -> Iterator[pd.DataFrame]:
        yield from (self.a, self.b)

    @property
    def letters(self) -> dict[str, str]:
        """What the two sides are called, by the names of the fields."""
        return {"a": "A", "b": self.letter}

    @property
    def paired(self) -> bool:
        """Whether any round has results of both sides, so that its disturbances cancel out."""
        rounds = [set(_ok(side)[[*PROCESSES]].itertuples(index=False, name=None)) for side in self]
        return not rounds[0].isdisjoint(rounds[1])

    @property
    def names(self) -> tuple[str, str]:
        """The names of the two sides: the variant, and the platform or else another column in which they differ."""
        firsts = pd.concat([side.head(1) for side in self], ignore_index=True)
        names = list(variants(firsts))
        for column, word in TELLING.items():
            if column == "campaign_uid" and any(side[column].nunique() > 1 for side in self):
                continue  # a side of several campaigns is not one of them
            different = firsts[column].nunique(dropna=False) > 1
            if different and (column == "platform" or names[0] == names[1]):
                values = [str(value)[:DIGITS] if column.endswith("_sha256") else value for value in firsts[column]]
                names = [f"{name} {word} {value}" for name, value in zip(names, values, strict=True)]
        return (names[0], names[1]) if names[0] != names[1] else (f"{names[0]} (A)", f"{names[1]} ({self.letter})")


def compared(sides: Sides, measure: Measure) -> pd.DataFrame:
    """Compare B with A. Each point that A or B has is one row, with the columns `FACTORS` and

    - estimate, low, high: B relative to A with its 95 % interval; a ratio of speeds (above 1: B is faster) or a
      difference of accuracies (a fraction, above 0: B is higher). The interval is paired if rounds have results of
      both, else Welch's. The bounds are NaN for a single pair, or if a side has a single round;
    - joint_low, joint_high: bounds of intervals that hold jointly, at 95 %, for a curve over the number of workers, and
      for all `comparisons` with A;
    - letter, comparisons: those of the sides;
    - same: for speeds, "yes" if they are equivalent within 5 %, "no" if the interval is beyond 5 %, else
      "inconclusive";
    - test_low, test_high: the 90 % interval of the equivalence test, where it shows that they are equivalent;
    - rounds: pairs, or the smaller number of rounds if not paired; rounds_a and rounds_b: rounds with a result;
    - results: how many rounds of each side have a result, and how the others ended;
    - reason: why the estimate, or some of its rounds, is missing;
    - disturbed_rounds, oversubscribed, hardware_threads (the smaller number), last_run_utc;
    - variant: the names of the two sides; strategy: that of B.
    """
    columns = [*dict.fromkeys((*FACTORS, *_RUN_COLUMNS, *PROCESSES))]  # grouping is faster with few columns
    both = pd.concat(
        [average_repeats(side)[columns].assign(side=name) for name, side in zip("ab", sides, strict=True)],
        ignore_index=True,
    )
    name_a, name_b = sides.names
    paired = sides.paired
    points = [
        dict(zip(FACTORS, key, strict=True))
        | _counts(point, sides.letters)
        | _values(point, measure, paired, sides.letters)
        for key, point in both.groupby([*FACTORS], dropna=False, sort=False)
    ]
    table = pd.DataFrame(points)
    of_curve = [name for name in FACTORS if name != "threads"]
    several = (table["a"].map(len).clip(upper=table["b"].map(len)) > 1).groupby(numbered(table, of_curve))
    estimates = [
        _estimates(a, b, measure, paired, max(n, 1) * sides.comparisons)
        for a, b, n in zip(table.pop("a"), table.pop("b"), several.transform("sum"), strict=True)
    ]
    reasons = table.pop("reason")
    table = table.join(pd.DataFrame(estimates)).assign(
        reason=reasons,
        measure=measure,
        unit="1" if measure == "speed" else "fraction",
        variant=f"{name_b} against {name_a}",
        letter=sides.letter,
        comparisons=sides.comparisons,
        strategy=sides.b["strategy"].iloc[0],
        evidence=sides.b["evidence"].iloc[0],
    )
    integers = [name for name in (*INTEGER_FACTORS, "hardware_threads") if name in table]
    table[integers] = table[integers].astype("Int64")
    table["oversubscribed"] = table["threads"] > table["hardware_threads"]
    return table.sort_values([*FACTORS], kind="stable", ignore_index=True)


def parts(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Split a comparison into (label, part), so that the points of a part differ only in the number of workers.

    Parts with full measures come after the others, and parts without any estimate come last.
    """
    keys: list[str] = []
    for name in dict.fromkeys((*FIRST_TOLD, *FACTORS)):
        given = numbered(table, keys)
        if name != "threads" and pd.Series(numbered(table, [name])).groupby(given).nunique().gt(1).any():
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
        ratio = f"{row['letter']} is {interval(row['estimate'], low, high)} times as fast as A"
        return f"{ratio}; equivalent within {WITHIN}: {row['same']}."
    bounds = "" if low is None or high is None else f" [{100 * low:+.2f}, {100 * high:+.2f}]"
    return f"The accuracy of {row['letter']} minus that of A is {100 * row['estimate']:+.2f}{bounds} percentage points."


def joint_sentence(table: pd.DataFrame) -> str:
    """Describe the comparison over the entire curve, by joint intervals."""
    points = table[table["joint_low"].notna()]
    if points.empty:
        return "The curve as a whole is inconclusive: no point has an interval."
    level, more, less = (1, "faster", "slower") if points["measure"].iloc[0] == "speed" else (0, "higher", "lower")
    letter, comparisons = points["letter"].iloc[0], int(points["comparisons"].iloc[0])
    above, below = points["joint_low"] > level, points["joint_high"] < level
    decided = [
        f"{word} with {listed(list(points.loc[where, 'threads']))}"
        for word, where in ((more, above), (less, below))
        if where.any()
    ]
    open_threads = points.loc[~(above | below), "threads"]
    undecided = f"undecided with {listed(list(open_threads))}" if len(open_threads) else ""
    result = "; ".join(filter(None, [f"{letter} is {' and '.join(decided)}" if decided else "", undecided]))
    same_threads = list(table.loc[table["same"] == "yes", "threads"])
    same = f" Each point by itself: equivalent within {WITHIN} with {listed(same_threads)}." if same_threads else ""
    over = f"{len(points)} points of each of {comparisons} comparisons" if comparisons > 1 else f"{len(points)}"
    return f"By number of workers, jointly at 95 % (Bonferroni over {over}): {result}.{same}"


def pairing_sentence(sides: Sides) -> str:
    """Describe whether the intervals are paired, and what that means."""
    if sides.paired:
        return "Paired: each round that has both gives one value, so what the machine did in that round cancels out."
    return (
        f"Not paired: no round has both, so rounds of A are compared with other rounds of {sides.letter} (Welch's t on "
        "independent samples). The result includes every difference between the machines, days and software."
    )


def _ok(side: pd.DataFrame) -> pd.DataFrame:
    return side[side["status"] == "ok"]


def _counts(point: pd.DataFrame, letters: Mapping[str, str]) -> dict[str, Any]:
    """The columns of a point that do not depend on the measure."""
    results = _ok(point)
    sides = [(letter, point[point["side"] == side]) for side, letter in letters.items()]
    return {
        "rounds_a": int((results["side"] == "a").sum()),
        "rounds_b": int((results["side"] == "b").sum()),
        "results": ", ".join(f"{letter} {rounds_with_result(runs)}" for letter, runs in sides if len(runs)),
        "disturbed_rounds": int(flags(results["disturbed"]).sum()),
        "hardware_threads": point["hardware_threads"].min(),
        "last_run_utc": point["started_at_utc"].max(),
    }


def _values(point: pd.DataFrame, measure: Measure, paired: bool, letters: Mapping[str, str]) -> dict[str, Any]:
    """The values of `a` and of `b`, in pairs if `paired`, and the `reason` if any are missing."""
    column = VALUE[measure]
    timed = _ok(point).dropna(subset=column)
    a, b = (timed[timed["side"] == side] for side in "ab")
    if a.empty or b.empty:
        return {"a": [], "b": [], "reason": _missing(point, measure, letters)}
    lost = _without_result(point, letters)
    if not paired:
        return {"a": list(a[column]), "b": list(b[column]), "reason": "; ".join(lost) or None}
    joined = a.merge(b, on=[*PROCESSES], suffixes=("_a", "_b"))
    unpaired = max(len(a), len(b)) - len(joined)
    only_one = [f"rounds with only one of the two: {unpaired} of {len(joined) + unpaired}"] if unpaired else []
    return {
        "a": list(joined[f"{column}_a"]),
        "b": list(joined[f"{column}_b"]),
        "reason": "no round has both" if joined.empty else "; ".join([*only_one, *lost]) or None,
    }


def _without_result(point: pd.DataFrame, letters: Mapping[str, str]) -> list[str]:
    """Describe how the rounds of each side without a result ended."""
    ends = {letter: without_result(point[point["side"] == side]) for side, letter in letters.items()}
    return [f"{letter}: {end}" for letter, end in ends.items() if end]


def _missing(point: pd.DataFrame, measure: Measure, letters: Mapping[str, str]) -> str:
    """Describe why a point cannot be compared."""
    reasons = []
    for side, letter in letters.items():
        runs = point[point["side"] == side]
        if runs.empty:
            reasons.append(f"{letter} was not run there")
        elif _ok(runs).empty:
            reasons.append(f"{letter}: {without_result(runs)}")
    return "; ".join(reasons) or (NO_TIME if measure == "speed" else NO_ACCURACY)


def _estimates(a: Sequence[float], b: Sequence[float], measure: Measure, paired: bool, points: int) -> dict[str, Any]:
    """The estimate of a point, with its own interval and with that which holds jointly on a curve of `points`."""
    between, numbers = BETWEEN[measure, paired], (a, b) if measure == "speed" else (b, a)
    single, joint, test, same = NOTHING, NOTHING, NOTHING, None
    if len(a):
        single, joint = between(*numbers, CONFIDENCE), between(*numbers, joint_confidence(points))
        if measure == "speed":
            same = _same(single, a, b, between)
            test = between(a, b, TOST_CONFIDENCE) if same == "yes" else NOTHING
    return {
        "estimate": single.estimate,
        "low": single.low,
        "high": single.high,
        "joint_low": joint.low,
        "joint_high": joint.high,
        "test_low": test.low,
        "test_high": test.high,
        "same": same,
        "rounds": single.n,
    }


def _same(ratio: Interval, a: Sequence[float], b: Sequence[float], between: Between) -> str:
    if not math.isnan(ratio.low) and equivalent(a, b, between=between):
        return "yes"
    return "no" if ratio.low > SAME.high or ratio.high < SAME.low else "inconclusive"
