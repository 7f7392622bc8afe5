"""Every page for every kind of database: it shows what is available, and never a traceback."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pages import opened, plain, texts
from sqlalchemy import URL

from tmflow.portal.figure_view import column_width
from tmflow.store import engine, schema
from tmflow.store.schema import snapshot

# All pages that read the database; the method page uses only the docs.
PAGES = ["overview", "figures", "explore", "compare", "advise", "trends", "claims", "platforms", "runs", "contribute"]


@pytest.mark.parametrize("page", PAGES)
def test_every_page_shows_the_seeded_database(page: str, seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(page, seeded, monkeypatch)
    assert not app.error
    assert not app.warning
    assert len(app.main) > 2


# Add your hardware needs no run: it has tests of its own.
OF_RUNS = [page for page in PAGES if page != "contribute"]


@pytest.mark.parametrize("page", OF_RUNS)
def test_without_a_database_every_page_says_what_to_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened(page, f"sqlite:///{tmp_path}/missing.db", monkeypatch)
    assert "There are no results yet" in app.info[0].value
    assert "make quick" in texts(app)
    assert list(tmp_path.iterdir()) == []  # reading created nothing


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> URL:
    url = engine.sqlite_url(tmp_path_factory.mktemp("empty") / "empty.db")
    schema.upgrade(url)
    return url


@pytest.mark.parametrize("page", OF_RUNS)
def test_an_empty_database_says_what_to_run(page: str, empty: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(page, empty, monkeypatch)
    assert "holds no run" in app.info[0].value
    assert "make quick" in texts(app)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("url", ["mysql://u:secret@host/db", "sqlite:///{folder}/broken.db"])
def test_an_unusable_database_is_one_sentence(
    page: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.db").write_text("not a database " * 100)
    app = opened(page, url.format(folder=tmp_path), monkeypatch)
    (error,) = app.error
    said = plain(error.value)
    assert said.endswith(".")
    assert "\n" not in said
    assert "secret" not in said


@pytest.mark.parametrize("page", ["explore", "compare", "runs"])
def test_a_database_that_fails_in_the_middle_of_a_page_is_one_sentence(
    page: str, seeded: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.db"
    snapshot(seeded, broken)
    with closing(sqlite3.connect(broken)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'run'").fetchone()
    with broken.open("r+b") as file:  # the readable part, without the runs
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
    app = opened(page, f"sqlite:///{broken}", monkeypatch)
    (error,) = app.error
    assert plain(error.value) == f"database {broken} cannot be used: database disk image is malformed."


@pytest.mark.parametrize("page", PAGES)
def test_only_runs_without_a_result_are_shown_as_what_they_are(
    page: str, without_result: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened(page, without_result, monkeypatch)
    assert not app.error
    said = [warning.value for warning in app.warning]
    assert [text for text in said if not text.startswith("**No run here has a result**")] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_page_shows_what_is_beyond_the_study(page: str, beyond: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(page, beyond, monkeypatch, **({} if page == "overview" else {"experiment": "beyond"}))
    assert not app.error
    assert not app.warning


def test_a_column_of_names_is_as_wide_as_the_longest_up_to_a_limit() -> None:
    assert (
        column_width([])
        < column_width(["lock"])
        < column_width(["lock", "lock_pthread"])
        == column_width(["lock_pthread"])
    )
    assert column_width(["htm", "x" * 500]) == column_width(["y" * 400])
