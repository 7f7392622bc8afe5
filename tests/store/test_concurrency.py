"""Concurrent access: writers wait for each other, readers for nobody."""

from __future__ import annotations

import multiprocessing
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, event, insert
from sqlalchemy.exc import IntegrityError, OperationalError

from tests.support.sample_runs import sample_runs
from tmflow.base.errors import BadInput
from tmflow.runfile import record
from tmflow.store import engine, models, queries, schema
from tmflow.store.ingest import ingest

WRITERS = 8
# A forked child would share the parent's connections; a spawned one starts clean, as another command does.
SPAWN = multiprocessing.get_context("spawn")


def ingest_files(url: URL, paths: list[Path]) -> int:
    return sum(ingest(url, [path]).runs_new for path in paths)


def test_a_database_that_is_created_while_its_state_is_read_is_not_damaged(url: URL) -> None:
    """The list of tables was read before the creation, and the revision after it: the tables seemed to be lost."""
    if engine.is_sqlite(url):
        engine.sqlite_path(url).parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(engine.sqlite_path(url))) as connection:
            connection.execute("PRAGMA journal_mode = WAL")  # as a writer sets it first
    reader, created = engine.reader_engine(url), []

    def create(*executed: Any) -> None:
        if not created and not executed[2].startswith("BEGIN"):
            created.append(True)
            schema.upgrade(url)

    event.listen(reader, "after_cursor_execute", create)
    try:
        assert engine.read_standing(url).kind == "empty"
    finally:
        event.remove(reader, "after_cursor_execute", create)
    assert created
    assert engine.read_standing(url).kind == "current"


def test_a_writer_waits_for_another_that_holds_a_file_without_a_write_ahead_log(
    sqlite: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite answers at once that the file is locked, whatever time it may wait, if this could be a deadlock."""
    path = engine.sqlite_path(sqlite)
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with closing(sqlite3.connect(path)) as impatient, pytest.raises(sqlite3.OperationalError, match="locked"):
            impatient.execute("PRAGMA journal_mode = WAL")
        monkeypatch.setattr(engine, "sleep", lambda _: other.rollback())  # the writer waits, so the other one ends
        assert schema.upgrade(sqlite).now == schema.head()
        assert not other.in_transaction


@pytest.mark.slow
def test_writers_at_once_all_succeed(url: URL, tmp_path: Path) -> None:
    """No database exists, so they also race to create it; one file is ingested by all."""
    shared = tmp_path / "shared.jsonl"
    record.write(shared, sample_runs(campaign="campaign-shared", rounds=1))
    jobs = []
    for writer in range(WRITERS):
        paths = [shared]
        for number in range(3):
            paths.append(tmp_path / f"{writer}-{number}.jsonl")
            record.write(paths[-1], sample_runs(campaign=f"campaign-{writer}-{number}", rounds=1))
        jobs.append((url, paths))
    with SPAWN.Pool(WRITERS) as pool:
        new = pool.starmap(ingest_files, jobs)
    per_file = len(sample_runs(rounds=1))
    assert sum(new) == (3 * WRITERS + 1) * per_file
    assert len(queries.runs(engine.open_reader(url))) == sum(new)
    assert schema.check(url).ok


def test_a_reader_does_not_wait_for_a_writer_nor_hold_it_up(url: URL, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    record.write(path, runs := sample_runs(rounds=1))
    ingest(url, [path])
    new = {"sha256": "f" * 64, "name": "x", "ingested_at_utc": "2026-01-01T00:00:00Z", "n_runs": 0}
    reader = engine.open_reader(url)
    with engine.open_writer(url).connect() as writing, reader.connect() as reading:
        writing.execute(insert(models.RunFile), new)
        assert len(queries.runs(reading)) == len(runs)
        assert len(queries.runs(reader)) == len(runs)
        before = queries.revision(reader)
        writing.commit()
        assert queries.revision(reading) != before
    assert queries.revision(reader) != before


def test_an_open_cursor_of_a_reader_does_not_hold_up_a_writer(url: URL, tmp_path: Path) -> None:
    for name in ("a", "b"):
        record.write(tmp_path / name, sample_runs(rounds=1, campaign=f"campaign-{name}"))
    ingest(url, [tmp_path / "a"])
    with engine.open_reader(url).connect() as reading:
        rows = reading.exec_driver_sql("SELECT uid FROM run")
        rows.fetchone()
        assert ingest(url, [tmp_path / "b"]).runs_new > 0
        rows.close()


def test_a_reader_cannot_write(url: URL) -> None:
    schema.upgrade(url)
    with (
        pytest.raises(Exception, match=r"readonly|read-only"),
        engine.open_reader(url).connect() as connection,
    ):
        connection.exec_driver_sql("DELETE FROM run")


def test_a_reader_of_sqlite_cannot_allow_itself_to_write(sqlite: URL) -> None:
    """Two things prevent it from writing: the setting of the connection, and the way the file is opened."""
    schema.upgrade(sqlite)
    with engine.open_reader(sqlite).connect() as connection:
        assert connection.exec_driver_sql("PRAGMA query_only").scalar_one() == 1
        connection.exec_driver_sql("PRAGMA query_only = OFF")
        with pytest.raises(OperationalError, match="readonly"):
            connection.exec_driver_sql("DELETE FROM run")


def test_a_writer_cannot_refer_to_what_is_not_there(url: URL) -> None:
    schema.upgrade(url)
    with pytest.raises(IntegrityError, match=r"(?i)foreign key"), engine.open_writer(url).begin() as connection:
        connection.execute(insert(models.RunAbort).values(run_id=1, reason_id=1, n=1))


def test_waiting_for_a_writer_has_an_end(url: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema.upgrade(url)
    record.write(tmp_path / "runs.jsonl", sample_runs(rounds=1))
    monkeypatch.setattr(engine, "WRITERS_WAIT_S", 1)
    with (
        engine.open_writer(url).begin(),
        pytest.raises(BadInput, match="is locked by another writer; try again"),
    ):
        ingest(url, [tmp_path / "runs.jsonl"])
    assert ingest(url, [tmp_path / "runs.jsonl"]).runs_new > 0


def test_who_waits_for_a_writer_says_so_and_then_goes_on(
    url: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a round's ingest next to an import of many runs. The other writer ends as soon as the message appears."""
    schema.upgrade(url)
    record.write(tmp_path / "runs.jsonl", sample_runs(rounds=1))
    monkeypatch.setattr(engine, "PATIENCE_S", 0.1)
    say = engine._print_waiting
    with engine.open_writer(url).connect() as other:
        held = other.begin()
        monkeypatch.setattr(engine, "_print_waiting", lambda arguments: (say(arguments), held.rollback()))
        assert ingest(url, [tmp_path / "runs.jsonl"]).runs_new == len(sample_runs(rounds=1))
    message = capsys.readouterr().err
    assert message.startswith("tmflow: another command writes to ")
    assert message.endswith("; waiting for it to end, at most 10 minutes.\n")
