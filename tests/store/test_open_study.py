"""`tmflow.open_study`: the tables and figures of docs/api.md, and one sentence for every unknown name."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import tmflow
from tests.support.sample_runs import EMULATED, sample_runs
from tmflow.api import Study
from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root
from tmflow.runfile import record
from tmflow.store import queries
from tmflow.store.engine import sqlite_url
from tmflow.store.ingest import ingest
from tmflow.store.run_filter import RESULTS

EXAMPLES = re.findall(r"```python\n(.*?)```", (project_root() / "docs" / "api.md").read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with results/study.db."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "results").mkdir()
    lots = [
        sample_runs(("fig-4.1",), ("tf_lock", "tf_nolock", EMULATED, "stm"), (1, 2, 4), 6, unsupported=("stm",)),
        sample_runs(("fig-4.7",), rounds=2, campaign="campaign-2", platform={"sockets": 2}),
    ]
    for number, runs in enumerate(lots):
        file = folder / f"{number}.jsonl"
        record.write(file, runs)
        ingest(sqlite_url(folder / "results" / "study.db"), [file])
    return folder


@pytest.fixture
def study(folder: Path) -> Study:
    return tmflow.open_study(folder / "results" / "study.db")


def test_the_examples_of_the_docs_work_as_they_are_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    names: dict[str, object] = {}
    for example in EXAMPLES:
        exec(example, names)
    assert len(EXAMPLES) == 5
    runs, speedup = names["runs"], names["speedup"]
    assert isinstance(runs, pd.DataFrame)
    assert isinstance(speedup, pd.DataFrame)
    assert set(runs["strategy"]) == {"tf_lock", "tf_nolock"}
    assert len(runs) == 12
    assert set(speedup.set_index("strategy").loc[["tf_lock", "tf_nolock"], "rounds"]) == {6}
    assert (folder / "speedup.svg").read_bytes().startswith(b"<svg")


def test_a_summary_is_what_the_figure_draws(study: Study) -> None:
    summary = study.summary("commits", "fig-4.1", evidence="emulated")
    (figure,) = study.figures("commits", "fig-4.1", evidence="emulated").values()
    pd.testing.assert_frame_equal(figure.summary.reset_index(drop=True), summary.reset_index(drop=True))
    assert summary["estimate"].notna().all()
    assert set(summary["evidence"]) == {"emulated"}
    assert study.revision() in figure.file("vl.json").decode()


def test_where_nothing_was_measured_the_summary_is_empty_and_there_is_no_figure(study: Study) -> None:
    assert study.summary("lost", "fig-4.1").empty
    assert study.figures("lost", "fig-4.1") == {}


def test_a_url_will_do_as_well_and_records_are_those_of_the_queries(folder: Path, study: Study) -> None:
    again = tmflow.open_study(f"sqlite:///{folder}/results/study.db")
    assert again.revision() == study.revision()
    only = replace(RESULTS, experiments=["fig-4.7"], scales=["full"], factors={"threads": [2]})
    pd.testing.assert_frame_equal(again.records("fig-4.7", threads=2).curves, queries.curves(study.source, only))
    assert set(study.runs(status="unsupported")["strategy"]) == {"stm"}


def test_values_that_a_table_gave_are_as_good_as_any(study: Study) -> None:
    runs = study.runs(experiment="fig-4.1", strategy=["tf_lock", "tf_nolock"])
    for threads in (runs["threads"].unique(), runs["threads"], set(runs["threads"])):
        assert len(study.runs(experiment="fig-4.1", strategy=runs["strategy"].unique(), threads=threads)) == len(runs)
    assert set(study.runs(threads=runs["threads"].max(), learning_rate=runs["learning_rate"][0])["threads"]) == {4}


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (
            {"experiment": "fig-4.2"},
            r"no runs of experiment 'fig-4\.2' \(did you mean .*\); it holds fig-4\.1, fig-4\.7\.$",
        ),
        ({"experiment": "fig-4.1", "scale": "quick"}, "no runs of scale 'quick'; it holds full"),
        ({"platform": "nowhere"}, "no runs of platform 'nowhere'; it holds synthetic-test-machine-8t, "),
        (
            {"experiment": "fig-4.7", "evidence": ["measured", "emulated"]},
            "no runs of evidence 'emulated'; it holds meas",
        ),
        ({"status": ["ok", "fine"]}, "unknown status 'fine'; valid: failed, "),
        ({"treads": 4}, r"unknown factor 'treads' \(did you mean 'threads'\?\)"),
    ],
    ids=str,
)
def test_a_name_that_is_not_there_is_told(study: Study, asked: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        study.runs(**asked)


def test_a_kind_of_figure_that_is_not_there_is_told(study: Study) -> None:
    with pytest.raises(BadInput, match=r"unknown kind of figure 'sped' .*; valid: accuracy, "):
        study.summary("sped", "fig-4.1")


def test_the_package_has_no_more_than_it_says() -> None:
    missing = "open_studio"
    with pytest.raises(AttributeError, match=f"module 'tmflow' has no attribute '{missing}'"):
        getattr(tmflow, missing)
