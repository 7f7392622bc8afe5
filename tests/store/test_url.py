"""The choice of the database, and its name in messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tmflow.base.errors import BadInput
from tmflow.store import engine


@pytest.mark.parametrize("empty", [None, ""])
def test_the_default_is_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, empty: str | None) -> None:
    monkeypatch.delenv("TMFLOW_DB_URL", raising=False)
    if empty is not None:
        monkeypatch.setenv("TMFLOW_DB_URL", empty)
    url = engine.url_from_env(tmp_path / "study.db")
    assert engine.is_sqlite(url)
    assert engine.sqlite_path(url) == tmp_path / "study.db"
    assert engine.shown(url) == f"database {tmp_path / 'study.db'}"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_spelling_of_postgresql_uses_the_one_driver(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    monkeypatch.setenv("TMFLOW_DB_URL", f"{scheme}://someone:s3cret@host:5433/study?password=s3cret")
    url = engine.url_from_env(Path("unused"))
    assert url.drivername == "postgresql+psycopg"
    assert engine.shown(url) == "database postgresql://someone:***@host:5433/study"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("s3cret", "TMFLOW_DB_URL is not a database URL; allowed: sqlite:///"),
        ("postgresql://user:s3cret@host:many/study", "TMFLOW_DB_URL is not a database URL"),
        ("sqlitee:///x.db", "unknown kind of database in TMFLOW_DB_URL 'sqlitee' .did you mean 'sqlite'"),
        (
            "mysql://user:s3cret@host/study",
            "unknown kind of database in TMFLOW_DB_URL 'mysql'; valid: postgres, postgresql,",
        ),
        ("sqlite://", "names no SQLite file"),
        ("sqlite:///:memory:", "names no SQLite file"),
        ("sqlite:///x.db?mode=ro", "names no SQLite file; allowed: .*without options"),
    ],
)
def test_wrong_urls(monkeypatch: pytest.MonkeyPatch, text: str, says: str) -> None:
    monkeypatch.setenv("TMFLOW_DB_URL", text)
    with pytest.raises(BadInput, match=says) as caught:
        engine.url_from_env(Path("unused"))
    assert "s3cret" not in str(caught.value)
