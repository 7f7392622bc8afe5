"""An incompatible or damaged database is recognised and left unchanged."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import URL, create_engine

from tests.store.schemas import definitions
from tmflow.base.errors import BadInput
from tmflow.store import engine, schema
from tmflow.store.migrations import head


def test_check_reports_drift(url: URL) -> None:
    schema.upgrade(url)
    with engine.writer_engine(url).begin() as connection:
        connection.exec_driver_sql("ALTER TABLE spec DROP COLUMN pinning")
        connection.exec_driver_sql("DROP TABLE curve_point")
    state = schema.check(url)
    assert not state.ok
    assert any("lost tables (curve_point)" in problem for problem in state.problems)
    assert any(re.search("add_column .*spec.*pinning", problem) for problem in state.problems)
    with pytest.raises(BadInput, match=r"lost tables \(curve_point\)"):
        engine.open_reader(url)


def test_check_reports_a_broken_reference(sqlite: URL) -> None:
    schema.upgrade(sqlite)
    with sqlite3.connect(engine.sqlite_path(sqlite)) as connection:
        connection.execute("INSERT INTO campaign VALUES (1, 'campaign-1', '2026-01-01T00:00:00Z', 99)")
    assert schema.check(sqlite).problems == ("table campaign, row 1: the platform that it refers to does not exist",)


def test_check_reports_damage(sqlite: URL) -> None:
    schema.upgrade(sqlite)
    path = engine.sqlite_path(sqlite)
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO run_file VALUES (1, 'abcdef', 'round-001.jsonl', '2026-01-01T00:00:00Z', 0)")
    connection.close()
    # The hash is in the table and in its index; now they disagree.
    path.write_bytes(path.read_bytes().replace(b"abcdef", b"abcdeg", 1))
    assert any("damaged" in problem for problem in schema.check(sqlite).problems)


@pytest.mark.parametrize("opened", [engine.open_reader, engine.open_writer])
class TestUnusable:
    """Each kind of fault has a specific sentence, for readers and writers."""

    def test_missing(self, sqlite: URL, opened: type) -> None:
        with pytest.raises(BadInput, match=r"study\.db does not exist; `tmflow ingest` or"):
            opened(sqlite)
        assert not engine.sqlite_path(sqlite).exists()

    def test_empty(self, postgresql: URL, tmp_path: Path, opened: type) -> None:
        (tmp_path / "empty.db").touch()
        for url in (postgresql, engine.sqlite_url(tmp_path / "empty.db")):
            with pytest.raises(BadInput, match="has no tables yet; run `tmflow db upgrade`"):
                opened(url)

    def test_not_a_database(self, tmp_path: Path, opened: type) -> None:
        path = tmp_path / "notes.txt"
        path.write_text("not a database, however long this text may be" * 100)
        with pytest.raises(BadInput, match=r"notes\.txt is not a SQLite database"):
            opened(engine.sqlite_url(path))

    def test_a_folder(self, tmp_path: Path, opened: type) -> None:
        with pytest.raises(BadInput, match="is a folder; name a file"):
            opened(engine.sqlite_url(tmp_path))

    def test_unknown_revision(self, url: URL, opened: type) -> None:
        schema.upgrade(url)
        with engine.writer_engine(url).begin() as connection:
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
        for refusing in (opened, schema.upgrade, schema.require_usable):
            with pytest.raises(BadInput, match=f"revision 9999, which this tmflow .up to {head()}. does not know"):
                refusing(url)
        assert schema.check(url).revision == "9999"
        assert not schema.check(url).ok

    def test_somebody_else_s(self, url: URL, opened: type) -> None:
        if engine.is_sqlite(url):
            engine.sqlite_path(url).parent.mkdir()
        made = create_engine(url)
        with made.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE bookmarks (id INTEGER)")
        made.dispose()
        before = definitions(url) if engine.is_sqlite(url) else None
        for refusing in (opened, schema.upgrade, schema.require_usable):
            with pytest.raises(BadInput, match=r"tables that are not tmflow's \(bookmarks\)"):
                refusing(url)
        if before is not None:
            assert definitions(url) == before
            assert not list(engine.sqlite_path(url).parent.glob("*-wal"))

    def test_unreachable_server(self, opened: type) -> None:
        url = engine.parse("postgresql://someone:s3cret@127.0.0.1:1/study?password=s3cret")
        with pytest.raises(BadInput, match="cannot be reached") as caught:
            opened(url)
        assert "someone" in str(caught.value)
        assert "s3cret" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_upgrade_where_no_folder_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="cannot be created: folder"):
        schema.upgrade(engine.sqlite_url(tmp_path / "file" / "results" / "study.db"))
