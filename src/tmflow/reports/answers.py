"""The three main answers of a study, in sentences computed from the runs of one platform.

They use measured runs at full scale and follow the rules of claims: MNIST only, one definition of an experiment, one
software version, no oversubscribed runs, and no conclusion from fewer than six rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from tmflow.analysis import baseline as baselines
from tmflow.analysis import elements, summaries
from tmflow.analysis.noise import count_disturbed, sentence_on
from tmflow.analysis.run_table import ROUND, VARIANT
from tmflow.analysis.variants import has_defaults
from tmflow.analysis.versions import LEAST_ROUNDS, origins
from tmflow.base.text import from_to, workers
from tmflow.charts.captions import caption
from tmflow.charts.dot_plots import draw_comparison
from tmflow.charts.figures import Figure
from tmflow.claims.origins import provenance_note
from tmflow.claims.selection import Missing, usable
from tmflow.reports import narrative
from tmflow.reports.narrative import Consistencies, Narrative
from tmflow.spec.trial import TrialSpec
from tmflow.store import queries
from tmflow.store.frames import Source, connected
from tmflow.store.run_filter import RunFilter, Value

TO_RUN = "'make study' measures it."  # no Markdown: the text is shown verbatim


class Comparison(NamedTuple):
    """Runs of an experiment that differ in strategy and number of workers, and the baseline strategy."""

    experiment: str
    where: dict[str, Value]
    baseline: str
    measures: str = "usual"

    @property
    def factors(self) -> dict[str, Value]:
        """The factors that all its runs share."""
        return {**self.where, "measures": self.measures}


def results_of(platform: str, joined: bool, comparison: Comparison) -> RunFilter:
    """The filter for the runs of a comparison that have a result."""
    return replace(_filter(platform, joined, comparison), statuses=["ok"])


def _filter(platform: str, joined: bool, *comparisons: Comparison) -> RunFilter:
    """The filter for the runs of these comparisons on a platform, given by its key (`tmflow.platform.facts`).

    It keeps all definitions: `select_runs` chooses one, because the platform may not have run the newest.
    """
    return RunFilter(
        settings=[(comparison.experiment, comparison.factors) for comparison in comparisons],
        scales=["full"],
        platforms=[platform],
        evidences=["measured"],
        joined=joined,
    )


# The large model with batches of one, where an update costs most relative to a step.
OF_STUDY = Comparison("fig-4.10", {"batch": 1}, "tf_lock")
OF_ALL = Comparison("consistency-for-free", {"model": "mnist_deep", "variables": "ref", "reading": "plain"}, "lock")
# The small model, which converges in this number of steps; the large one does not.
OF_ACCURACY = Comparison("fig-4.1", {"matrix": 784}, "tf_lock")
OF_LOSSES = Comparison("true-contention", {"reading": "plain"}, "lock", "full")


class SelectedRuns(NamedTuple):
    """The runs that an answer uses, all with the same number of workers."""

    runs: pd.DataFrame
    left_out: str | None
    """A sentence on runs left out because of their origin; None if there are none."""


class Answer(NamedTuple):
    """A question, a short answer and its reasons; without a figure if runs are missing."""

    question: str
    short: str
    sentences: list[str]
    figure: Figure | None
    rests_on: str
    view: dict[str, str]
    """The URL parameters with which the page Explore shows these runs."""
    claims: tuple[str, ...]
    """The claims of the study about the same question."""


class Question(NamedTuple):
    """A question, the runs it needs, and how they are compared, and their measure on the page Explore."""

    text: str
    comparison: Comparison
    compare: Callable[[pd.DataFrame, str, int], pd.DataFrame]
    metric: str
    claims: tuple[str, ...]


TRANSACTIONS = Question(
    "Does transactional memory ever pay off?",
    OF_STUDY,
    baselines.speed,
    "speedup_vs_tf_lock",
    ("deep-htm-double", "htm-pays-with-minimal-batches", "stm-never-pays", "other-locks-gain-nothing"),
)
STRATEGIES = Question(
    "Which strategy should you use?",
    OF_ALL,
    baselines.speed,
    "step_time",
    ("deep-htm-over-lock", "deep-nolock-over-htm"),
)
ACCURACY = Question(
    "Does accuracy suffer?",
    OF_ACCURACY,
    baselines.accuracy,
    "accuracy",
    ("no-difference-of-accuracy", "power-same-accuracy"),
)


def ask(
    source: Source, platform: str, revision: str, consistencies: Consistencies, *, joined: bool = False
) -> tuple[Answer, ...]:
    """Give the three answers for a platform, by its key (`tmflow.platform.facts`), from a single read of its runs.

    revision: the revision of the database. consistencies: of the updates of each strategy. joined: pool all
    sources of the platform.
    """
    with connected(source) as connection:
        study, every, accuracy, losses = read_experiments(
            connection, platform, joined, OF_STUDY, OF_ALL, OF_ACCURACY, OF_LOSSES
        )
        full = queries.full_measures(connection, results_of(platform, joined, OF_LOSSES))
        counts = queries.variable_transactions(connection, results_of(platform, joined, OF_STUDY))
    return (
        answer_transactions(study, revision, counts),
        answer_strategies(every, describe_losses(losses, full), consistencies, revision),
        answer_accuracy(accuracy, revision),
    )


def answer_transactions(runs: pd.DataFrame, revision: str, counts: pd.DataFrame | None = None) -> Answer:
    """Answer whether transactions pay off; `runs`: a table of `queries.runs`, with any status.

    counts: see `queries.variable_transactions`; if given, the answer says how much of the model transactions updated.
    """

    def words(summary: pd.DataFrame, selected_runs: pd.DataFrame) -> Narrative:
        short, sentences = narrative.answer_transactions(summary, OF_STUDY.baseline)
        share = None if counts is None else elements.sentence(elements.committed_elements(selected_runs, counts))
        return Narrative(short, [*sentences[:1], *([share] if share else []), *sentences[1:]])

    return _answer(TRANSACTIONS, runs, revision, words)


def answer_strategies(runs: pd.DataFrame, lost: str, consistencies: Consistencies, revision: str) -> Answer:
    """Answer which strategy to use; `runs` as for `answer_transactions`; `lost`: a sentence on lost updates."""

    def words(summary: pd.DataFrame, selected_runs: pd.DataFrame) -> Narrative:
        return narrative.answer_strategies(summary, selected_runs, OF_ALL.baseline, consistencies, lost)

    return _answer(STRATEGIES, runs, revision, words)


def answer_accuracy(runs: pd.DataFrame, revision: str) -> Answer:
    """Answer whether accuracy suffers; `runs` as for `answer_transactions`."""
    baseline = OF_ACCURACY.baseline
    return _answer(ACCURACY, runs, revision, lambda summary, _: narrative.answer_accuracy(summary, baseline))


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


def select_runs(runs: pd.DataFrame, comparison: Comparison) -> SelectedRuns:
    """Select the runs of one origin with the most workers that have a hardware thread each.

    `runs` is a table of `queries.runs` with all runs of the experiment: which origin is used does not depend on the
    factors of the comparison. Runs whose process could use fewer hardware threads than others are left out. Raises
    Missing if no run is left, if no round has both the baseline and another strategy, or if a round has several points
    of one strategy.
    """
    name, baseline = comparison.experiment, comparison.baseline
    eligible = usable(runs, "measured", "any")
    if (compared := _having(eligible, comparison.factors)).empty:
        raise Missing(f"there is no measured run of {name} at full scale, on MNIST, on this platform")
    eligible = eligible[eligible["hardware_threads"] == compared["hardware_threads"].max()]
    if eligible.empty:
        raise Missing(f"the number of hardware threads that the runs of {name} could use is unknown")
    by_origin = origins(eligible, name)
    origin_runs = _having(by_origin[0].runs, comparison.factors)
    fits = origin_runs[(origin_runs["threads"] <= origin_runs["hardware_threads"]).astype(bool)]
    with_result = fits.loc[fits["status"] == "ok", ["strategy", "threads", *ROUND]]
    of_baseline = has_defaults(fits[fits["status"] == "ok"], baseline)
    shared = with_result[of_baseline].merge(with_result[~of_baseline], on=["threads", *ROUND])["threads"]
    if shared.empty:
        raise Missing(f"{name} has no round with results of {baseline} and another strategy with as many workers")
    selected = fits[fits["threads"] == shared.max()]
    values = selected.drop_duplicates([*TrialSpec.model_fields, *ROUND])  # without further repeats
    if values.duplicated([*ROUND, *VARIANT]).any() or values[has_defaults(values, baseline)].duplicated([*ROUND]).any():
        raise Missing(f"{name} has several points of {baseline}, or of another strategy, to choose from")
    return SelectedRuns(selected, provenance_note(by_origin))


def _having(runs: pd.DataFrame, values: Mapping[str, Value]) -> pd.DataFrame:
    """The runs with these values of columns."""
    for name, value in values.items():
        runs = runs[(runs[name] == value).fillna(False).to_numpy(dtype=bool)]
    return runs


def read_experiments(source: Source, platform: str, joined: bool, *comparisons: Comparison) -> Iterator[pd.DataFrame]:
    """Yield the runs of the experiment of each comparison, with any factors, from a single read."""
    runs = queries.runs(source, _filter(platform, joined, *comparisons).of_samples)
    for comparison in comparisons:
        yield _having(runs, {"experiment": comparison.experiment}).reset_index(drop=True)


def _answer(
    question: Question, runs: pd.DataFrame, revision: str, words: Callable[[pd.DataFrame, pd.DataFrame], Narrative]
) -> Answer:
    baseline = question.comparison.baseline
    try:
        selected = select_runs(runs, question.comparison)
    except Missing as missing:
        why = f"No answer: {missing}. {TO_RUN}"
        return Answer(question.text, narrative.NOTHING, [why], None, "", {}, question.claims)
    summary = question.compare(selected.runs, baseline, LEAST_ROUNDS)
    single_worker = int(selected.runs["threads"].iloc[0]) == 1
    short, sentences = narrative.answer_one_worker(summary) if single_worker else words(summary, selected.runs)
    return Answer(
        question.text,
        short,
        sentences,
        Figure(draw_comparison(summary, baseline), caption(summary, revision, f"against {baseline}"), summary),
        _rests_on(summary, selected),
        _view(question, selected.runs),
        question.claims,
    )


def _rests_on(summary: pd.DataFrame, selected: SelectedRuns) -> str:
    first = summary.iloc[0]
    rounds = summary.loc[summary["estimate"].notna(), "rounds"]
    n = from_to(int(rounds.min()), int(rounds.max()), "round")
    what = f"{first['model']}, batch {first['batch']}, {workers(int(first['threads']))}, {first['driver']} driver"
    incomplete = summary[summary["estimate"].notna() & summary["reason"].notna()]
    gaps = "".join(f" Incomplete: {row['variant']}: {row['reason']}." for _, row in incomplete.iterrows())
    text = f"{n} on {first['platform_name']}: {first['experiment']}, {what}.{gaps}"
    return " ".join(filter(None, [text, sentence_on(count_disturbed(selected.runs)), selected.left_out]))


def _view(question: Question, runs: pd.DataFrame) -> dict[str, str]:
    view = {name: runs[name].iloc[0] for name in ("experiment", "scale", "platform", "evidence")}
    view |= {"metric": question.metric, **question.comparison.where}
    return {name: str(value) for name, value in view.items()}
