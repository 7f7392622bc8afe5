"""Runs and Explore are filtered by campaign, software version and date; two campaigns of a machine are compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import opened, plain, texts
from sqlalchemy import URL
from streamlit.testing.v1 import AppTest

from tests.support.campaigns import EXPERIMENT, campaign, store
from tmflow.store.engine import sqlite_url

RUNS = 2 * 2 * 6  # of a campaign
EXPLORED = {"experiment": EXPERIMENT, "metric": "step_time"}
THIRD = "tmflow 0.1.0 at 0303030303"


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """Campaigns 1 to 3, of commits of their own; in the third, nolock takes twice as long."""
    folder = tmp_path_factory.mktemp("three")
    return store(sqlite_url(folder / "study.db"), folder, campaign(1), campaign(2), campaign(3, 2.0))


@pytest.fixture(scope="module")
def redefined(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """Campaign 1 of an older definition of the experiment, and campaign 2 of a newer one."""
    folder = tmp_path_factory.mktemp("redefined")
    return store(sqlite_url(folder / "study.db"), folder, campaign(1), campaign(2, threads=(1, 2, 4)))


def campaigns_listed(app: AppTest) -> set[str]:
    """The days of the campaigns of the runs listed, which are their numbers."""
    return {str(started)[8:10] for started in app.dataframe[0].value["started_at_utc"]}


@pytest.mark.parametrize(
    ("query", "days", "n"),
    [
        ({}, {"02", "03", "04"}, 3 * RUNS),
        ({"campaign": "campaign-1"}, {"02"}, RUNS),
        ({"campaign": ["campaign-1", "campaign-3"]}, {"02", "04"}, 2 * RUNS),
        ({"software": THIRD}, {"04"}, RUNS),
        ({"since": "2026-01-03"}, {"03", "04"}, 2 * RUNS),
        ({"until": "2026-01-03"}, {"02", "03"}, 2 * RUNS),
        ({"since": "2026-01-03", "until": "2026-01-03"}, {"03"}, RUNS),
        ({"since": "2026-01-03", "campaign": "campaign-3", "strategy": "lock"}, {"04"}, RUNS // 2),
    ],
)
def test_runs_are_those_of_the_campaigns_versions_and_days(
    query: dict[str, str | list[str]], days: set[str], n: int, three: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened("runs", three, monkeypatch, rows="100", **query)
    assert not app.warning
    assert campaigns_listed(app) == days
    assert f"**{n}** of {3 * RUNS} runs match:" in texts(app)


def test_a_choice_is_written_to_the_url(three: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("runs", three, monkeypatch)
    assert app.multiselect(key="campaign").options == [f"2026-01-0{n + 1} campaign-{n} ({RUNS})" for n in (1, 2, 3)]
    app.multiselect(key="campaign").select("campaign-2").run()
    assert app.query_params["campaign"] == "campaign-2"
    app.date_input(key="since").set_value("2026-01-03").run()
    assert (app.query_params["since"], app.query_params["campaign"]) == ("2026-01-03", "campaign-2")
    app.date_input(key="since").set_value(None).run()
    assert "since" not in app.query_params


@pytest.mark.parametrize("page", ["runs", "explore"])
@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"since": "yesterday"}, "the day 'yesterday', which is no date such as 2026-11-01"),
        ({"until": "2026-02-31"}, "the day '2026-02-31', which is no date"),
        ({"campaign": "<b>nope"}, "campaign '<b>nope', which is not here: showing all"),
        ({"software": "'; DROP TABLE run; --"}, "software version ''; DROP TABLE run; --', which is not here"),
    ],
)
def test_what_is_not_here_is_one_sentence_and_all_are_shown(
    page: str, query: dict[str, str], says: str, three: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened(page, three, monkeypatch, **query)
    (warning,) = app.warning
    assert says in plain(warning.value)
    assert len(app.dataframe) == 1


@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
def test_any_day_is_a_day(day: str, three: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("runs", three, monkeypatch, since=day, until=day)
    assert not app.error
    assert "None of the" in app.info[0].value


@pytest.mark.parametrize(
    ("query", "times"),
    [({}, 2.0), ({"campaign": "campaign-2"}, 1.0), ({"until": "2026-01-03"}, 1.0), ({"software": THIRD}, 2.0)],
)
def test_explore_shows_the_runs_of_the_campaign_or_the_days(
    query: dict[str, str], times: float, three: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those by an older version, which is then the version of the sample."""
    app = opened("explore", three, monkeypatch, **EXPLORED, **query)
    assert not app.warning
    shown = app.dataframe[0].value.set_index(["strategy", "threads"])
    assert shown.loc[("nolock", 1), "estimate"] == pytest.approx(100 * times, rel=0.05)
    assert set(shown["rounds"]) == {6}


@pytest.mark.parametrize(
    "query", [{"campaign": "campaign-1"}, {"until": "2026-01-02"}, {"software": "tmflow 0.1.0 at 0101010101"}]
)
def test_explore_shows_the_newest_definition_that_the_filter_leaves(
    query: dict[str, str], redefined: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(opened("explore", redefined, monkeypatch, **EXPLORED).dataframe[0].value["threads"]) == {1, 2, 4}
    older = opened("explore", redefined, monkeypatch, **EXPLORED, **query)
    assert set(older.dataframe[0].value["threads"]) == {1, 2}


def test_two_campaigns_of_a_machine_are_compared(three: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    sides = {"a.strategy": "nolock", "b.strategy": "nolock", "a.campaign": "campaign-2", "b.campaign": "campaign-3"}
    app = opened("compare", three, monkeypatch, **{"a.experiment": EXPERIMENT}, **sides)
    assert not app.warning
    assert app.multiselect(key="a.campaign").options == [f"2026-01-0{n + 1} campaign-{n}" for n in (1, 2, 3)]
    table = app.dataframe[0].value
    assert table["estimate"].to_numpy() == pytest.approx([0.5, 0.5], rel=0.05)
    assert set(table["rounds_a"]) == set(table["rounds_b"]) == {6}
    assert "Not paired" in texts(app)
    again = opened("compare", three, monkeypatch, **dict(app.query_params))
    assert not again.warning
    assert again.multiselect(key="b.campaign").value == ["campaign-3"]


def test_campaigns_of_one_version_are_called_by_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = campaign(1)
    software = first[0].software
    second = [run.model_copy(update={"software": software}) for run in campaign(2, 2.0)]
    url = store(sqlite_url(tmp_path / "study.db"), tmp_path, first, second)
    sides = {"a.strategy": "nolock", "b.strategy": "nolock", "a.campaign": "campaign-1", "b.campaign": "campaign-2"}
    app = opened("compare", url, monkeypatch, **{"a.experiment": EXPERIMENT}, **sides)
    assert "nolock of campaign campaign-2" in texts(app)


def test_one_campaign_leaves_nothing_to_choose_in_compare(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("compare", seeded, monkeypatch, **{"a.experiment": "softmax-batch-1"})
    assert not [box for box in app.multiselect if str(box.key).endswith("campaign")]
