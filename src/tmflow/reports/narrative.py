"""Sentences on comparisons with a lock; `summary` is always a result of `analysis.baseline`.

Names in the sentences may come from untrusted run files: pages that show Markdown must use `base.text.markdown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from tmflow.analysis.baseline import Ranking
from tmflow.analysis.repeats import average_repeats
from tmflow.analysis.run_table import ROUND
from tmflow.analysis.stats import Interval, bounded, ratio_interval
from tmflow.analysis.variants import variants
from tmflow.base.text import interval, listed, several
from tmflow.spec.strategies import DELAYED

Consistencies = Mapping[str, str | None]
"""The guarantee of each strategy for updates; None if it is unknown."""

SPEED: dict[Ranking, str] = {
    "more": "significantly faster",
    "same": "equivalent within 5 %",
    "open": "no significant difference",
    "less": "significantly slower",
}
ACCURACY: dict[Ranking, str] = {
    "more": "significantly more accurate",
    "same": "equivalent within 2 percentage points",
    "open": "no significant difference",
    "less": "significantly less accurate",
}
HARDWARE, SOFTWARE, BARE = ("htm",), ("stm", "itm", "block_stm"), ("tf_nolock", "nolock")
NO_LOCKS = ("adaptive", "htm_if_fits", *DELAYED)
"""Choose between transactions and locks, or show updates late."""
NOT_COMPARABLE = ("tle",)
"""Elide another mutex than the lock, one that no reader takes."""
NOTHING = "Nothing measured yet."
NOT_TESTED = "Not tested: only one worker was measured."
ONE_WORKER = "one worker has no other to protect its updates from."


class Narrative(NamedTuple):
    """A short answer and the sentences that support it."""

    short: str
    sentences: list[str]


def answer_one_worker(summary: pd.DataFrame) -> Narrative:
    """Answer for runs of one worker, which show the overhead of a strategy, never what it is for."""
    experiment = summary["experiment"].iloc[0]
    return Narrative(
        NOT_TESTED,
        [
            f"No run of {experiment} has two or more workers with a hardware thread each, and {ONE_WORKER} The chart "
            "shows the cost of each strategy without concurrency."
        ],
    )


def answer_transactions(summary: pd.DataFrame, runs: pd.DataFrame, baseline: str) -> Narrative:
    """Answer whether hardware or software transactions are faster than every lock; `runs`: those of the summary."""
    hardware, software, bare = (summary[summary["strategy"].isin(list(names))] for names in (HARDWARE, SOFTWARE, BARE))
    over = f"speedup over {baseline}"
    sentences = [
        _speeds(f"Hardware transactions, {over}", hardware) or "Hardware transactions were not run.",
        _speeds(f"Software transactions, {over}", software) or "Software transactions were not run.",
        _speeds(f"No lock at all, {over}", bare),
    ]
    not_comparable = summary[summary["strategy"].isin(NOT_COMPARABLE) & summary["estimate"].notna()]
    if len(not_comparable):
        sentences.append(
            f"Not comparable: {_each(not_comparable)}, because it elides another mutex, which readers never take."
        )
    tried = pd.concat([hardware, software])
    outcomes = tried.loc[tried["estimate"].notna(), "ranking"]
    faster = list(tried.loc[tried["ranking"] == "more", "variant"])
    rivals = _locks_not_slower(summary, runs) if faster else []
    if rivals:
        short = f"Not needed here: {listed(faster)} beats {baseline}, but {listed(rivals)} is not significantly slower."
    elif faster:
        short = f"Here it does: {listed(faster)} beats the lock."
    elif outcomes.empty:
        short = "No transactions ran here."
    elif not outcomes.isin(["same", "less"]).all():
        short = "No benefit shown."
    else:
        short = (
            "Not here." if hardware["estimate"].notna().any() else "Not in software; hardware transactions did not run."
        )
    return Narrative(short, [sentence for sentence in sentences if sentence])


def answer_strategies(
    summary: pd.DataFrame, runs: pd.DataFrame, baseline: str, consistencies: Consistencies, lost: str
) -> Narrative:
    """Answer which strategy to use: the fastest without lost updates, and the gain of those that may lose some.

    runs: the runs of the summary; lost: a sentence on lost updates.
    """
    estimated = summary[summary["estimate"].notna()]
    consistency = estimated["strategy"].map(lambda strategy: consistencies.get(strategy) or "").astype(str)
    keeping, losing = estimated[~consistency.isin(["", "none"])], estimated[consistency == "none"]
    unknown = list(estimated.loc[consistency == "", "variant"])
    short, sentences = NOTHING, []
    if len(keeping):
        best = keeping.sort_values("estimate").iloc[-1]
        short = f"{best['variant']}: no lost updates, significantly faster than {baseline}."
        if best["ranking"] != "more":
            short = f"{baseline}: no lossless strategy is significantly faster."
        sentences.append(
            f"Of the other strategies without lost updates, {best['variant']} is the fastest: speedup "
            f"{_interval(best)} over {baseline}, {SPEED[best['ranking']]}."
        )
        equals = find_not_slower(runs, str(best["variant"]), list(keeping["variant"]))
        sentences += [f"Not significantly slower: {listed(equals)}."] if equals else []
    if len(losing):
        sentences += [_speeds(f"Strategies that may lose updates, speedup over {baseline}", losing), lost]
    if unknown:
        sentences.append(
            f"Whether {listed(unknown)} may lose updates is unknown until the strategies are built: `make build`."
        )
    return Narrative(short, sentences)


def answer_accuracy(summary: pd.DataFrame, baseline: str) -> Narrative:
    """Answer whether the final accuracy of any strategy differs from that of the lock."""
    estimated = summary[summary["estimate"].notna()]
    outcomes = set(estimated["ranking"])
    worse, better = (list(estimated.loc[estimated["ranking"] == way, "variant"]) for way in ("less", "more"))
    if worse:
        short = f"Yes, under {listed(worse)}."
    elif better:
        short = f"No: under {listed(better)} it is better."
    elif outcomes == {"same"}:
        short = "No: equivalent within 2 percentage points."
    else:
        short = "Not conclusive yet." if outcomes else NOTHING
    sides = [
        f"Test accuracy relative to {baseline}, in percentage points: {_each(rows, 100)}, {words}."
        for way, words in ACCURACY.items()
        if len(rows := estimated[estimated["ranking"] == way])
    ]
    return Narrative(short, [*sides, *_without(summary)])


def _locks_not_slower(summary: pd.DataFrame, runs: pd.DataFrame) -> list[str]:
    """Find the locks that are not significantly slower than the fastest transactions."""
    measured = summary[summary["estimate"].notna()]
    tried = measured[measured["strategy"].isin([*HARDWARE, *SOFTWARE])]
    locks = measured[~measured["strategy"].isin([*HARDWARE, *SOFTWARE, *BARE, *NOT_COMPARABLE, *NO_LOCKS])]
    fastest = tried.sort_values("estimate").iloc[-1]["variant"]
    return find_not_slower(runs, str(fastest), list(locks["variant"]))


def describe_losses(lost: pd.DataFrame, where: str) -> str:
    """Describe lost updates; `lost`: a result of `summaries.lost` at one number of workers; `where`: the runs."""
    estimated = lost[lost["estimate"].notna()]
    if estimated.empty:
        return f"The share of lost updates was not measured ({where})."
    losing, keeping = estimated[estimated["estimate"] > 0], estimated[estimated["estimate"] == 0]
    rounds = several(int(estimated["rounds"].min()), "round")
    parts = [f"{_each(losing, 100)} % of the updates"] if len(losing) else []
    if len(keeping):
        most = keeping["high"].max()  # upper bound of the share of rounds with a lost update
        chance = "" if pd.isna(most) else f" (at most {100 * most:.2g} % of rounds lose any, with 95 % confidence)"
        parts += [f"under {'every other' if parts else 'every'} strategy none{chance}"]
    return f"Lost updates ({where}, {rounds}): {'; '.join(parts)}."


def find_not_slower(runs: pd.DataFrame, best: str, others: list[str]) -> list[str]:
    """Find the variants that are not significantly slower than `best`, by the rounds that both have."""
    ok = average_repeats(runs[runs["status"] == "ok"])
    times = ok.assign(variant=variants(runs)).pivot(index=[*ROUND], columns="variant", values="loop_s")
    equals = []
    for other in others:
        pairs = times[[best, other]].dropna() if other != best else times[:0]
        if len(pairs) == 1 or (len(pairs) > 1 and ratio_interval(pairs[best], pairs[other]).high >= 1):
            equals.append(other)
    return equals


def _speeds(name: str, rows: pd.DataFrame) -> str:
    """A sentence with the variants grouped by outcome; empty for no rows."""
    if rows.empty:
        return ""
    estimated = rows[rows["estimate"].notna()]
    sides = [
        f"{_each(side)}, {words}" for way, words in SPEED.items() if len(side := estimated[estimated["ranking"] == way])
    ]
    return f"{name}: {'; '.join(sides)}." if sides else f"{name}: {' '.join(_without(rows))}"


def _without(rows: pd.DataFrame) -> list[str]:
    """A sentence for each reason why variants have no estimate."""
    missing = rows[rows["estimate"].isna()]
    return [
        f"{listed(list(group['variant']))} has no result ({reason})." for reason, group in missing.groupby("reason")
    ]


def _each(rows: pd.DataFrame, unit: float = 1) -> str:
    """The variants with their intervals, multiplied by `unit`."""
    return listed([f"{row['variant']} {_interval(row, unit)}" for _, row in rows.iterrows()])


def _interval(row: pd.Series, unit: float = 1) -> str:
    estimate, low, high = (unit * row[name] for name in ("estimate", "low", "high"))
    return interval(*bounded(Interval(estimate, low, high, row["rounds"])))
