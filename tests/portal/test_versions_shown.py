"""Pages of charts show one software version, offer to pool all where there are several, and say which they show."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from pages import links, opened, plain, texts
from sqlalchemy import URL
from streamlit.testing.v1 import AppTest

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
from tmflow.base.paths import project_root
from tmflow.portal.url_state import Key
from tmflow.reports.site.build import publish
from tmflow.store import engine, platform_queries, queries
from tmflow.store.run_filter import RunFilter
from tmflow.study.config import load_study

LEFT_OUT = f"Measured by {NEW}.  \n{N_OLD} runs by other versions of the software are left out."
POOLED = "rounds of several are pooled in 6 of 6 points"
EXPLORED = {"experiment": EXPERIMENT, "metric": "step_time"}


@pytest.fixture(scope="module")
def updated(tmp_path_factory: pytest.TempPathFactory) -> URL:
    return two_versions(tmp_path_factory.mktemp("updated"))


def rounds(app: AppTest) -> set[int]:
    return {int(n) for table in app.dataframe for n in table.value["rounds"]}


def is_offered(app: AppTest) -> bool:
    return Key.VERSIONS in {box.key for box in app.selectbox}


def test_explore_shows_the_newest_version_and_pools_all_on_request(
    updated: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened("explore", updated, monkeypatch, **EXPLORED)
    assert not app.warning
    assert rounds(app) == {NEW_ROUNDS}
    assert LEFT_OUT in texts(app)
    box = app.selectbox(key=Key.VERSIONS)
    assert (box.label, box.value, box.options) == ("Software version", "newest", ["one, as in claims", "all, pooled"])
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
    assert "software version 'oldest', which is not here: showing 'newest'" in plain(warning.value)
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


def test_two_versions_are_compared_and_the_newest_is_the_default(updated: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = engine.open_reader(updated)
    facts = platform_queries.software_facts(reader, queries.origins(reader, RunFilter())["software_sha256"])
    old, new = sorted(facts, key=lambda sha256: facts[sha256]["tmflow"] == ANOTHER_SOFTWARE.tmflow)
    app = opened("compare", updated, monkeypatch, **{"a.experiment": EXPERIMENT})
    assert [app.selectbox(key=f"{side}.software").value for side in "ab"] == [new[:8], new[:8]]
    both = {"a.software": old[:8], "b.software": new[:8], "a.strategy": "tf_lock", "b.strategy": "tf_lock"}
    app = opened("compare", updated, monkeypatch, **{"a.experiment": EXPERIMENT}, **both)
    table = app.dataframe[0].value
    assert set(table["rounds_a"]) == {OLD_ROUNDS}
    assert set(table["rounds_b"]) == {NEW_ROUNDS}
    assert table["estimate"].between(0.4, 0.6).all()  # the newer version takes twice as long


def test_lists_of_runs_have_those_of_all_versions(updated: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("runs", updated, monkeypatch, rows="100")
    assert f"{N_OLD + N_NEW}" in texts(app)
    assert {OLD, NEW} == set(queries.runs(engine.open_reader(updated), RunFilter())["software"])


def test_the_site_shows_the_newest_version_and_lists_all_runs(updated: URL, tmp_path: Path) -> None:
    study = load_study(project_root() / "config.yaml")
    written = publish(engine.open_reader(updated), study, "full", tmp_path / "site")
    figures = json.loads((tmp_path / "site" / "figures.json").read_text())
    assert figures
    assert all(set(LEFT_OUT.split("  \n")) <= set(figure["caption"]) for figure in figures)
    assert written.runs == N_OLD + N_NEW
