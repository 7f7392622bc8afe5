"""The main results of a finished study in three sentences, from measured runs only.

Each sentence uses the first experiment with the compared strategies, at its highest number of threads that is not
oversubscribed. A sentence without data is left out. One worker alone decides nothing, and the summary says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape

import pandas as pd

from tmflow.analysis.noise import count_disturbed, sentence_on
from tmflow.analysis.repeats import average_repeats
from tmflow.analysis.rounds import count_ends
from tmflow.analysis.run_table import POINT, ROUND, VARIANT
from tmflow.analysis.stats import Interval, joint_ratio_intervals, share_interval
from tmflow.analysis.variants import unusual, values_by_name, variants
from tmflow.analysis.versions import left_out_sentence
from tmflow.base.text import several
from tmflow.native.registry import consistency_by_strategy
from tmflow.store import platform_queries, queries
from tmflow.store.frames import Source
from tmflow.store.run_filter import RESULTS
from tmflow.study import campaign
from tmflow.study.plan import Plan

PLACE = [column for column in POINT if column not in (*VARIANT, "threads")]
QUICK = "Smoke run, not conclusive: "
ONE_WORKER = (
    "Which strategy is the fastest was not tested: only one worker was measured, on a hardware thread by itself."
)


def summarise_study(plan: Plan, source: Source, experiments: Sequence[str] | None = None) -> list[str]:
    """Summarise the runs of these experiments (default: all) on the machine of the study's campaign, in sentences."""
    names = plan.experiments if experiments is None else list(experiments)
    of_scale = replace(RESULTS, scales=[plan.scale])
    runs = queries.runs(source, replace(of_scale, statuses=None))
    runs = runs[runs["experiment"].isin(names) & (runs["platform"] == measured_platform(plan, source))]
    runs = runs.sort_values("experiment", key=lambda column: column.map(names.index), kind="stable")
    measures = queries.full_measures(source, of_scale)
    sentences = main_results(runs, measures, quick=plan.scale == "quick")
    facts = (ended_sentence(runs), sentence_on(count_disturbed(runs)), left_out_sentence(runs))
    return [*sentences, *filter(None, facts)]


def measured_platform(plan: Plan, source: Source) -> str | None:
    """The key of the platform that measured the study, which may be another machine; None before the first run."""
    study_campaign = campaign.load(plan.results, plan.scale)
    return platform_queries.platform_of_campaign(source, study_campaign.uid) if study_campaign else None


def section(sentences: Sequence[str]) -> str:
    """Format the sentences as a section of the report, in HTML."""
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    content = f"<ul>{items}</ul>" if sentences else "<p>No measured runs compare strategies.</p>"
    return f"<section><h2>Summary</h2>{content}</section>"


def main_results(runs: pd.DataFrame, measures: pd.DataFrame, *, quick: bool) -> list[str]:
    """Up to three sentences: the fastest strategy, the updates lost by `nolock`, whether `htm` differs from `lock`.

    `runs` is a table of `store.queries.runs`: of one machine, with any status, in the order of the experiments;
    `measures` is `store.queries.full_measures` of them.
    """
    oversubscribed = runs["threads"].astype("Int64") > runs["hardware_threads"].astype("Int64")
    measured = runs[(runs["evidence"] == "measured") & ~oversubscribed.fillna(False).astype(bool)]
    ok = measured[measured["status"] == "ok"]
    usual = average_repeats(ok[ok["measures"] == "usual"])
    results = [_fastest(usual), _lost(ok, measures), _htm(measured, usual)]
    return [(QUICK if quick else "") + sentence for sentence in results if sentence]


def ended_sentence(runs: pd.DataFrame) -> str | None:
    """Count the measured trials that could run and have no result; None if all have one."""
    ends = count_ends(runs[(runs["evidence"] == "measured") & (runs["status"] != "unsupported")])
    n_all, n_ok = ends.total(), ends.pop("ok", 0)
    if n_ok == n_all:
        return None
    counts = ", ".join(f"{n} {ended}" for ended, n in ends.items())
    return f"{n_all - n_ok} of {several(n_all, 'trial')} ended without a result and are in no mean: {counts}."


