"""What the runs of a platform say about locks, transactions and lossless strategies, for one model.

Each number is the speed of a strategy over that of the lock with as many workers. It comes from the first experiment of
`SOURCES` that has it, by the rules of the answers: measured runs of MNIST, of one origin, with the most workers that
have a hardware thread each, and with at least two. A platform with runs of quick scale only has findings from these,
marked as such.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import pandas as pd

from tmflow.analysis import baseline as baselines
from tmflow.analysis import elements, summaries
from tmflow.analysis.baseline import Ranking
from tmflow.analysis.stats import Interval, bounded
from tmflow.analysis.versions import LEAST_ROUNDS
from tmflow.base.text import interval, listed, several, workers
from tmflow.charts.captions import NO_TITLES, Titles
from tmflow.claims.selection import Missing
from tmflow.reports.comparisons import (
    OF_ALL,
    OF_ALL_SMALL,
    OF_CONTENTION,
    OF_LOSSES,
    OF_NATIVE,
    OF_STUDY,
    OF_STUDY_SMALL,
    Comparison,
    read_experiments,
    results_of,
    select_runs,
)
from tmflow.reports.narrative import BARE, HARDWARE, SOFTWARE, SPEED, Consistencies
from tmflow.spec.strategies import DELAYED
from tmflow.store import queries
from tmflow.store.frames import Source, connected

Quantity = Literal["htm", "stm", "nolock", "lossless"]
SOURCES: Mapping[str, tuple[Comparison, ...]] = {
    "mnist_deep": (OF_STUDY, OF_ALL),
    "mnist_softmax": (OF_STUDY_SMALL, OF_ALL_SMALL, OF_NATIVE, OF_CONTENTION),
}
"""The comparisons of each model, the preferred one first."""

FINDING_EXPERIMENTS = frozenset(comparison.experiment for of_model in SOURCES.values() for comparison in of_model)

STRATEGIES: Mapping[Quantity, tuple[str, ...]] = {"htm": HARDWARE, "stm": SOFTWARE, "nolock": BARE}
# Not the answer to what replaces a lock: TensorFlow's own, tle and lock_pthread, whose mutex no reader takes, and
# transactions, which have a number of their own. block_stm is both a software transaction and a candidate; so is `lock`
# with another kernel, since `lock` itself is the baseline. Under DELAYED ones workers see each other's updates late.
NO_CANDIDATES = ("tf_lock", "lock_pthread", "tle", "htm", "htm_if_fits", "stm", "itm", *DELAYED)


QUICK = "Quick runs, not conclusive. "


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
    scale: str
    model: str
    effects: Mapping[Quantity, Effect]
    unsupported: frozenset[Quantity]
    """The quantities whose strategies cannot run on the platform."""
    elements: Interval | None
    """Of the elements that `htm` updated, the share whose update committed in a transaction."""
    lost: Interval | None
    """The share of updates that were lost without a lock, in true-contention (softmax, native driver)."""


def measured_platforms(counts: pd.DataFrame) -> dict[str, str]:
    """The keys of the platforms with measured results, with the scale of their findings: quick if they have no other.

    Those with results at full scale come first, then those with more results of the experiments that findings come
    from, then those with more results. counts: see `queries.counts`.
    """
    measured = counts[(counts["evidence"] == "measured") & (counts["status"] == "ok")]
    of_finding = measured["experiment"].isin(FINDING_EXPERIMENTS)
    measured = measured.assign(of_finding=measured["n_runs"].where(of_finding, 0))
    scales: dict[str, str] = {}
    for scale in ("full", "quick"):
        n_runs = measured[measured["scale"] == scale].groupby("platform")[["of_finding", "n_runs"]].sum()
        most_first = n_runs.sort_values(["of_finding", "n_runs"], ascending=False, kind="stable").index
        scales |= {str(platform): scale for platform in most_first if platform not in scales}
    return scales


def find(
    source: Source, platform: str, scale: str, model: str, consistencies: Consistencies, *, joined: bool = False
) -> Finding | None:
    """The finding on a model of `SOURCES` for a platform, by its key; None if it compared nothing with that model.

    consistencies: of the updates of each strategy. joined: pool all sources of the platform.
    """
    with connected(source) as connection:
        return _find(connection, platform, scale, model, consistencies, joined)


def _find(
    source: Source, platform: str, scale: str, model: str, consistencies: Consistencies, joined: bool
) -> Finding | None:
    comparisons = [comparison._replace(scale=scale) for comparison in SOURCES[model]]
    losses = OF_LOSSES._replace(scale=scale)
    *read, of_losses = read_experiments(source, platform, joined, *comparisons, losses)
    compared = compare(comparisons, read, consistencies)
    if not compared.effects:
        return None
    share = None
    if compared.of_htm is not None:
        comparison, runs = compared.of_htm
        counts = queries.variable_transactions(source, results_of(platform, joined, comparison))
        shares = elements.committed_elements(runs, counts)
        share = _interval(shares[shares["strategy"] == "htm"])
    name = next(str(runs["platform_name"].iloc[0]) for runs in read if len(runs))
    lost = _lost(source, platform, joined, losses, of_losses)
    return Finding(platform, name, scale, model, compared.effects, compared.unsupported, share, lost)


class Compared(NamedTuple):
    """The effects of a model on a platform, and the comparison and the runs from which that of `htm` comes."""

    effects: dict[Quantity, Effect]
    unsupported: frozenset[Quantity]
    of_htm: tuple[Comparison, pd.DataFrame] | None


def compare(comparisons: Sequence[Comparison], runs: Sequence[pd.DataFrame], consistencies: Consistencies) -> Compared:
    """Compute each quantity from the first comparison that has it.

    runs: for each comparison the runs of its experiment, of any status, a table of `queries.runs`.
    """
    effects: dict[Quantity, Effect] = {}
    unsupported, of_htm = set[Quantity](), None
    for comparison, of_experiment in zip(comparisons, runs, strict=True):
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


def _lost(source: Source, platform: str, joined: bool, losses: Comparison, runs: pd.DataFrame) -> Interval | None:
    """The share of lost updates of `nolock` with the most workers."""
    try:
        selected = select_runs(runs, losses).runs
    except Missing:
        return None
    if selected["threads"].iloc[0] == 1:
        return None
    shares = summaries.lost(selected, queries.full_measures(source, results_of(platform, joined, losses)))
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
    text = f"On {finding.platform_name} ({setting}), relative to a lock: {'; '.join(parts)}."
    return text if finding.scale == "full" else f"{QUICK}{text}"


def sources(finding: Finding, titles: Titles = NO_TITLES) -> str:
    """Name the experiments of a finding, with workers and baseline; titles: of experiments, by id."""
    used = dict.fromkeys((e.experiment, e.baseline, e.workers) for e in finding.effects.values())
    return listed(
        [f"{titles.get(experiment, experiment)} ({workers(n)}, over {baseline})" for experiment, baseline, n in used]
    )


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
    "lossless": "lossless / lock",
}
LOST = "lost updates"
CORES, CAPABILITY = "cores", "TM"
CAPABILITIES = {"rtm": "RTM", "htm": "POWER", "none": "none"}
"""The words for a platform's `tm_capability`."""


