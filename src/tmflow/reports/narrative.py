"""What comparisons with a lock say, as sentences: `summary` is always as `against` makes it.

Names in them may come from anybody's run files: a place that reads Markdown shows them by `inert.markdown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from tmflow.analysis.baseline import Told
from tmflow.analysis.run_table import ROUND
from tmflow.analysis.stats import Interval, bounded, ratio_interval
from tmflow.analysis.variants import variants
from tmflow.base.text import interval, listed, several

Promises = Mapping[str, str | None]
"""What each strategy promises for updates; None where that is not known."""

SPEED: dict[Told, str] = {
    "more": "surely faster",
    "same": "the same within 5 %",
    "open": "whether faster or slower cannot be told",
    "less": "surely slower",
}
ACCURACY: dict[Told, str] = {
    "more": "surely more accurate",
    "same": "surely the same within 2 points",
    "open": "whether it differs cannot be told",
    "less": "surely less accurate",
}
HARDWARE, SOFTWARE, BARE = ("htm",), ("stm", "itm", "block_stm"), ("tf_nolock", "nolock")
NOTHING = "Nothing measured yet."


class Words(NamedTuple):
    """An answer in a few words, and why."""

    short: str
    sentences: list[str]


def of_transactions(summary: pd.DataFrame, baseline: str) -> Words:
    """Whether hardware or software transactions are faster than the lock."""
    hardware, software, bare = (summary[summary["strategy"].isin(list(names))] for names in (HARDWARE, SOFTWARE, BARE))
    over = f"times as fast as {baseline}"
    sentences = [
        _speeds(f"Hardware transactions, {over}", hardware) or "Hardware transactions were not run.",
        _speeds(f"Software transactions, {over}", software) or "Software transactions were not run.",
        _speeds(f"No lock at all, {over}", bare),
    ]
    if ((summary["strategy"] == "tle") & (summary["told"] == "more")).any():
        sentences.append("tle elides another mutex than this lock, one that no reader takes: it does not compare.")
    tried = pd.concat([hardware, software])
    told = tried.loc[tried["estimate"].notna(), "told"]
    faster = list(tried.loc[tried["told"] == "more", "variant"])
    if faster:
        short = f"Here it is: {listed(faster)} beats the lock."
    elif told.empty:
        short = NOTHING
    elif not told.isin(["same", "less"]).all():
        short = "Nothing here shows that it is."
    else:
        short = "Not here." if hardware["estimate"].notna().any() else "Not in software; in hardware it did not run."
    return Words(short, [sentence for sentence in sentences if sentence])


def of_strategies(summary: pd.DataFrame, runs: pd.DataFrame, baseline: str, promises: Promises, lost: str) -> Words:
    """The fastest of those that lose no update, and what those that may lose some gain.

    runs: what the summary is of; lost: a sentence on what was lost.
    """
    known = summary[summary["estimate"].notna()]
    promised = known["strategy"].map(lambda strategy: promises.get(strategy) or "").astype(str)
    keeping, losing = known[~promised.isin(["", "none"])], known[promised == "none"]
    unknown = list(known.loc[promised == "", "variant"])
    short, sentences = NOTHING, []
    if len(keeping):
        best = keeping.sort_values("estimate").iloc[-1]
        short = f"{best['variant']}: nothing lost, surely faster than {baseline}."
        if best["told"] != "more":
            short = f"{baseline}: none that loses nothing is surely faster."
        sentences.append(
            f"Of the others that lose no update {best['variant']} is the fastest, {_interval(best)} times as fast as "
            f"{baseline}, {SPEED[best['told']]}."
        )
        equals = not_slower(runs, str(best["variant"]), list(keeping["variant"]))
        sentences += [f"{listed(equals)} cannot be told from it."] if equals else []
    if len(losing):
        sentences += [_speeds(f"Those that may lose updates, times as fast as {baseline}", losing), lost]
    if unknown:
        sentences.append(
            f"Whether {listed(unknown)} may lose updates is known where strategies are built: `make build`."
        )
    return Words(short, sentences)


def of_accuracy(summary: pd.DataFrame, baseline: str) -> Words:
    """Whether any strategy ends with another accuracy than the lock."""
    known = summary[summary["estimate"].notna()]
    told = set(known["told"])
    worse, better = (list(known.loc[known["told"] == way, "variant"]) for way in ("less", "more"))
    if worse:
        short = f"Yes, under {listed(worse)}."
    elif better:
        short = f"No: under {listed(better)} it is better."
    elif told == {"same"}:
        short = "No: surely the same within 2 points."
    else:
        short = "That cannot be told yet." if told else NOTHING
    sides = [
        f"Points of test accuracy more than {baseline}: {_each(its, 100)}, {words}."
        for way, words in ACCURACY.items()
        if len(its := known[known["told"] == way])
    ]
    return Words(short, [*sides, *_without(summary)])


def of_losses(lost: pd.DataFrame, where: str) -> str:
    """What strategies lost: `lost` as `summaries.lost` gives it, at one number of workers; where: in which runs."""
    known = lost[lost["estimate"].notna()]
    if known.empty:
        return f"How many updates are lost was not measured ({where})."
    losing, keeping = known[known["estimate"] > 0], known[known["estimate"] == 0]
    rounds = several(int(known["rounds"].min()), "round")
    told = [f"{_each(losing, 100)} % of the updates"] if len(losing) else []
    if len(keeping):
        most = keeping["high"].max()  # each bound is that of the share of rounds in which any is lost
        chance = "" if pd.isna(most) else f" (so at most {100 * most:.2g} % of rounds lose any, with 95 % confidence)"
        told += [f"under {'every other' if told else 'every'} strategy none{chance}"]
    return f"Lost in runs that count it ({where}, {rounds}): {'; '.join(told)}."


def not_slower(runs: pd.DataFrame, best: str, others: list[str]) -> list[str]:
    """Those of the other variants that are not surely slower than `best`, by the rounds that both have."""
    ok = runs[runs["status"] == "ok"]
    times = ok.assign(variant=variants(runs)).pivot(index=[*ROUND], columns="variant", values="loop_s")
    found = []
    for other in others:
        pairs = times[[best, other]].dropna() if other != best else times[:0]
        if len(pairs) == 1 or (len(pairs) > 1 and ratio_interval(pairs[best], pairs[other]).high >= 1):
            found.append(other)
    return found


def _speeds(name: str, rows: pd.DataFrame) -> str:
    """The variants by what is told of them; nothing for no rows."""
    if rows.empty:
        return ""
    known = rows[rows["estimate"].notna()]
    sides = [f"{_each(its)}, {words}" for way, words in SPEED.items() if len(its := known[known["told"] == way])]
    return f"{name}: {'; '.join(sides)}." if sides else f"{name}: {' '.join(_without(rows))}"


def _without(rows: pd.DataFrame) -> list[str]:
    """Which have no estimate, and why."""
    missing = rows[rows["estimate"].isna()]
    return [f"{listed(list(its['variant']))} has no result ({reason})." for reason, its in missing.groupby("reason")]


def _each(rows: pd.DataFrame, unit: float = 1) -> str:
    """The variants with their intervals, in units of so much of the summary's."""
    return listed([f"{row['variant']} {_interval(row, unit)}" for _, row in rows.iterrows()])


def _interval(row: pd.Series, unit: float = 1) -> str:
    estimate, low, high = (unit * row[name] for name in ("estimate", "low", "high"))
    return interval(*bounded(Interval(estimate, low, high, row["rounds"])))
