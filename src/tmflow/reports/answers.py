"""The three main answers of a study, in plain words made from the numbers of one platform.

They rest on measured runs at full scale and follow the rules of claims: MNIST alone, one definition of an experiment
and one software, no oversubscribed runs, and nothing told apart by fewer than six rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import altair as alt
import pandas as pd

from tmflow.analysis import baseline as against
from tmflow.analysis import summaries
from tmflow.analysis.disturbance import count_disturbed, sentence_on
from tmflow.analysis.run_table import ROUND, VARIANT
from tmflow.base.text import several, workers
from tmflow.charts import forest
from tmflow.charts.captions import caption
from tmflow.charts.figures import Figure
from tmflow.claims.provenance import origins, who_speaks
from tmflow.claims.selection import LEAST_ROUNDS, Missing, usable
from tmflow.reports import narrative
from tmflow.reports.narrative import Promises, Words
from tmflow.store import queries
from tmflow.store.frames import Source, connected
from tmflow.store.queries import Only, Value

TO_RUN = "'make study' measures it."  # shown as it stands, so without marks of Markdown


class Comparison(NamedTuple):
    """Runs of an experiment that differ in strategy and number of workers, and the strategy to compare with."""

    experiment: str
    where: dict[str, Value]
    baseline: str
    measures: str = "usual"

    @property
    def factors(self) -> dict[str, Value]:
        """What its runs have in common."""
        return {**self.where, "measures": self.measures}


def _only(platform: str, joined: bool, *comparisons: Comparison) -> Only:
    """Which runs these are of a platform, by its key (`tmflow.platform.key`)."""
    return {
        "any_of": [(its.experiment, its.factors) for its in comparisons],
        "scale": "full",
        "platforms": [platform],
        "evidences": ["measured"],
        "joined": joined,
        "all_definitions": True,  # of which `find` takes one: the newest of all may not have been run there
    }


# The large model with batches of one: where an update weighs most.
OF_STUDY = Comparison("fig-4.10", {"batch": 1}, "tf_lock")
OF_ALL = Comparison("consistency-for-free", {"model": "mnist_deep", "reading": "plain"}, "lock")
# The small model, which learns all that it can in this many steps; for the large one they are too few.
OF_ACCURACY = Comparison("fig-4.1", {"matrix": 784}, "tf_lock")
OF_LOSSES = Comparison("true-contention", {"reading": "plain"}, "lock", "full")


class Found(NamedTuple):
    """The runs that answer, all with one number of workers."""

    runs: pd.DataFrame
    left_out: str | None
    """Which runs are not looked at because their origin is another."""


class Answer(NamedTuple):
    """A question, its answer in a few words, and why; without a figure where the runs are missing."""

    question: str
    short: str
    sentences: list[str]
    figure: Figure | None
    rests_on: str
    view: dict[str, str]
    """The parameters of the page Explore at which it shows these runs."""
    claims: tuple[str, ...]
    """What the study says of the same."""


class Question(NamedTuple):
    """What is asked, of which runs, and how they are compared, drawn and shown on the page Explore."""

    text: str
    comparison: Comparison
    compare: Callable[[pd.DataFrame, str, int], pd.DataFrame]
    draw: Callable[[pd.DataFrame, str], alt.LayerChart]
    metric: str
    claims: tuple[str, ...]


TRANSACTIONS = Question(
    "Is transactional memory ever it?",
    OF_STUDY,
    against.speed,
    forest.speed,
    "speedup_vs_tf_lock",
    ("deep-htm-double", "htm-pays-with-minimal-batches", "stm-never-pays", "other-locks-gain-nothing"),
)
STRATEGIES = Question(
    "Which strategy should you use?", OF_ALL, against.speed, forest.speed, "step_time", ("deep-order",)
)
ACCURACY = Question(
    "Does the accuracy suffer?",
    OF_ACCURACY,
    against.accuracy,
    forest.accuracy,
    "accuracy",
    ("no-difference-of-accuracy", "power-same-accuracy"),
)


def ask(
    source: Source, platform: str, revision: str, promises: Promises, *, joined: bool = False
) -> tuple[Answer, ...]:
    """The three answers of the platform of that key (`tmflow.platform.key`), in one reading of its runs.

    `revision` is the database's; `promises` are those of strategies. joined: from all sources of the platform together.
    """
    with connected(source) as connection:
        study, every, accuracy, losses = _read(connection, platform, joined, OF_STUDY, OF_ALL, OF_ACCURACY, OF_LOSSES)
        full = queries.full_measures(connection, **_only(platform, joined, OF_LOSSES))
    return (
        on_transactions(study, revision),
        on_strategies(every, what_was_lost(losses, full), promises, revision),
        on_accuracy(accuracy, revision),
    )


def on_transactions(runs: pd.DataFrame, revision: str) -> Answer:
    """`runs` as of `queries.runs`, of any status."""
    baseline = OF_STUDY.baseline
    return _answer(TRANSACTIONS, runs, revision, lambda summary, _: narrative.of_transactions(summary, baseline))


def on_strategies(runs: pd.DataFrame, lost: str, promises: Promises, revision: str) -> Answer:
    """`runs` as for `on_transactions`; `lost`: a sentence on lost updates."""

    def words(summary: pd.DataFrame, own: pd.DataFrame) -> Words:
        return narrative.of_strategies(summary, own, OF_ALL.baseline, promises, lost)

    return _answer(STRATEGIES, runs, revision, words)


def on_accuracy(runs: pd.DataFrame, revision: str) -> Answer:
    """`runs` as for `on_transactions`."""
    baseline = OF_ACCURACY.baseline
    return _answer(ACCURACY, runs, revision, lambda summary, _: narrative.of_accuracy(summary, baseline))


def what_was_lost(runs: pd.DataFrame, full: pd.DataFrame) -> str:
    """A sentence on the updates that strategies were seen to lose; `full` as `queries.full_measures` gives it."""
    try:
        found = find(runs, OF_LOSSES)
    except Missing as missing:
        return f"How many updates are lost is not known: {missing}; {TO_RUN}"
    first = found.runs.iloc[0]
    where = f"{first['model']}, {first['driver']} driver, {workers(int(first['threads']))}"
    return narrative.of_losses(summaries.lost(found.runs, full), f"{OF_LOSSES.experiment}: {where}")


def find(runs: pd.DataFrame, comparison: Comparison) -> Found:
    """Of the runs of a platform those of one origin, with the most workers that have a hardware thread each.

    Where processes could use different hardware threads, those that could use the most. Raises Missing where none is,
    where no round has both what is compared, and where a round has a strategy more than once: none of its points is it.
    """
    name, baseline = comparison.experiment, comparison.baseline
    own = usable(runs, "measured", "any")
    if own.empty:
        raise Missing(f"there is no measured run of {name} at full scale, on MNIST, on this platform")
    own = own[own["hardware_threads"] == own["hardware_threads"].max()]
    if own.empty:
        raise Missing(f"how many hardware threads the runs of {name} could use is not known")
    of_origins = origins(own, name)
    speaking = of_origins[0].runs
    fits = speaking[(speaking["threads"] <= speaking["hardware_threads"]).astype(bool)]
    with_result = fits.loc[fits["status"] == "ok", ["strategy", "threads", *ROUND]]
    of_baseline = with_result["strategy"] == baseline
    compared = with_result[of_baseline].merge(with_result[~of_baseline], on=["threads", *ROUND])["threads"]
    if compared.empty:
        raise Missing(f"{name} has no round with results of {baseline} and another strategy with as many workers")
    found = fits[fits["threads"] == compared.max()]
    if found.duplicated([*ROUND, *VARIANT]).any() or found[found["strategy"] == baseline].duplicated([*ROUND]).any():
        raise Missing(f"{name} has several points of {baseline}, or of another strategy, to choose from")
    return Found(found, who_speaks(of_origins))


def _read(source: Source, platform: str, joined: bool, *comparisons: Comparison) -> Iterator[pd.DataFrame]:
    """The runs of each comparison, in one reading."""
    only = _only(platform, joined, *comparisons)
    only["status"] = None
    runs = queries.runs(source, **only)
    for comparison in comparisons:
        own = runs["experiment"] == comparison.experiment
        for factor, value in comparison.factors.items():
            own &= runs[factor] == value
        yield runs[own.fillna(False).to_numpy(dtype=bool)].reset_index(drop=True)


def _answer(
    question: Question, runs: pd.DataFrame, revision: str, words: Callable[[pd.DataFrame, pd.DataFrame], Words]
) -> Answer:
    baseline = question.comparison.baseline
    try:
        found = find(runs, question.comparison)
    except Missing as missing:
        why = f"It cannot be told, for {missing}. {TO_RUN}"
        return Answer(question.text, narrative.NOTHING, [why], None, "", {}, question.claims)
    summary = question.compare(found.runs, baseline, LEAST_ROUNDS)
    short, sentences = words(summary, found.runs)
    return Answer(
        question.text,
        short,
        sentences,
        Figure(question.draw(summary, baseline), caption(summary, revision, f"against {baseline}"), summary),
        _rests_on(summary, found),
        _view(question, found.runs),
        question.claims,
    )


def _rests_on(summary: pd.DataFrame, found: Found) -> str:
    first = summary.iloc[0]
    rounds = sorted(set(summary.loc[summary["estimate"].notna(), "rounds"]))
    n = several(rounds[0], "round") if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]} rounds"
    what = f"{first['model']}, batch {first['batch']}, {workers(int(first['threads']))}, {first['driver']} driver"
    told = f"{n} on {first['platform_name']}: {first['experiment']}, {what}."
    return " ".join(filter(None, [told, sentence_on(count_disturbed(found.runs)), found.left_out]))


def _view(question: Question, runs: pd.DataFrame) -> dict[str, str]:
    own = {name: str(runs[name].iloc[0]) for name in ("experiment", "scale", "platform", "evidence")}
    return {**own, "metric": question.metric, **{name: str(its) for name, its in question.comparison.where.items()}}