def _fastest(ok: pd.DataFrame) -> str | None:
    """The fastest strategy relative to `tf_lock`, on the deep model if it was trained."""
    deep_first = ok.sort_values("model", key=lambda model: model != "mnist_deep", kind="stable")
    if (best := _find_best(deep_first, "tf_lock")) is None:
        return ONE_WORKER if len(ok) and (ok["threads"] == 1).all() else None
    where, name, ratio = best
    if ratio.low > 1:
        text = f"{name} was the fastest{_guarantee(name)}"
    else:
        text = f"no strategy was significantly faster than tf_lock; the fastest was {name}"
    return f"{where}: {text}: {_speedup_text(ratio, 'tf_lock')}."


def _lost(ok: pd.DataFrame, measures: pd.DataFrame) -> str | None:
    """The share of updates lost by `nolock`, if it was counted; None otherwise."""
    counted = average_repeats(ok.merge(measures.dropna(subset="lost_fraction"), on="uid"))
    for at in _comparable_runs(counted, "nolock"):
        lost = share_interval(at.loc[at["strategy"] == "nolock", "lost_fraction"])
        per_cent = Interval(100 * lost.estimate, 100 * lost.low, 100 * lost.high, lost.n)
        return f"{_where(at)}: nolock lost {per_cent.estimate:.3g} % of its updates{_interval(per_cent)}."
    return None


def _htm(measured: pd.DataFrame, ok: pd.DataFrame) -> str | None:
    """Compare hardware transactions with the mutex that they elide, or give the reason for their absence."""
    if best := _find_best(ok[ok["strategy"].isin(["htm", "lock"])], "lock"):
        where, name, ratio = best
        differs = ratio.low > 1 or ratio.high < 1
        verdict = "differs from lock" if differs else "does not differ significantly from lock (no proof of equality)"
        return f"{where}: {name} {verdict}: {_speedup_text(ratio, 'lock')}."
    refused = measured[(measured["strategy"] == "htm") & (measured["status"] == "unsupported")]
    return f"Whether htm differs from lock is unknown: {refused.iloc[0]['reason']}." if len(refused) else None


def _find_best(runs: pd.DataFrame, baseline: str) -> tuple[str, str, Interval] | None:
    """The first workload with a speedup over the baseline, and the variant with the highest speedup there."""
    for at in _comparable_runs(runs, baseline):
        if ratios := _speedups(at, baseline):
            return _where(at), *max(ratios.items(), key=lambda item: item[1].estimate)
    return None


def _comparable_runs(runs: pd.DataFrame, baseline: str) -> Iterator[pd.DataFrame]:
    """Yield the runs comparable with the baseline, per workload, at its highest number of threads, if above one."""
    for _, place in runs.groupby(PLACE, dropna=False, sort=False):
        of_baseline = place[place["strategy"] == baseline]
        if of_baseline["threads"].max() > 1:  # one worker has no other to protect its updates from
            yield place[place["threads"] == of_baseline["threads"].max()]


def _speedups(at: pd.DataFrame, baseline: str) -> dict[str, Interval]:
    """The speedup of each other variant over the baseline with default parameters, paired by round.

    The intervals hold jointly (Bonferroni), because the reader looks at the best of them.
    """
    named = at.assign(variant=variants(at))
    plain = named[[row["strategy"] == baseline and not unusual(row) for row in values_by_name(named)]]
    base = plain[[*ROUND, "loop_s"]].rename(columns={"loop_s": "baseline_s"})
    pairs = named[named["strategy"] != baseline].merge(base, on=[*ROUND], validate="many_to_one")
    by_name = {str(name): rounds for name, rounds in pairs.groupby("variant", sort=False)}
    baselines, variants_s = ([rounds[column] for rounds in by_name.values()] for column in ("baseline_s", "loop_s"))
    return dict(zip(by_name, joint_ratio_intervals(baselines, variants_s), strict=True))


def _where(at: pd.DataFrame) -> str:
    first = at.iloc[0]
    threads = "1 thread" if first["threads"] == 1 else f"{first['threads']} threads"
    return f"{first['model']}, batch {first['batch']}, {threads} ({first['experiment']})"


def _guarantee(variant: str) -> str:
    """The consistency of the strategy's updates, if it differs from the baseline's."""
    strategy = variant.partition(" ")[0]
    consistency = consistency_by_strategy().get(strategy)
    return f" (consistency of updates: {consistency})" if consistency not in ("tensor", None) else ""


def _speedup_text(ratio: Interval, baseline: str) -> str:
    return f"speedup {ratio.estimate:.2f} over {baseline}{_interval(ratio)}"


def _interval(of: Interval) -> str:
    if of.n == 1:
        return " (1 round, no interval)"
    return f" (95 % interval {of.low:.3g} to {of.high:.3g}, {of.n} rounds)"
