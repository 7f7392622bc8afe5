"""The page "Trends": change points with their commits, a comparison of few campaigns, and what to do with one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pages import commands, opened, plain, texts
from sqlalchemy import URL
from streamlit.testing.v1 import AppTest

from tests.support.campaigns import EXPERIMENT, campaign, campaigns_with_a_step, store
from tests.support.sample_runs import FULL, PLATFORM
from tmflow.analysis import trends
from tmflow.charts import trends as chart
from tmflow.portal.pages.trends import _json
from tmflow.store import campaign_queries, engine
from tmflow.store.engine import sqlite_url

N, AT = 8, 5


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """Campaigns 1 to 8; from the fifth on, nolock is slower."""
    return campaigns_with_a_step(tmp_path_factory.mktemp("many"), N, AT)


def drawn(app: AppTest) -> Mapping[str, Any]:
    (element,) = app.get("vega_lite_chart")
    spec: Mapping[str, Any] = json.loads(element.proto.spec)
    return spec


def rules(spec: Mapping[str, Any]) -> list[str]:
    """The texts of the marked rules."""
    return [layer["mark"]["text"] for layer in spec["layer"] if layer["mark"].get("angle") == 270]


def test_a_step_is_a_marked_rule_with_its_commits_in_words(many: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("trends", many, monkeypatch)
    assert not app.warning
    assert not app.info
    assert app.selectbox(key="experiment").value == EXPERIMENT
    assert app.selectbox(key="strategy").value == "nolock"
    assert rules(drawn(app)) == ["worse: 1 and 2 workers"]
    commits = "commits 0404040404..0505050505 (campaigns of 2026-01-05 and 2026-01-06)"
    assert texts(app).count(commits) == 2
    numbers, changes = (element.value for element in app.dataframe)
    assert len(numbers) == 2 * N
    assert set(numbers["software"]) == {f"tmflow 0.1.0 at {f'{day:02}' * 5}" for day in range(1, N + 1)}
    assert list(changes["workers"]) == ["1 worker", "2 workers"]
    assert set(changes["verdict"]) == {"worse"}
    assert changes["change"].to_numpy() == pytest.approx(1 / 1.4, rel=0.03)
    assert set(changes["between"]) == {commits}


def test_a_measure_without_a_change_has_none(many: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("trends", many, monkeypatch, metric="accuracy", strategy="lock")
    assert rules(drawn(app)) == []
    assert "No change point" in texts(app)
    assert len(app.dataframe) == 1
    slower = opened("trends", many, monkeypatch, metric="step_time")
    assert rules(drawn(slower)) == ["worse: 1 and 2 workers"]


def test_a_choice_is_in_the_url_and_a_link_opens_it_again(many: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("trends", many, monkeypatch)
    app.selectbox(key="metric").select("accuracy").run()
    app.multiselect(key="threads").select("2").run()
    assert not app.exception
    assert (app.query_params["metric"], app.query_params["threads"]) == ("accuracy", "2")
    again = opened("trends", many, monkeypatch, **dict(app.query_params))
    assert not again.warning
    assert set(again.dataframe[0].value["threads"]) == {2}
    assert "Test accuracy over campaigns" in texts(again)


def test_few_campaigns_have_no_detector_and_the_newest_two_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened("trends", campaigns_with_a_step(tmp_path, 3, 3), monkeypatch)
    (info,) = app.info
    assert "has 3 campaigns here. Change points are looked for from 6 on" in plain(info.value)
    said = texts(app)
    assert "2 workers: speed relative to the lock 0.7" in said
    assert "worse; commits 0202020202..0303030303 (campaigns of 2026-01-03 and 2026-01-04)" in said
    assert rules(drawn(app)) == []


def test_one_campaign_says_how_to_measure_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("trends", campaigns_with_a_step(tmp_path, 1, 1), monkeypatch)
    assert "has one campaign here, so there is no trend yet" in plain(app.info[0].value)
    assert commands(app) == [f".venv/bin/tmflow study run {EXPERIMENT} --fresh"]
    assert len(app.get("vega_lite_chart")) == 1


def test_without_measured_runs_at_full_scale_it_says_what_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = store(sqlite_url(tmp_path / "study.db"), tmp_path, campaign(1, scale="quick"))
    app = opened("trends", url, monkeypatch)
    assert "No run was measured at full scale" in app.info[0].value
    assert commands(app) == ["make study"]


def test_a_measure_that_no_run_has_is_one_sentence(many: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("trends", many, monkeypatch, metric="lost")
    (info,) = app.info
    assert "has this measure: choose another" in plain(info.value)
    assert not app.get("vega_lite_chart")


def test_the_experiment_with_the_most_campaigns_is_shown_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [campaign(1, experiment="fig-4.1"), *(campaign(day, experiment="later") for day in (2, 3))]
    app = opened("trends", store(sqlite_url(tmp_path / "study.db"), tmp_path, *parts), monkeypatch)
    assert app.selectbox(key="experiment").value == "later"


def test_lost_updates_and_other_factors_are_parts_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [
        campaign(day, strategies=[{"strategy": "nolock", "batch": batch} for batch in (1, 10)], **FULL)
        for day in (1, 2)
    ]
    app = opened("trends", store(sqlite_url(tmp_path / "study.db"), tmp_path, *parts), monkeypatch, metric="lost")
    assert app.selectbox(key="part").options == ["nolock, batch 1", "nolock, batch 10"]
    app.selectbox(key="part").select("nolock, batch 10").run()
    assert app.query_params["part"] == "nolock, batch 10"
    assert "batch 10" in drawn(app)["description"] or "batch 10" in texts(app)


def test_hostile_names_are_shown_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "<script>alert(1)</script> $x$ [a](b)"
    platform = PLATFORM | {"cpu_model": "**<b>=HYPERLINK()"}
    parts = [campaign(day, experiment=name, platform=platform) for day in (1, 2)]
    url = store(sqlite_url(tmp_path / "study.db"), tmp_path, *parts)
    app = opened("trends", url, monkeypatch)
    assert name in texts(app)
    assert not any("<script>" in element.value for element in (*app.markdown, *app.caption, *app.info, *app.subheader))
    wrong = opened("trends", url, monkeypatch, experiment="<img src=x>", metric="'; DROP TABLE run; --")
    assert len(wrong.warning) == 2
    assert not wrong.exception


def test_the_json_has_the_campaigns_and_the_estimates(many: URL) -> None:
    runs, full = campaign_queries.tracked_runs(engine.open_reader(many))
    panel = trends.series(runs, full, "speed_ratio")
    first, *others = json.loads(_json(panel))
    assert len(others) == 2 * N - 1
    assert (first["place"], first["campaign_uid"], first["git_commit"]) == (0, "campaign-1", "01" * 20)
    assert first["low"] < first["estimate"] < first["high"]
    changes = [change for point in trends.points(panel) for change in trends.change_points(point)]
    figure = chart.draw(panel, changes, "rev", "nolock")
    assert figure.file("svg").startswith(b"<svg")
    assert len(figure.file("csv").splitlines()) == 1 + 2 * N