def matrix(findings: Iterable[Finding], machines: pd.DataFrame) -> pd.DataFrame:
    """A row for each platform, in the order given, with texts that sort like their numbers.

    machines: see `platform_queries.platforms`. Columns: platform (the key), platform_name (short), those of `COLUMNS`,
    `LOST`, workers, `CORES`, and `CAPABILITY`: results come first, because a phone shows few columns.
    """
    every, facts = list(findings), machines.set_index("platform")
    rows = [
        {
            "platform": finding.platform,
            "platform_name": name,
            CORES: facts["cores_physical"].get(finding.platform),
            CAPABILITY: CAPABILITIES.get(str(facts["tm_capability"].get(finding.platform)), "unknown"),
            "workers": listed(sorted({effect.workers for effect in finding.effects.values()})),
            **{title: _cell(finding, quantity) for quantity, title in COLUMNS.items()},
            LOST: "" if finding.lost is None else _lost_text(finding.lost),
        }
        for name, finding in zip(short_names(every), every, strict=True)
    ]
    columns = ["platform", "platform_name", *COLUMNS.values(), LOST, "workers", CORES, CAPABILITY]
    table = pd.DataFrame(rows, columns=columns).astype({CORES: "Int64"})
    return table.assign(**{title: align_numbers(list(table[title])) for title in (*COLUMNS.values(), LOST)})


def short_names(findings: Sequence[Finding]) -> list[str]:
    """Name each platform by its processor, or in full if several have the same; quick runs are marked."""
    processors = [finding.platform_name.partition(",")[0] for finding in findings]
    return [
        (processor if processors.count(processor) == 1 else finding.platform_name)
        + ("" if finding.scale == "full" else f" ({finding.scale} runs)")
        for processor, finding in zip(processors, findings, strict=True)
    ]


def align_numbers(texts: Sequence[str]) -> list[str]:
    """Pad texts that begin with a number with blanks, so that their alphabetical order is that of the numbers."""
    lengths = [len(match[0]) if (match := re.match(r"\d+", text)) else 0 for text in texts]
    return [" " * (max(lengths) - n) * (n > 0) + text for n, text in zip(lengths, texts, strict=True)]


def medians(findings: Iterable[Finding]) -> dict[str, str]:
    """The median of the platforms' estimates for each column, of full scale; empty for fewer than two platforms.

    It has no interval, because the platforms are no sample.
    """
    of_full = [finding for finding in findings if finding.scale == "full"]
    if len(of_full) < 2:
        return {}
    estimates = {
        title: [finding.effects[quantity].speed.estimate for finding in of_full if quantity in finding.effects]
        for quantity, title in COLUMNS.items()
    }
    lost = [100 * finding.lost.estimate for finding in of_full if finding.lost is not None]
    texts = {title: _median(values) for title, values in estimates.items()} | {LOST: _median(lost, " %")}
    return {title: text for title, text in texts.items() if text}


def _cell(finding: Finding, quantity: Quantity) -> str:
    effect = finding.effects.get(quantity)
    if effect is None:
        return "cannot run" if quantity in finding.unsupported else ""
    text = interval(*bounded(effect.speed))
    return f"{text} {effect.variant}" if quantity == "lossless" else text


def _lost_text(lost: Interval) -> str:
    return f"none in {lost.n} rounds" if lost.estimate == 0 else _percent(lost)


def _median(values: list[float], unit: str = "") -> str:
    if not values:
        return ""
    return f"{float(pd.Series(values).median()):.3g}{unit} ({several(len(values), 'machine')})"
