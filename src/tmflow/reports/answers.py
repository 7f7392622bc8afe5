"""The three main answers of a study, in sentences computed from the runs of one platform.

Each question has a list of comparisons: the answer uses the first that the platform has with two or more workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import pandas as pd

from tmflow.analysis import baseline as baselines
from tmflow.analysis import elements, summaries
from tmflow.analysis.noise import count_disturbed, sentence_on
from tmflow.analysis.versions import LEAST_ROUNDS
from tmflow.base.text import from_to, workers
from tmflow.charts.captions import NO_TITLES, Titles, caption
from tmflow.charts.dot_plots import draw_comparison
from tmflow.charts.figures import Figure
from tmflow.claims.selection import Missing
from tmflow.reports import narrative
from tmflow.reports.comparisons import (
    OF_ACCURACY,
    OF_ALL,
    OF_ALL_SMALL,
    OF_CONTENTION,
    OF_LOSSES,
    OF_NATIVE,
    OF_ROWS,
    OF_SECTIONS,
    OF_STUDY,
    OF_STUDY_SMALL,
    Comparison,
    SelectedRuns,
    read_experiments,
    results_of,
    select_runs,
)
from tmflow.reports.narrative import Consistencies, Narrative
from tmflow.reports.workloads import describe_workloads
from tmflow.store import queries
from tmflow.store.frames import Source, connected

TO_RUN = "'make study' measures it."  # no Markdown: the text is shown verbatim


class Answer(NamedTuple):
    """A question, a short answer and its reasons; without a figure if runs are missing."""

    question: str
    short: str
    setting: str
    """The model, batch and number of workers of the compared runs; empty if runs are missing."""
    sentences: list[str]
    figure: Figure | None
    rests_on: str
    view: dict[str, str]
    """The URL parameters with which the page Explore shows these runs."""
    claims: tuple[str, ...]
    """The claims of the study about the same question."""


class Question(NamedTuple):
    """A question, the runs that may answer it, how they are compared, and their measure on the page Explore."""

    text: str
    comparisons: tuple[Comparison, ...]
    """The preferred one first."""
    compare: Callable[[pd.DataFrame, str, int], pd.DataFrame]
    metric: str
    claims: tuple[str, ...]


TRANSACTIONS = Question(
    "Does transactional memory ever pay off?",
    (OF_STUDY, OF_STUDY_SMALL, OF_NATIVE, OF_CONTENTION),
    baselines.speed,
    "speedup_vs_tf_lock",
    ("deep-htm-double", "htm-pays-with-minimal-batches", "stm-never-pays", "other-locks-gain-nothing"),
)
STRATEGIES = Question(
    "Which strategy should you use?",
    (OF_ALL, OF_ALL_SMALL, OF_CONTENTION, OF_NATIVE),
    baselines.speed,
    "step_time",
    ("deep-htm-over-lock", "deep-nolock-over-htm"),
)
ACCURACY = Question(
    "Does accuracy suffer?",
    (OF_ACCURACY,),
    baselines.accuracy,
    "accuracy",
    ("no-difference-of-accuracy", "power-same-accuracy"),
)
Words = Callable[[pd.DataFrame, pd.DataFrame, Comparison], Narrative]
"""Makes the sentences from a summary, its runs and their comparison."""
Count = Callable[[Comparison], pd.DataFrame]
"""Gives `queries.variable_transactions` of the results of a comparison."""


def ask(
    source: Source,
    platform: str,
    revision: str,
    consistencies: Consistencies,
    titles: Titles = NO_TITLES,
    *,
    joined: bool = False,
) -> tuple[Answer, ...]:
    """Give the three answers for a platform, by its key (`tmflow.platform.facts`).

    revision: the revision of the database. consistencies: of the updates of each strategy. titles: of experiments, by
    id. joined: pool all sources of the platform. The preferred runs come from a single read; others are read only if
    these are missing.
    """
    with connected(source) as connection:
        preferred = [question.comparisons[0] for question in (TRANSACTIONS, STRATEGIES, ACCURACY)]
        others = (OF_LOSSES, OF_SECTIONS, OF_ROWS)
        *read, losses, sections, rows = read_experiments(connection, platform, joined, *preferred, *others)

        def runs(question: Question) -> Iterator[pd.DataFrame]:
            first, *others = question.comparisons
            yield read[preferred.index(first)]
            for comparison in others:
                yield from read_experiments(connection, platform, joined, comparison)

        def count(comparison: Comparison) -> pd.DataFrame:
            return queries.variable_transactions(connection, results_of(platform, joined, comparison))

        lost = describe_losses(losses, queries.full_measures(connection, results_of(platform, joined, OF_LOSSES)))
        return (
            answer_transactions(
                runs(TRANSACTIONS), revision, count, titles, elsewhere=describe_workloads(sections, rows)
            ),
            answer_strategies(runs(STRATEGIES), lost, consistencies, revision, titles),
            answer_accuracy(runs(ACCURACY), revision, titles),
        )


def answer_transactions(
    runs: Iterable[pd.DataFrame],
    revision: str,
    count: Count | None = None,
    titles: Titles = NO_TITLES,
    *,
    elsewhere: str = "",
) -> Answer:
    """Answer whether transactions pay off.

    runs: a table of `queries.runs`, with any status, for each comparison of `TRANSACTIONS`, in their order. With
    `count`, the answer says how much of the model transactions updated. elsewhere: a sentence on other workloads.
    """

    def words(summary: pd.DataFrame, selected: pd.DataFrame, comparison: Comparison) -> Narrative:
        short, sentences = narrative.answer_transactions(summary, selected, comparison.baseline)
        share = None if count is None else elements.sentence(elements.committed_elements(selected, count(comparison)))
        return Narrative(short, [*sentences[:1], *([share] if share else []), *sentences[1:]])

    answer = _answer(TRANSACTIONS, runs, revision, words, titles)
    return answer._replace(sentences=[*answer.sentences, elsewhere]) if elsewhere else answer


def answer_strategies(
    runs: Iterable[pd.DataFrame],
    lost: str,
    consistencies: Consistencies,
    revision: str,
    titles: Titles = NO_TITLES,
) -> Answer:
    """Answer which strategy to use; `runs` as for `answer_transactions`; `lost`: a sentence on lost updates."""

    def words(summary: pd.DataFrame, selected: pd.DataFrame, comparison: Comparison) -> Narrative:
        return narrative.answer_strategies(summary, selected, comparison.baseline, consistencies, lost)

    return _answer(STRATEGIES, runs, revision, words, titles)


def answer_accuracy(runs: Iterable[pd.DataFrame], revision: str, titles: Titles = NO_TITLES) -> Answer:
    """Answer whether accuracy suffers; `runs` as for `answer_transactions`."""

    def words(summary: pd.DataFrame, _: pd.DataFrame, comparison: Comparison) -> Narrative:
        return narrative.answer_accuracy(summary, comparison.baseline)

    return _answer(ACCURACY, runs, revision, words, titles)


def describe_losses(runs: pd.DataFrame, full: pd.DataFrame) -> str:
    """Describe the observed lost updates in a sentence; `full`: see `queries.full_measures`."""
    try:
        selected = select_runs(runs, OF_LOSSES)
    except Missing as missing:
        return f"The share of lost updates is unknown: {missing}; {TO_RUN}"
    first = selected.runs.iloc[0]
    if first["threads"] == 1:
        return f"Whether updates are lost was not tested ({OF_LOSSES.experiment}): {narrative.ONE_WORKER}"
    where = f"{first['model']}, {first['driver']} driver, {workers(int(first['threads']))}"
    return narrative.describe_losses(summaries.lost(selected.runs, full), f"{OF_LOSSES.experiment}: {where}")


def _answer(question: Question, runs: Iterable[pd.DataFrame], revision: str, words: Words, titles: Titles) -> Answer:
    try:
        comparison, selected = select_first(question.comparisons, runs)
    except Missing as missing:
        why = f"No answer: {missing}. {TO_RUN}"
        return Answer(question.text, narrative.NOTHING, "", [why], None, "", {}, question.claims)
    summary = question.compare(selected.runs, comparison.baseline, LEAST_ROUNDS)
    single_worker = int(selected.runs["threads"].iloc[0]) == 1
    short, sentences = (
        narrative.answer_one_worker(summary) if single_worker else words(summary, selected.runs, comparison)
    )
    comparable = summary[~summary["strategy"].isin(narrative.NOT_COMPARABLE)]
    drawn = summary if comparable.empty else comparable
    return Answer(
        question.text,
        short,
        _setting(summary),
        sentences,
        Figure(
            draw_comparison(drawn, comparison.baseline),
            caption(drawn, revision, f"against {comparison.baseline}", titles=titles),
            drawn,
        ),
        _rests_on(summary, selected, titles),
        _view(question, comparison, selected.runs),
        question.claims,
    )


def select_first(comparisons: Iterable[Comparison], runs: Iterable[pd.DataFrame]) -> tuple[Comparison, SelectedRuns]:
    """Select the runs of the first comparison that has two or more workers; without one, the first that has runs.

    runs: for each comparison, in their order, the runs of its experiment. Raises Missing, with the reason of the first
    comparison, if none has runs.
    """
    reason, of_one_worker = None, None
    for comparison, of_experiment in zip(comparisons, runs, strict=False):
        try:
            selected = select_runs(of_experiment, comparison)
        except Missing as missing:
            reason = reason or missing
            continue
        if selected.runs["threads"].iloc[0] > 1:
            return comparison, selected
        of_one_worker = of_one_worker or (comparison, selected)
    if of_one_worker is None:
        raise reason or Missing("no experiment compares strategies")
    return of_one_worker


def _setting(summary: pd.DataFrame) -> str:
    first = summary.iloc[0]
    return f"{first['model']}, batch {first['batch']}, {workers(int(first['threads']))}, {first['driver']} driver"


def _rests_on(summary: pd.DataFrame, selected: SelectedRuns, titles: Titles) -> str:
    first = summary.iloc[0]
    rounds = summary.loc[summary["estimate"].notna(), "rounds"]
    n = from_to(int(rounds.min()), int(rounds.max()), "round")
    incomplete = summary[summary["estimate"].notna() & summary["reason"].notna()]
    gaps = "".join(f" Incomplete: {row['variant']}: {row['reason']}." for _, row in incomplete.iterrows())
    experiment = titles.get(first["experiment"], first["experiment"])
    text = f"{n} on {first['platform_name']}: {experiment}; {_setting(summary)}.{gaps}"
    return " ".join(filter(None, [text, sentence_on(count_disturbed(selected.runs)), selected.left_out]))


def _view(question: Question, comparison: Comparison, runs: pd.DataFrame) -> dict[str, str]:
    view = {name: runs[name].iloc[0] for name in ("experiment", "scale", "platform", "evidence")}
    view |= {"metric": question.metric, **comparison.where}
    return {name: str(value) for name, value in view.items()}
