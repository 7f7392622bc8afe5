"""The maintainer's page: its token, the report before any button, and the outcome of a decision."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import opened, plain, texts
from sqlalchemy import URL
from streamlit.testing.v1 import AppTest
from uploading import MAINTAINER_TOKEN, UPLOAD_TOKEN, actions, asked, click, give, quarantine_in

from tests.support.sample_bundles import sample_bundle
from tests.support.sample_runs import sample_runs
from tmflow.contributions import quarantine as listed
from tmflow.contributions import staging
from tmflow.contributions.access import Role
from tmflow.contributions.importer import import_bundle
from tmflow.contributions.quarantine import Quarantine
from tmflow.runfile.record import Run
from tmflow.store import engine, queries, schema

NAME = "mine **b** :smile:.zip"


@pytest.fixture
def quarantine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Quarantine:
    return quarantine_in(tmp_path, monkeypatch)


@pytest.fixture
def study(tmp_path: Path) -> URL:
    """An empty database to import into."""
    url = engine.sqlite_url(tmp_path / "study.db")
    schema.upgrade(url)
    return url


def bundle(folder: Path, runs: list[Run] | None = None) -> Path:
    return sample_bundle(folder, runs, probe=None)


def page(quarantine: Quarantine, study: URL, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    """The page with a waiting bundle, after the token was entered."""
    with bundle(folder / "made").open("rb") as source:
        assert staging.stage(quarantine, source, NAME, "192.0.2.1", study).outcome == "staged"
    return give(opened("quarantine", study, monkeypatch), MAINTAINER_TOKEN)


def wait_too(quarantine: Quarantine, folder: Path, campaign: str) -> str:
    """The identity of another bundle that now waits."""
    with bundle(folder / campaign, sample_runs(campaign=campaign)).open("rb") as source:
        staged = staging.stage(quarantine, source, NAME, "192.0.2.2", engine.sqlite_url(folder / "study.db"))
    assert staged.outcome == "staged"
    assert staged.report.identity
    return staged.report.identity


def outcomes(quarantine: Quarantine) -> list[tuple[str, str, str]]:
    """Action, outcome and identity of each recorded decision."""
    rows = listed.audit(quarantine, 1000)
    return [(row["action"], row["outcome"], row["identity"]) for row in rows if row["action"] in ("accept", "reject")]


def uids(study: URL) -> set[str]:
    return set(queries.runs(engine.open_reader(study))["uid"])


def test_without_a_token_of_its_own_the_page_names_the_commands(
    quarantine: Quarantine, study: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(Role.MAINTAINER)
    app = opened("quarantine", study, monkeypatch)
    assert "tmflow bundle waiting" in app.info[0].value
    monkeypatch.setenv(Role.MAINTAINER, UPLOAD_TOKEN)
    assert "is the same as" in plain(opened("quarantine", study, monkeypatch).warning[0].value)
    assert not asked(app)


def test_the_token_of_uploads_opens_nothing(
    quarantine: Quarantine, study: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = give(opened("quarantine", study, monkeypatch), UPLOAD_TOKEN)
    assert "this is not the token" in app.error[0].value
    assert not [button for button in app.button if button.label.startswith(("Accept", "Reject"))]
    assert actions(quarantine) == [("token", "wrong")]


def test_the_report_is_there_and_the_bundle_is_accepted(
    quarantine: Quarantine, study: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = page(quarantine, study, tmp_path, monkeypatch)
    assert f"as {NAME} from 192.0.2.1" in texts(app)
    assert "**b**" not in "".join(element.value for element in app.markdown)
    assert "The check" in texts(app)
    assert uids(study) == set()
    click(app, "Accept")
    assert "27 runs stored, 0 known" in plain(app.success[0].value)
    assert uids(study) == {run.uid for run in sample_runs()}
    assert listed.waiting(quarantine) == []
    assert not [button for button in app.button if button.label.startswith("Accept")]
    assert actions(quarantine) == [
        ("upload", "staged"), ("token", "right"), ("report", "shown"), ("accept", "accepted"),
    ]  # fmt: skip


def test_what_accepting_would_change_is_shown_before(
    quarantine: Quarantine, study: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_bundle(study, bundle(tmp_path / "part", [run for run in sample_runs() if run.spec.strategy == "stm"]))
    app = click(page(quarantine, study, tmp_path, monkeypatch), "See what would change")
    assert "27 runs: 18 new, 9 known already." in texts(app)
    (counts,) = [table.value for table in app.dataframe if "known" in table.value]
    assert counts.to_dict("records") == [
        {"experiment": "fig_4_1", "scale": "full", "strategies": 3, "new": 18, "known": 9, "differing": 0}
    ]
    assert "Speedup" in texts(app)
    assert len(app.get("vega_lite_chart")) == 1


def test_a_bundle_is_rejected_for_a_reason(
    quarantine: Quarantine, study: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = page(quarantine, study, tmp_path, monkeypatch)
    click(app, "Reject")
    assert "a rejection needs a reason" in app.error[0].value
    next(field for field in app.text_input if field.label == "Reason for rejecting").set_value("no such machine")
    click(app, "Reject")
    assert "was rejected" in app.success[0].value
    assert listed.waiting(quarantine) == []
    assert uids(study) == set()


def test_of_a_conflict_both_versions_are_shown(
    quarantine: Quarantine, study: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sample_runs()[0].model_copy(update={"setup_s": 0.2})
    import_bundle(study, bundle(tmp_path / "stored", [run]))
    app = page(quarantine, study, tmp_path, monkeypatch)
    click(app, "Accept")
    assert "differs from the run of the same uid" in plain(app.error[0].value)
    assert uids(study) == {run.uid}
    click(app, "Compare with the database")
    table = next(table.value for table in app.dataframe if "bundle" in table.value)
    assert table.to_dict("records") == [{"field": "setup_s", "bundle": "0.25", "database": "0.2"}]


def test_a_database_that_cannot_be_used_is_told_and_the_bundle_waits_on(
    quarantine: Quarantine, study: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = page(quarantine, study, tmp_path, monkeypatch)
    (tmp_path / "study.db").write_text("not a database " * 100)
    click(app, "Accept")
    assert "is not a SQLite database" in plain(app.error[0].value)
    assert {button.label.split()[0] for button in app.button} >= {"Accept", "Reject"}
    assert len(listed.waiting(quarantine)) == 1
    assert actions(quarantine)[-1] == ("accept", "refused")


@pytest.mark.parametrize(("decision", "outcome"), [("Accept", "accepted"), ("Reject", "rejected")])
def test_a_decision_is_on_the_bundle_whose_report_was_shown_whatever_came_since(
    decision: str, outcome: str, quarantine: Quarantine, study: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest = wait_too(quarantine, tmp_path, "oldest")
    app = page(quarantine, study, tmp_path, monkeypatch)
    (chosen,) = {upload.identity for upload in listed.waiting(quarantine)} - {oldest}
    app.selectbox[0].select(chosen).run()
    assert f"identity {chosen}" in texts(app)
    wait_too(quarantine, tmp_path, "later")
    (button,) = [button for button in app.button if button.label.startswith(decision)]
    next(field for field in app.text_input if field.label == "Reason for rejecting").set_value("no such machine")
    button.click().run(timeout=60)
    assert not app.exception
    assert outcomes(quarantine) == [(decision.lower(), outcome, chosen)]
    assert chosen not in {upload.identity for upload in listed.waiting(quarantine)}
    assert chosen[:12] in button.label


def test_a_click_on_a_page_that_is_behind_is_refused_and_written_down(
    quarantine: Quarantine, study: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has shown another report meanwhile, but the browser has not drawn it yet."""
    shown = wait_too(quarantine, tmp_path, "first")
    app = page(quarantine, study, tmp_path, monkeypatch)
    (other,) = {upload.identity for upload in listed.waiting(quarantine)} - {shown}
    behind = next(button for button in app.button if button.label.startswith("Reject"))
    next(field for field in app.text_input if field.label == "Reason for rejecting").set_value("no such machine")
    app.selectbox[0].select(other).run()
    behind.click().run(timeout=60)
    assert not app.exception
    assert f"Nothing was done to bundle {shown}" in plain(app.error[0].value)
    assert outcomes(quarantine) == [("reject", "refused", shown)]
    (refused,) = [row for row in listed.audit(quarantine, 1000) if row["outcome"] == "refused"]
    assert other in refused["details"]
    assert len(listed.waiting(quarantine)) == 2
