"""Summaries show the runs of one software version unless all are asked for; lists of runs have all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from sqlalchemy import Engine

import tmflow
from tests.support.sample_runs import sample_runs
from tests.support.two_versions import (
    ANOTHER_SOFTWARE,
    EXPERIMENT,
    N_NEW,
    N_OLD,
    NEW,
    NEW_ROUNDS,
    OLD,
    OLD_ROUNDS,
    two_versions,
)
from tmflow.analysis.versions import LEFT_OUT, left_out_sentence
from tmflow.api import records
from tmflow.base.errors import BadInput
from tmflow.base.text import several
from tmflow.claims.origins import verdicts
from tmflow.reports.answers import ask
from tmflow.runfile import record
from tmflow.store import engine, queries
from tmflow.store.ingest import ingest
from tmflow.store.run_filter import RESULTS, RunFilter

SENTENCES = [
    f"Measured by {NEW}.",
    f"Of experiment {EXPERIMENT}, {N_OLD} runs by other versions of the software are left out.",
]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return engine.open_reader(two_versions(tmp_path_factory.mktemp("versions")))


def test_results_are_those_of_one_version_and_tell_what_is_left_out(reader: Engine) -> None:
    runs = queries.runs(reader)
    assert len(runs) == N_NEW
    assert set(runs["software"]) == {NEW}
    assert set(runs[LEFT_OUT]) == {N_OLD}
    assert left_out_sentence(runs) == SENTENCES[1]


def test_all_versions_are_pooled_on_request_and_lists_have_all_runs(reader: Engine) -> None:
    assert set(queries.runs(reader, replace(RESULTS, versions="all"))["software"]) == {OLD, NEW}
    for listed in (queries.runs(reader, RunFilter()), queries.page(reader, RESULTS, rows=1000)):
        assert len(listed) == N_OLD + N_NEW
        assert LEFT_OUT not in listed
    assert queries.counts(reader)["n_runs"].sum() == N_OLD + N_NEW


def test_records_have_the_details_of_the_runs_that_they_have(reader: Engine) -> None:
    newest = queries.records(reader)
    pooled = queries.records(reader, replace(RESULTS, versions="all"))
    assert len(pooled.runs) == N_OLD + N_NEW
    assert set(newest.curves["uid"]) == set(newest.runs["uid"])
    assert set(pooled.curves["uid"]) == set(pooled.runs["uid"])
    assert set(records(reader, EXPERIMENT).runs["software"]) == {NEW}


def test_the_version_of_an_experiment_does_not_depend_on_the_runs_that_are_wanted(reader: Engine) -> None:
    """Even if all runs that are wanted are of another version."""
    every = queries.runs(reader, RunFilter())
    old = every.loc[every["software"] == OLD, "uid"]
    assert queries.runs(reader, replace(RESULTS, uids=list(old))).empty
    some = queries.runs(reader, replace(RESULTS, factors={"strategy": ["tf_lock"], "threads": [2]}))
    assert set(some["software"]) == {NEW}
    assert set(some[LEFT_OUT]) == {N_OLD}
    setting = [(EXPERIMENT, {"threads": 2})]
    assert set(queries.runs(reader, replace(RESULTS, settings=setting))["software"]) == {NEW}


def test_a_study_sums_up_one_version_or_all_and_lists_all_runs(reader: Engine) -> None:
    study = tmflow.open_study(reader.url)
    summary = study.summary("step_time", EXPERIMENT)
    assert set(summary["software"]) == {NEW}
    assert set(summary["rounds"]) == {NEW_ROUNDS}
    (figure,) = study.figures("step_time", EXPERIMENT).values()
    assert set(SENTENCES) <= set(figure.caption.lines)
    assert len(study.runs()) == N_OLD + N_NEW
    assert len(study.records(EXPERIMENT).runs) == N_NEW
    pooled = tmflow.open_study(reader.url, versions="all")
    assert set(pooled.summary("step_time", EXPERIMENT)["rounds"]) == {OLD_ROUNDS + NEW_ROUNDS}
    (figure,) = pooled.figures("step_time", EXPERIMENT).values()
    assert "rounds of several versions are pooled in 6 of 6 points" in figure.caption.text
    pd.testing.assert_frame_equal(pooled.runs(), study.runs())
    with pytest.raises(BadInput, match=r"unknown value of versions 'newer'; valid: all, one"):
        tmflow.open_study(reader.url, versions="newer")  # type: ignore[arg-type]  # a wrong value


def test_the_number_left_out_is_the_same_in_the_tables_of_all_ways(reader: Engine) -> None:
    study = tmflow.open_study(reader.url)
    of_one = study.summary("step_time", EXPERIMENT, strategy="tf_lock", threads=2)
    assert set(of_one[LEFT_OUT]) == set(study.summary("step_time", EXPERIMENT)[LEFT_OUT]) == {N_OLD}
    (figure,) = study.figures("step_time", EXPERIMENT, strategy="tf_lock").values()
    assert set(SENTENCES) <= set(figure.caption.lines)


@pytest.mark.parametrize("kind", ["step_time", "curve"])
def test_a_caption_counts_a_point_with_several_rows_once(kind: str, reader: Engine) -> None:
    figures = tmflow.open_study(reader.url, versions="all").figures(kind, EXPERIMENT, strategy="tf_lock")
    assert figures
    for figure in figures.values():
        n_points = figure.summary["threads"].nunique()
        assert (
            f"rounds of several versions are pooled in {n_points} of {several(n_points, 'point')}."
            in figure.caption.text
        )


def test_claims_use_the_runs_that_charts_show(reader: Engine) -> None:
    judged = [verdict for verdict in verdicts(reader, "measured") if verdict.left_out]
    assert judged
    for verdict in judged:
        assert {origin.software for origin in verdict.left_out} == {OLD}
        assert {origin.rounds for origin in verdict.left_out} == {OLD_ROUNDS}


def test_answers_use_the_version_that_charts_show(tmp_path: Path) -> None:
    """The newer one, with six rounds, although only five of them have batches of 1, which the answer compares."""
    variants = [{"strategy": name, "batch": batch} for name in ("tf_lock", "tf_nolock") for batch in (1, 100)]
    old, new = (
        sample_runs(("fig-4.10",), variants, (4,), 6, campaign=f"day {day}", day=day, dataset="mnist") for day in (0, 9)
    )
    new = [run.model_copy(update={"software": ANOTHER_SOFTWARE}) for run in new if run.round < 6 or run.spec.batch > 1]
    record.write(tmp_path / "runs.jsonl", [*old, *new])
    url = engine.sqlite_url(tmp_path / "study.db")
    ingest(url, [tmp_path / "runs.jsonl"])
    source = engine.open_reader(url)
    assert set(queries.runs(source)["software"]) == {NEW}
    answer, *_ = ask(source, queries.counts(source)["platform"].iloc[0], "1234abcd", {})
    assert answer.rests_on.startswith("5 rounds on ")
    assert (
        f"these are 6 rounds by {NEW}; left out, because never pooled with them: 6 rounds by {OLD}." in answer.rests_on
    )
