"""What the runs of a platform say about locks, transactions and lossless strategies, for one model.

Each number is the speed of a strategy over that of the lock with as many workers. It comes from the first experiment of
`SOURCES` that has it, by the rules of the answers: measured runs at full scale of MNIST, of one origin, with the most
workers that have a hardware thread each, and with at least two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import pandas as pd

from tmflow.analysis import baseline as baselines
from tmflow.analysis import elements, summaries
from tmflow.analysis.baseline import Ranking
from tmflow.analysis.stats import Interval, bounded
from tmflow.analysis.versions import LEAST_ROUNDS
from tmflow.base.text import interval, listed, workers
from tmflow.claims.selection import Missing
from tmflow.reports.answers import OF_ALL, OF_LOSSES, OF_STUDY, Comparison, read_experiments, results_of, select_runs
from tmflow.reports.narrative import BARE, HARDWARE, SOFTWARE, SPEED, Consistencies
from tmflow.store import queries
from tmflow.store.frames import Source, connected

Quantity = Literal["htm", "stm", "nolock", "lossless"]
OF_SOFTMAX = {"model": "mnist_softmax", "reading": "plain"}
SOURCES: Mapping[str, tuple[Comparison, ...]] = {
    "mnist_deep": (OF_STUDY, OF_ALL),
    "mnist_softmax": (
        Comparison("fig-4.7", {}, "tf_lock"),
        Comparison("consistency-for-free", {**OF_SOFTMAX, "variables": "ref"}, "lock"),
        Comparison("native-softmax", {}, "lock"),
        Comparison("true-contention", {"reading": "plain"}, "lock"),
    ),
}
"""The comparisons of each model, the preferred one first."""

STRATEGIES: Mapping[Quantity, tuple[str, ...]] = {"htm": HARDWARE, "stm": SOFTWARE, "nolock": BARE}
# Not the answer to what replaces a lock: TensorFlow's own, tle and lock_pthread, whose mutex no reader takes, and
# transactions, which have a number of their own. block_stm is both a software transaction and a candidate; so is `lock`
# with another kernel, since `lock` itself is the baseline.
NO_CANDIDATES = ("tf_lock", "lock_pthread", "tle", "htm", "stm", "itm")


class Effect(NamedTuple):
    """The speed of a variant over that of the baseline with as many workers."""

    variant: str
    speed: Interval
    ranking: Ranking
    baseline: str
    experiment: str
    workers: int
    batch: int


class Finding(NamedTuple):
    """The effects on a platform, by its key; a quantity without an effect was not measured."""

    platform: str
    platform_name: str
    model: str
    effects: Mapping[Quantity, Effect]
    unsupported: frozenset[Quantity]
    """The quantities whose strategies cannot run on the platform."""
    elements: Interval | None
    """Of the elements that `htm` updated, the share whose update committed in a transaction."""
    lost: Interval | None
    """The share of updates that were lost without a lock, in true-contention (softmax, native driver)."""


def measured_platforms(counts: pd.DataFrame) -> list[str]:
    """The keys of the platforms with measured results at full scale, those with most of them first.

    counts: see `queries.counts`.
    """
    measured = counts[(counts["evidence"] == "measured") & (counts["scale"] == "full") & (counts["status"] == "ok")]
    return list(measured.groupby("platform")["n_runs"].sum().sort_values(ascending=False, kind="stable").index)


def find(
    source: Source, platforms: Iterable[str], model: str, consistencies: Consistencies, *, joined: bool = False
) -> list[Finding]:
    """The findings on a model of `SOURCES` for each of these platforms, by their keys, that has any.

    consistencies: of the updates of each strategy. joined: pool all sources of each platform.
    """
    with connected(source) as connection:
        every = [_find(connection, platform, model, consistencies, joined) for platform in platforms]
    return [finding for finding in every if finding is not None]


def _find(source: Source, platform: str, model: str, consistencies: Consistencies, joined: bool) -> Finding | None:
    *read, of_losses = read_experiments(source, platform, joined, *SOURCES[model], OF_LOSSES)
    compared = compare(model, read, consistencies)
    if not compared.effects:
        return None
    share = None
    if compared.of_htm is not None:
        comparison, runs = compared.of_htm
        counts = queries.variable_transactions(source, results_of(platform, joined, comparison))
        shares = elements.committed_elements(runs, counts)
        share = _interval(shares[shares["strategy"] == "htm"])
    name = next(str(runs["platform_name"].iloc[0]) for runs in read if len(runs))
    lost = _lost(source, platform, joined, of_losses)
    return Finding(platform, name, model, compared.effects, compared.unsupported, share, lost)


class Compared(NamedTuple):
    """The effects of a model on a platform, and the comparison and the runs from which that of `htm` comes."""

    effects: dict[Quantity, Effect]
    unsupported: frozenset[Quantity]
    of_htm: tuple[Comparison, pd.DataFrame] | None


def compare(model: str, runs: Sequence[pd.DataFrame], consistencies: Consistencies) -> Compared:
    """Compute each quantity from the first comparison of the model that has it.

    runs: for each comparison of `SOURCES[model]` the runs of its experiment, of any status, a table of `queries.runs`.
    """
    effects: dict[Quantity, Effect] = {}
    unsupported, of_htm = set[Quantity](), None
    for comparison, of_experiment in zip(SOURCES[model], runs, strict=True):
        try:
            selected = select_runs(of_experiment, comparison).runs
        except Missing:
            continue
        if selected["threads"].iloc[0] == 1:
            continue  # one worker has no other to protect its updates from
        summary = baselines.speed(selected, comparison.baseline, LEAST_ROUNDS)
        new = _effects(summary, comparison, consistencies)
        if "htm" in new and "htm" not in effects:
            of_htm = comparison, selected
        effects |= {quantity: effect for quantity, effect in new.items() if quantity not in effects}
        unsupported |= {quantity for quantity, names in STRATEGIES.items() if _cannot_run(selected, names)}
    return Compared(effects, frozenset(unsupported - set(effects)), of_htm)


def _effects(summary: pd.DataFrame, comparison: Comparison, consistencies: Consistencies) -> dict[Quantity, Effect]:
    """The fastest variant of each quantity; `summary`: a result of `baseline.speed`."""
    estimated = summary[summary["estimate"].notna()]
    keeps = estimated["strategy"].map(lambda name: (consistencies.get(name) or "none") != "none").astype(bool)
    lossless = estimated[keeps & ~estimated["strategy"].isin(NO_CANDIDATES)]
    rows = {q: estimated[estimated["strategy"].isin(list(names))] for q, names in STRATEGIES.items()}
    return {
        quantity: _effect(of.sort_values("estimate").iloc[-1], comparison)
        for quantity, of in {**rows, "lossless": lossless}.items()
        if len(of)
    }


def _effect(row: pd.Series, comparison: Comparison) -> Effect:
    return Effect(
        str(row["variant"]), _as_interval(row), row["ranking"], comparison.baseline, comparison.experiment,
        int(row["threads"]), int(row["batch"]),
    )  # fmt: skip


def _cannot_run(selected: pd.DataFrame, strategies: Iterable[str]) -> bool:
    of = selected.loc[selected["strategy"].isin(list(strategies)), "status"]
    return len(of) > 0 and bool((of == "unsupported").all())


def _lost(source: Source, platform: str, joined: bool, runs: pd.DataFrame) -> Interval | None:
    """The share of lost updates of `nolock` with the most workers."""
    try:
        selected = select_runs(runs, OF_LOSSES).runs
    except Missing:
        return None
    if selected["threads"].iloc[0] == 1:
        return None
    shares = summaries.lost(selected, queries.full_measures(source, results_of(platform, joined, OF_LOSSES)))
    return _interval(shares[shares["strategy"] == "nolock"])


def _interval(rows: pd.DataFrame) -> Interval | None:
    """The estimate of the only row; None without one."""
    estimated = rows[rows["estimate"].notna()]
    if len(estimated) != 1:
        return None
    return _as_interval(estimated.iloc[0])


def _as_interval(row: pd.Series) -> Interval:
    return Interval(float(row["estimate"]), float(row["low"]), float(row["high"]), int(row["rounds"]))


def sentence(finding: Finding) -> str:
    """The finding in one sentence, with intervals; every speed is relative to the lock with as many workers.

    The name of the platform may come from an untrusted run file: pages that show Markdown must escape the sentence.
    """
    effects = finding.effects
    first = next(iter(effects.values()))
    parts = []
    if bare := effects.get("nolock"):
        parts.append(f"training without it has {_speed(bare, first)} and may lose updates")
    if best := effects.get("lossless"):
        parts.append(f"{best.variant} has {_speed(best, first)} and loses none")
    if software := effects.get("stm"):
        parts.append(f"software transactions ({software.variant}) have {_speed(software, first)}")
    if hardware := effects.get("htm"):
        inside = (
            "" if finding.elements is None else f", with {_percent(finding.elements)} of the elements in transactions"
        )
        parts.append(f"hardware transactions have {_speed(hardware, first)}{inside}")
    elif "htm" in finding.unsupported:
        parts.append("the hardware transactions of this experiment cannot run here")
    setting = f"{finding.model}, batch {first.batch}, {workers(first.workers)}"
    return f"On {finding.platform_name} ({setting}), relative to a lock: {'; '.join(parts)}."


def sources(finding: Finding) -> str:
    """Name the experiments of a finding, with workers and baseline."""
    used = dict.fromkeys((e.experiment, e.baseline, e.workers) for e in finding.effects.values())
    return listed([f"{experiment} ({workers(n)}, over {baseline})" for experiment, baseline, n in used])


def _speed(effect: Effect, first: Effect) -> str:
    """The speed in words, with the number of workers if it is not that of the first effect."""
    of = "" if effect.workers == first.workers else f"with {workers(effect.workers)}, "
    return f"{interval(*bounded(effect.speed))} times its speed ({of}{SPEED[effect.ranking]})"


def _percent(share: Interval) -> str:
    scaled = Interval(100 * share.estimate, 100 * share.low, 100 * share.high, share.n)
    return f"{interval(*bounded(scaled))} %"


COLUMNS: Mapping[Quantity, str] = {
    "htm": "HTM / lock",
    "stm": "STM / lock",
    "nolock": "no lock / lock",
    "lossless": "best that loses nothing / lock",
}
LOST = "lost updates without a lock"
MEDIAN = "median over machines"


def matrix(findings: Iterable[Finding]) -> pd.DataFrame:
    """A row for each platform, in the order given: its key, name, workers, and a text for each quantity.

    Columns: platform, platform_name, workers, those of `COLUMNS`, and `LOST`. Several platforms get a last row with the
    median of their estimates, whose key is empty; it has no interval, because the platforms are no sample.
    """
    listed_findings = list(findings)
    rows = [
        {
            "platform": finding.platform,
            "platform_name": finding.platform_name,
            "workers": listed(sorted({effect.workers for effect in finding.effects.values()})),
            **{title: _cell(finding, quantity) for quantity, title in COLUMNS.items()},
            LOST: "" if finding.lost is None else _lost_text(finding.lost),
        }
        for finding in listed_findings
    ]
    if len(rows) > 1:
        medians = {
            title: _median([f.effects[quantity].speed.estimate for f in listed_findings if quantity in f.effects])
            for quantity, title in COLUMNS.items()
        }
        lost = [finding.lost.estimate for finding in listed_findings if finding.lost is not None]
        last = {"platform": "", "platform_name": MEDIAN, "workers": "", **medians}
        rows.append({**last, LOST: f"{_median([100 * share for share in lost])} %" if lost else ""})
    return pd.DataFrame(rows, columns=["platform", "platform_name", "workers", *COLUMNS.values(), LOST])


def _cell(finding: Finding, quantity: Quantity) -> str:
    effect = finding.effects.get(quantity)
    if effect is None:
        return "cannot run" if quantity in finding.unsupported else ""
    text = interval(*bounded(effect.speed))
    return f"{text} {effect.variant}" if quantity in ("stm", "lossless") else text


def _lost_text(lost: Interval) -> str:
    return f"none in {lost.n} rounds" if lost.estimate == 0 else _percent(lost)


def _median(values: list[float]) -> str:
    return f"{float(pd.Series(values).median()):.3g}" if values else ""
