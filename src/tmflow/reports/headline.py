"""What a finished study says in three sentences, each from measured runs alone: where to look is in the report.

Each sentence is about the first experiment that has what it compares, at its highest number of threads that is not
oversubscribed. A sentence for which nothing was measured is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import pandas as pd

from tmflow.analysis.disturbance import count_disturbed, sentence_on
from tmflow.analysis.run_table import POINT, ROUND, VARIANT
from tmflow.analysis.stats import Interval, joint_ratio_intervals, share_interval
from tmflow.analysis.variants import known, unusual, variants
from tmflow.native.registry import promises_of_updates
from tmflow.store import platform_queries, queries
from tmflow.store.frames import Source
from tmflow.study import campaign
from tmflow.study.plan import Plan

PLACE = [column for column in POINT if column not in (*VARIANT, "threads")]
QUICK = "Quick, too small to conclude from: "


def of_study(plan: Plan, source: Source, experiments: Sequence[str] | None = None) -> list[str]:
    """In sentences, from the runs of these experiments, or of all, on the machine that the study's campaign is of."""
    names = plan.experiments if experiments is None else list(experiments)
    runs = queries.runs(source, scale=plan.scale, status=None)
    runs = runs[runs["experiment"].isin(names) & (runs["platform"] == machine(plan, source))]
    runs = runs.sort_values("experiment", key=lambda column: column.map(names.index), kind="stable")
    told = main_results(runs, queries.full_measures(source, scale=plan.scale), quick=plan.scale == "quick")
    disturbed = sentence_on(count_disturbed(runs))
    return [*told, disturbed] if disturbed else told


def machine(plan: Plan, source: Source) -> str | None:
    """The key of the platform that the study was measured on; None before that. It need not be this machine."""
    its_campaign = campaign.load(plan.results, plan.scale)
    return platform_queries.platform_of_campaign(source, its_campaign.uid) if its_campaign else None


def section(sentences: Sequence[str]) -> str:
    """The sentences as a section of the report: HTML."""
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    said = f"<ul>{items}</ul>" if sentences else "<p>Nothing that was measured here compares strategies.</p>"
    return f"<section><h2>What it says</h2>{said}</section>"


def main_results(runs: pd.DataFrame, measures: pd.DataFrame, *, quick: bool) -> list[str]:
    """Up to three sentences: the fastest strategy, what `nolock` loses, whether `htm` differs from `lock`.

    `runs` is as `store.queries.runs` gives it, of one machine and whatever status, its experiments in their order;
    `measures` is `store.queries.full_measures` of them.
    """
    oversubscribed = runs["threads"].astype("Int64") > runs["hardware_threads"].astype("Int64")
    measured = runs[(runs["evidence"] == "measured") & ~oversubscribed.fillna(False).astype(bool)]
    ok = measured[measured["status"] == "ok"]
    usual = ok[ok["measures"] == "usual"]
    told = [_fastest(usual), _lost(ok, measures), _htm(measured, usual)]
    return [(QUICK if quick else "") + sentence for sentence in told if sentence]


def _fastest(ok: pd.DataFrame) -> str | None:
    """The strategy that was fastest against `tf_lock`, on the deep model where it was trained."""
    for at in _places(ok.sort_values("model", key=lambda model: model != "mnist_deep", kind="stable"), "tf_lock"):
        ratios = _times_as_fast(at, "tf_lock")
        if not ratios:
            continue
        name, ratio = max(ratios.items(), key=lambda item: item[1].estimate)
        told = f"{name} was the fastest{_promise(name)}: {_as_fast(ratio, 'tf_lock')}"
        if not ratio.low > 1:
            told = f"no strategy was clearly faster than tf_lock; the fastest, {name}, was {_as_fast(ratio, 'tf_lock')}"
        return f"{_where(at)}: {told}."
    return None


def _lost(ok: pd.DataFrame, measures: pd.DataFrame) -> str | None:
    """Counted where that was asked for; otherwise nothing is said, as an accuracy tells little of it."""
    counted = ok.merge(measures.dropna(subset="lost_fraction"), on="uid")
    for at in _places(counted, "nolock"):
        lost = share_interval(at.loc[at["strategy"] == "nolock", "lost_fraction"])
        per_cent = Interval(100 * lost.estimate, 100 * lost.low, 100 * lost.high, lost.n)
        return f"{_where(at)}: nolock lost {per_cent.estimate:.3g} % of its updates{_interval(per_cent)}."
    return None


def _htm(measured: pd.DataFrame, ok: pd.DataFrame) -> str | None:
    """Real transactions against the mutex that they elide; or why there were none."""
    for at in _places(ok[ok["strategy"].isin(["htm", "lock"])], "lock"):
        ratios = _times_as_fast(at, "lock")
        if not ratios:
            continue
        name, ratio = max(ratios.items(), key=lambda item: item[1].estimate)
        differs = ratio.low > 1 or ratio.high < 1
        verdict = "differs from lock" if differs else "was not found to differ from lock, which proves no equality"
        return f"{_where(at)}: {name} {verdict}: {_as_fast(ratio, 'lock')}."
    refused = measured[(measured["strategy"] == "htm") & (measured["status"] == "unsupported")]
    return f"Whether htm differs from lock is not known: {refused.iloc[0]['reason']}." if len(refused) else None


def _places(runs: pd.DataFrame, baseline: str) -> Iterator[pd.DataFrame]:
    """The runs that may be compared with the baseline's, place by place: those of the most threads that it has."""
    for _, place in runs.groupby(PLACE, dropna=False, sort=False):
        of_baseline = place[place["strategy"] == baseline]
        if len(of_baseline):
            yield place[place["threads"] == of_baseline["threads"].max()]


def _times_as_fast(at: pd.DataFrame, baseline: str) -> dict[str, Interval]:
    """Of each other variant, how many times as fast as the baseline, as it is if no parameter is given; by round.

    The intervals hold jointly (Bonferroni), for whoever looks at the best of them has chosen it.
    """
    named = at.assign(variant=variants(at))
    plain = named[[row["strategy"] == baseline and not unusual(row) for row in known(named)]]
    base = plain[[*ROUND, "loop_s"]].rename(columns={"loop_s": "baseline_s"})
    pairs = named[named["strategy"] != baseline].merge(base, on=[*ROUND], validate="many_to_one")
    by_name = {str(name): rounds for name, rounds in pairs.groupby("variant", sort=False)}
    baselines, own = ([its[column] for its in by_name.values()] for column in ("baseline_s", "loop_s"))
    return dict(zip(by_name, joint_ratio_intervals(baselines, own), strict=True))


def _where(at: pd.DataFrame) -> str:
    first = at.iloc[0]
    threads = "1 thread" if first["threads"] == 1 else f"{first['threads']} threads"
    return f"{first['model']}, batch {first['batch']}, {threads} ({first['experiment']})"


def _promise(variant: str) -> str:
    """What the strategy promises of updates, where it is not what the baseline does."""
    strategy = variant.partition(" ")[0]
    promise = promises_of_updates().get(strategy)
    return f" (its promise of updates: {promise})" if promise not in ("tensor", None) else ""


def _as_fast(ratio: Interval, baseline: str) -> str:
    return f"{ratio.estimate:.2f} times as fast as {baseline}{_interval(ratio)}"


def _interval(of: Interval) -> str:
    if of.n == 1:
        return " (1 round, no interval)"
    return f" (95 % interval {of.low:.3g} to {of.high:.3g}, {of.n} rounds)"
