"""Pages of charts show one software version, offer to pool all where there are several, and say which they show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from pages import links, opened, plain, texts
from sqlalchemy import URL
from streamlit.testing.v1 import AppTest

from tests.support.sample_runs import SOFTWARE, sample_runs
from tests.support.two_versions import (
    ANOTHER_SOFTWARE,
    EXPERIMENT,
    N_NEW,
    N_OLD,
    NEW,
    NEW_ROUNDS,
    OLD,
    OLD_ROUNDS,
    STRATEGIES,
    THREADS,
    two_versions,
)
from tmflow.base.paths import project_root
from tmflow.portal.url_state import Key
from tmflow.reports.site.build import publish
from tmflow.runfile import record
from tmflow.runfile.record import Run, Software
from tmflow.store import engine, queries, software_labels
from tmflow.store.engine import sqlite_url
from tmflow.store.ingest import ingest
from tmflow.store.run_filter import RunFilter
from tmflow.study.config import load_study

LEFT_OUT = (
    f"Measured by {NEW}.  \nOf experiment {EXPERIMENT}, {N_OLD} runs by other versions of the software are left out."
)
POOLED = "rounds of several versions are pooled in 6 of 6 points"
EXPLORED = {"experiment": EXPERIMENT, "metric": "step_time"}


@pytest.fixture(scope="module")
def updated(tmp_path_factory: pytest.TempPathFactory) -> URL:
    return two_versions(tmp_path_factory.mktemp("updated"))


def rounds(app: AppTest) -> set[int]:
    return {int(n) for table in app.dataframe for n in table.value["rounds"]}


def is_offered(app: AppTest) -> bool:
    return Key.VERSIONS in {box.key for box in app.selectbox}


def test_explore_shows_one_version_and_pools_all_on_request(updated: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("explore", updated, monkeypatch, **EXPLORED)
    assert not app.warning
    assert rounds(app) == {NEW_ROUNDS}
    assert LEFT_OUT in texts(app)
    box = app.selectbox(key=Key.VERSIONS)
    assert (box.label, box.value, box.options) == ("Software version", "one", ["one, as in claims", "all, pooled"])
    box.select("all").run()
    assert not app.exception
    assert rounds(app) == {OLD_ROUNDS + NEW_ROUNDS}
    assert POOLED in texts(app)
    assert "left out" not in texts(app)
    assert app.query_params[Key.VERSIONS] == "all"
    again = opened("explore", updated, monkeypatch, **dict(app.query_params))
    assert again.selectbox(key=Key.VERSIONS).value == "all"
    assert rounds(again) == {OLD_ROUNDS + NEW_ROUNDS}
    again.selectbox(key="metric").select("accuracy").run()
    assert rounds(again) == {OLD_ROUNDS + NEW_ROUNDS}


def test_a_link_with_unknown_versions_says_what_is_shown(updated: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("explore", updated, monkeypatch, **EXPLORED, versions="oldest")
    (warning,) = app.warning
    assert "software version 'oldest', which is not here: showing 'one'" in plain(warning.value)
    assert rounds(app) == {NEW_ROUNDS}


@pytest.mark.parametrize("query", [{}, {"versions": "all"}, {"versions": "oldest"}])
def test_where_one_version_measured_there_is_nothing_to_choose(
    query: dict[str, str], seeded: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened("explore", seeded, monkeypatch, experiment="softmax-batch-1", **query)
    assert not app.warning
    assert not is_offered(app)
    assert "versions of the software" not in texts(app)


def test_a_figure_and_its_link_to_explore_have_the_chosen_versions(
    updated: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened("figures", updated, monkeypatch, figure="4.1")
    assert rounds(app) == {NEW_ROUNDS}
    assert LEFT_OUT in texts(app)
    assert all("versions" not in query for _, query in links(app, "explore"))
    app.selectbox(key=Key.VERSIONS).select("all").run()
    assert rounds(app) == {OLD_ROUNDS + NEW_ROUNDS}
    (explored,) = (parse_qs(query) for _, query in links(app, "explore"))
    assert explored["versions"] == ["all"]


def test_two_versions_are_compared_and_the_default_is_that_of_charts(
    updated: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened("compare", updated, monkeypatch, **{"a.experiment": EXPERIMENT})
    assert [app.selectbox(key=f"{side}.software").value for side in "ab"] == [NEW, NEW]
    both = {"a.software": OLD, "b.software": NEW, "a.strategy": "tf_lock", "b.strategy": "tf_lock"}
    app = opened("compare", updated, monkeypatch, **{"a.experiment": EXPERIMENT}, **both)
    assert not app.warning
    table = app.dataframe[0].value
    assert set(table["rounds_a"]) == {OLD_ROUNDS}
    assert set(table["rounds_b"]) == {NEW_ROUNDS}
    assert table["estimate"].between(0.4, 0.6).all()  # the newer version takes twice as long


def test_a_link_with_the_hash_of_a_software_says_what_is_shown(updated: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("compare", updated, monkeypatch, **{"a.experiment": EXPERIMENT, "a.software": "01234567"})
    (warning,) = app.warning
    assert f"software '01234567', which is not here: showing '{NEW}'" in plain(warning.value)


def study_of(folder: Path, *parts: list[Run]) -> URL:
    """A database with these runs, a file for each part."""
    url = sqlite_url(folder / "study.db")
    files = [folder / f"{number}.jsonl" for number in range(len(parts))]
    for file, runs in zip(files, parts, strict=True):
        record.write(file, runs)
    ingest(url, files)
    return url


def measured(rounds: int, day: int, software: Software, **factors: Any) -> list[Run]:
    runs = sample_runs((EXPERIMENT,), STRATEGIES, THREADS, rounds, campaign=f"day {day}", day=day, **factors)
    return [run.model_copy(update={"software": software}) for run in runs]


def test_compare_pools_commits_with_the_same_code_as_charts_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(software_labels, "_code_here", lambda commit: "the same code")
    runs = measured(9, 1, SOFTWARE)
    later = SOFTWARE.model_copy(update={"git_commit": "1" * 40})
    resumed = [run.model_copy(update={"software": later}) if run.round > 5 else run for run in runs]
    app = opened("compare", study_of(tmp_path, resumed), monkeypatch)
    assert "a.software" not in {box.key for box in app.selectbox}
    assert set(app.dataframe[0].value["rounds_a"]) == {9}


def test_compare_never_pools_two_campaigns_with_uncommitted_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = SOFTWARE.model_copy(update={"git_dirty": True})
    app = opened("compare", study_of(tmp_path, measured(7, 1, changed), measured(6, 2, changed)), monkeypatch)
    box = app.selectbox(key="a.software")
    assert len(box.options) == 2
    assert str(box.value).endswith("with uncommitted changes, in campaign day 2")
    assert set(app.dataframe[0].value["rounds_a"]) == {6}


def test_compare_begins_with_the_version_of_charts_for_an_older_definition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = (measured(8, 1, SOFTWARE), measured(2, 2, ANOTHER_SOFTWARE))
    newer = (measured(6, 3, SOFTWARE, batch=1), measured(6, 4, ANOTHER_SOFTWARE, batch=1))
    url = study_of(tmp_path, *older, *newer)
    assert opened("compare", url, monkeypatch).selectbox(key="a.software").value == NEW
    definition = older[0][0].experiment.definition_sha256[:8]
    app = opened("compare", url, monkeypatch, **{"a.definition": definition})
    assert app.selectbox(key="a.software").value == OLD
    app.selectbox(key="a.software").select(NEW).run()
    assert set(app.dataframe[0].value["rounds_a"]) == {2}


def test_lists_of_runs_have_those_of_all_versions(updated: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("runs", updated, monkeypatch, rows="100")
    assert f"{N_OLD + N_NEW}" in texts(app)
    assert {OLD, NEW} == set(queries.runs(engine.open_reader(updated), RunFilter())["software"])


def test_the_site_shows_one_version_and_lists_all_runs(updated: URL, tmp_path: Path) -> None:
    study = load_study(project_root() / "config.yaml")
    written = publish(engine.open_reader(updated), study, "full", tmp_path / "site")
    figures = json.loads((tmp_path / "site" / "figures.json").read_text())
    assert figures
    assert all(set(LEFT_OUT.split("  \n")) <= set(figure["caption"]) for figure in figures)
    assert written.runs == N_OLD + N_NEW
