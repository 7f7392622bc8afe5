"""The upload page: turned off, the token, the check, and the outcome."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from pages import opened, texts
from sqlalchemy import URL
from streamlit.testing.v1 import AppTest
from uploading import UPLOAD_TOKEN, actions, asked, click, give, quarantine_in

from tests.support.sample_bundles import sample_bundle
from tests.support.sample_runs import sample_runs
from tmflow.bundle.verify import verify
from tmflow.contributions import access as limits
from tmflow.contributions import access as rates
from tmflow.contributions import quarantine as listed
from tmflow.contributions import quarantine as place
from tmflow.contributions.access import Role
from tmflow.contributions.importer import import_bundle
from tmflow.contributions.quarantine import Quarantine
from tmflow.portal import uploads
from tmflow.store import engine


@pytest.fixture
def quarantine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Quarantine:
    return quarantine_in(tmp_path, monkeypatch)


@pytest.fixture
def page(quarantine: Quarantine, seeded: URL, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    """The page, after the token was entered."""
    return give(opened("contribute", seeded, monkeypatch), UPLOAD_TOKEN)


def bring(app: AppTest, name: str, content: bytes) -> AppTest:
    app.file_uploader[0].upload(name, content, "application/zip")
    return click(app, "Check and hand over")


@pytest.mark.parametrize(("token", "said"), [("", "takes no uploads"), ("short", "at least 16 are needed")])
def test_uploads_are_off_without_a_token_that_is_good(
    token: str, said: str, seeded: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(place.VARIABLE, str(tmp_path / "quarantine"))
    monkeypatch.setenv(Role.UPLOADER, token)
    app = opened("contribute", seeded, monkeypatch)
    assert said in texts(app)
    assert not asked(app)
    assert not app.file_uploader
    assert list(tmp_path.iterdir()) == []  # reading created nothing


def test_a_wrong_token_shows_no_uploader_and_is_written_down(
    quarantine: Quarantine, seeded: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened("contribute", seeded, monkeypatch)
    for _ in range(rates.WRONG_TOKENS.of_one):
        give(app, "not the right token")
        assert "this is not the token" in app.error[0].value
        assert not app.file_uploader
    give(app, UPLOAD_TOKEN)
    assert "too many wrong tokens" in app.error[0].value
    assert actions(quarantine) == [("token", "wrong")] * 5 + [("limit", "wrong tokens")]


def test_a_good_bundle_waits_and_its_report_is_shown(quarantine: Quarantine, page: AppTest, tmp_path: Path) -> None:
    bundle = sample_bundle(tmp_path / "made")
    assert not page.error
    bring(page, "mine **b**.zip", bundle.read_bytes())
    assert "27 runs, all of them new" in page.success[0].value
    assert "waits for a maintainer" in page.success[0].value
    (counts,) = [table.value for table in page.dataframe if "new" in table.value]
    assert counts[["experiment", "new", "known"]].to_numpy().tolist() == [["fig_4_1", 27, 0]]
    assert "27 runs of synthetic test machine" in texts(page)
    assert "- error" not in texts(page)
    (upload,) = listed.waiting(quarantine)
    assert (upload.identity, upload.name) == (verify(bundle).identity, "mine **b**.zip")
    assert actions(quarantine) == [("token", "right"), ("receive", "begun"), ("upload", "staged"), ("report", "shown")]
    bring(page, "again.zip", bundle.read_bytes())
    assert "waits for a maintainer already" in page.info[0].value


def test_known_runs_are_told_and_do_not_wait(
    quarantine: Quarantine, page: AppTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = sample_bundle(tmp_path / "made", probe=None)
    url = engine.sqlite_url(tmp_path / "study.db")
    import_bundle(url, bundle)
    monkeypatch.setenv(engine.VARIABLE, url.render_as_string())
    part = [run for run in sample_runs() if run.spec.strategy == "stm"]
    bring(page, "part.zip", sample_bundle(tmp_path / "part", part, probe=None).read_bytes())
    assert "9 runs, all of them known already" in page.info[0].value
    assert listed.waiting(quarantine) == []


def test_problems_are_listed_and_nothing_is_kept(quarantine: Quarantine, page: AppTest, tmp_path: Path) -> None:
    bundle = tmp_path / "old.zip"  # of run files without a manifest
    with zipfile.ZipFile(bundle, "w") as file:
        file.writestr("round-001.jsonl", '{"uid": "**evil** ![x](http://evil.example)"}\n' * 30)
    bring(page, "old.zip", bundle.read_bytes())
    assert "30 errors" in page.error[0].value
    assert "- error: round-001.jsonl, line 1" in texts(page)
    assert re.search(r"and 1\d more", texts(page))  # of 30 errors, and notes
    assert "![x](http" not in "".join(element.value for element in page.markdown)
    assert listed.waiting(quarantine) == []
    assert actions(quarantine)[-2:] == [("upload", "refused"), ("report", "shown")]


def test_a_file_that_is_too_large_or_none_is_told(
    quarantine: Quarantine, page: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "UPLOAD_MIB", 1)
    click(page, "Check and hand over")
    assert page.warning[0].value == "Choose a file first."
    bring(page, "large.zip", bytes(2 * limits.MIB))
    assert "larger than 1 MiB" in page.error[0].value


def test_a_check_that_takes_too_long_is_ended(
    quarantine: Quarantine, page: AppTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CHECK_S", 0.05)
    bring(page, "slow.zip", sample_bundle(tmp_path / "made").read_bytes())
    assert "took more than 0.05 s and was ended" in page.error[0].value
    assert listed.waiting(quarantine) == []
    assert ("upload", "ended") in actions(quarantine)


def test_too_many_uploads_are_told(quarantine: Quarantine, page: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "UPLOADS", rates.UPLOADS._replace(of_one=0))
    bring(page, "one.zip", b"x")
    assert "too many uploads" in page.error[0].value


@pytest.mark.parametrize(
    ("connection", "header", "address"),
    [
        ("192.0.2.1", "", "192.0.2.1"),
        ("192.0.2.1", "192.0.2.9", "192.0.2.1"),  # from another address the header is not trusted
        (None, "192.0.2.9, 2001:db8::1", "2001:db8::1"),  # a local proxy appends the address that it saw
        (None, "", uploads.HERE),
        (None, "everybody", uploads.HERE),
    ],
)
def test_a_visitor_is_known_by_the_address_that_cannot_be_made_up(
    connection: str | None, header: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = SimpleNamespace(ip_address=connection, headers={"X-Forwarded-For": header})
    monkeypatch.setattr(uploads.st, "context", seen)
    assert uploads.visitor() == address
