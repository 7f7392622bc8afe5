"""A copy of the database contains one complete state, whatever happens to the original meanwhile."""

from __future__ import annotations

import resource
import shutil
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.support.sample_runs import sample_runs
from tmflow.base.errors import BadInput
from tmflow.runfile import record
from tmflow.store import engine, queries, schema
from tmflow.store.engine import parse, sqlite_url
from tmflow.store.ingest import ingest
from tmflow.store.schema import snapshot


def ingested(folder: Path, name: str = "one") -> None:
    path = folder / f"{name}.jsonl"
    record.write(path, sample_runs((name,), ("lock",), (1, 2), 2, campaign=f"campaign-{name}"))
    ingest(sqlite_url(folder / "study.db"), [path])


def test_the_copy_has_what_is_still_in_the_log_and_needs_no_other_file(tmp_path: Path) -> None:
    ingested(tmp_path)
    url, copy = sqlite_url(tmp_path / "study.db"), tmp_path / "copies" / "copy.db"
    with engine.open_writer(url).connect() as writer:  # while one is open, the log is not written back
        ingested(tmp_path, "two")
        assert (tmp_path / "study.db-wal").stat().st_size > 0
        writer.execute(text("DELETE FROM lost_update"))  # not committed
        assert snapshot(url, copy) == copy.stat().st_size
    assert queries.revision(engine.open_reader(sqlite_url(copy))) == queries.revision(engine.open_reader(url))
    assert schema.check(sqlite_url(copy)).ok
    assert [path.name for path in copy.parent.iterdir()] == ["copy.db"]
    with sqlite3.connect(copy) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_an_older_copy_is_replaced_and_whoever_reads_it_keeps_what_it_reads(tmp_path: Path) -> None:
    ingested(tmp_path)
    url, copy = sqlite_url(tmp_path / "study.db"), tmp_path / "copy.db"
    snapshot(url, copy)
    with engine.open_reader(sqlite_url(copy)).connect() as reader:
        before = queries.revision(reader)
        ingested(tmp_path, "two")
        snapshot(url, copy)
        assert queries.revision(reader) == before
    assert queries.revision(engine.open_reader(sqlite_url(copy))) != before


def test_what_cannot_be_copied_or_written_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "study.db")
    with pytest.raises(BadInput, match="does not exist"):
        snapshot(url, tmp_path / "copy.db")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "copy.db").write_text("older")
    with pytest.raises(BadInput, match=r"study\.db does not exist"):
        snapshot(url, tmp_path / "copy.db")
    (tmp_path / "copy.db").unlink()
    ingested(tmp_path)
    with pytest.raises(BadInput, match="the database itself"):
        snapshot(url, tmp_path / "study.db")
    with pytest.raises(BadInput, match="only a SQLite file"):
        snapshot(parse("postgresql://nobody@localhost/none"), tmp_path / "copy.db")
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be written"):
        snapshot(url, tmp_path / "file" / "copy.db")
    shutil.copy(tmp_path / "one.jsonl", tmp_path / "other.db")
    with pytest.raises(BadInput):
        snapshot(sqlite_url(tmp_path / "other.db"), tmp_path / "copy.db")
    assert not list(tmp_path.glob("copy.db*"))


def test_a_copy_for_which_there_is_no_room_is_one_sentence_and_leaves_what_was_there(tmp_path: Path) -> None:
    ingested(tmp_path)
    copy = tmp_path / "copies" / "copy.db"
    copy.parent.mkdir()
    copy.write_text("before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, limits[1]))  # bytes of a file: the disk of this process
    try:
        with pytest.raises(BadInput, match=r"copy\.db cannot be written: .*; the previous file is kept\.$"):
            snapshot(sqlite_url(tmp_path / "study.db"), copy)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in copy.parent.iterdir()] == ["copy.db"]
    assert copy.read_text() == "before"


def test_a_database_that_is_being_written_is_not_replaced(tmp_path: Path) -> None:
    ingested(tmp_path)
    (tmp_path / "other").mkdir()
    ingested(tmp_path / "other")
    other = sqlite_url(tmp_path / "other" / "study.db")
    with engine.open_writer(other).connect():
        ingested(tmp_path / "other", "two")
        with pytest.raises(BadInput, match="is a database in use"):
            snapshot(sqlite_url(tmp_path / "study.db"), tmp_path / "other" / "study.db")
    assert schema.check(other).ok
