"""Connections to the database: one writer at a time, and readers that can never hold a writer up."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import Timer
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event

from tmflow.base.errors import BadInput
from tmflow.store.revision import require_current
from tmflow.store.url import explain_errors, is_sqlite, shown, sqlite_path, sqlite_url, url_from_env

__all__ = [
    "may_exist",
    "open_reader",
    "open_writer",
    "reader_engine",
    "require_file",
    "sqlite_url",
    "url_from_env",
    "writer_engine",
]

# An import of a million runs, all or nothing, writes for minutes. What was killed holds no lock: nobody waits for that.
WRITERS_WAIT_S = 600
PATIENCE_S = 5  # after so long they say that they wait
READERS_WAIT_S = 60  # for the moments in which SQLite locks readers out, too
_WRITER_LOCK = 0x746D666C6F77  # "tmflow": the key of PostgreSQL's advisory lock, an arbitrary number
# Room for the pages of the indexes by uid and hash, which are written in no order: SQLite has 2 MB if it is not told.
WRITER_CACHE_KIB = 64 << 10


def open_writer(url: URL) -> Engine:
    """An engine whose every transaction is the only writing one, from its first statement on.

    Raises BadInput if the database is missing, unreachable, not a tmflow database or of another revision.
    """
    _require_current(url)
    return writer_engine(url)


def open_reader(url: URL) -> Engine:
    """An engine that can only read, sees committed data, and blocks no writer. Raises as `open_writer` does."""
    _require_current(url)
    return reader_engine(url)


def writer_engine(url: URL) -> Engine:
    """As `open_writer`, without looking at the database; a missing SQLite file is created on the first use."""
    if is_sqlite(url):
        engine = _sqlite_engine(url, _read_write_uri, WRITERS_WAIT_S)
        event.listen(engine, "connect", _set_up_sqlite_writer)
        event.listen(engine, "begin", _begin_immediate)
    else:
        engine = _postgresql_engine(url, f"-c lock_timeout={WRITERS_WAIT_S}s")
        event.listen(engine, "begin", _take_writer_lock)
    return engine


@lru_cache(maxsize=8)
def reader_engine(url: URL) -> Engine:
    """As `open_reader`, without looking at the database.

    The same for the same URL, as it remembers what it made of each question; its connections are new each time.
    """
    if is_sqlite(url):
        engine = _sqlite_engine(url, _read_only_uri, READERS_WAIT_S)
        event.listen(engine, "connect", _set_up_sqlite_reader)
        return engine
    # Autocommit: no transaction stays open behind a page, so none can hold up a migration.
    engine = _postgresql_engine(url, "-c default_transaction_read_only=on")
    return engine.execution_options(isolation_level="AUTOCOMMIT")


def require_file(url: URL) -> None:
    """Raise BadInput if the URL is that of a SQLite file which does not exist."""
    if not may_exist(url):
        raise BadInput(f"{shown(url)} does not exist; `tmflow ingest` or `tmflow db upgrade` makes it.")


def may_exist(url: URL) -> bool:
    """False for a SQLite file that is not there. Raises BadInput if this user may not look, or if it is a folder."""
    if not is_sqlite(url):
        return True
    path = sqlite_path(url)
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise BadInput(f"{shown(url)} cannot be opened: {error.strerror}.") from error
    if stat.S_ISDIR(mode):
        raise BadInput(f"{shown(url)} is a folder; name a file, such as {path / 'study.db'}.")
    return True


def _require_current(url: URL) -> None:
    # A reader looks: a writer would change the journal mode of a file that is not ours.
    require_file(url)
    with explain_errors(url), reader_engine(url).connect() as connection:
        require_current(connection)


def _sqlite_engine(url: URL, uri: Callable[[Path], str], wait_s: float) -> Engine:
    engine = create_engine(url, poolclass=NullPool)

    # SQLAlchemy's own connection strings cannot decide anew at each connection, as a reader must.
    @event.listens_for(engine, "do_connect")
    def connect(*_: Any) -> sqlite3.Connection:
        return sqlite3.connect(
            uri(sqlite_path(url)),
            uri=True,
            timeout=wait_s,
            check_same_thread=False,
            isolation_level=None,  # transactions begin where SQLAlchemy says, not where the driver guesses
        )

    return engine


def _postgresql_engine(url: URL, options: str) -> Engine:
    # No pool here either: whoever opens an engine need not think of closing it.
    return create_engine(url, poolclass=NullPool, connect_args={"options": options, "connect_timeout": 10})


def _set_up_sqlite_writer(connection: sqlite3.Connection, _: object) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA cache_size = -{WRITER_CACHE_KIB}")


def _set_up_sqlite_reader(connection: sqlite3.Connection, _: object) -> None:
    connection.execute("PRAGMA query_only = ON")


def _begin_immediate(connection: Connection) -> None:
    # A deferred BEGIN takes the lock at the first write, too late to wait for another writer.
    with _told_if_it_waits(connection.engine.url):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _take_writer_lock(connection: Connection) -> None:
    with _told_if_it_waits(connection.engine.url):
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITER_LOCK})")


@contextmanager
def _told_if_it_waits(url: URL) -> Iterator[None]:
    timer = Timer(PATIENCE_S, _say_that_it_waits, [url])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _say_that_it_waits(url: URL) -> None:
    told = f"another command writes to {shown(url)}; waiting for it to end, at most {WRITERS_WAIT_S // 60} minutes."
    print(f"tmflow: {told}", file=sys.stderr, flush=True)


def _read_write_uri(path: Path) -> str:
    if path.exists() and not os.access(path, os.W_OK):
        # What SQLite says too, but only at the first change, when a long study may be over.
        raise sqlite3.OperationalError("attempt to write a readonly database")
    return f"{path.resolve().as_uri()}?mode=rwc"


def _read_only_uri(path: Path) -> str:
    """A reader of a write-ahead log needs files beside the database, and makes them if no writer has them open.

    It must not where it may not, nor as another user than the owner, whom its files would keep from writing. Then
    the database is read as it lies: without a log, nothing is outside it.
    """
    try:
        owner = path.stat().st_uid
    except OSError as error:  # it may have gone since somebody looked: what SQLite would say, in its place
        raise sqlite3.OperationalError("unable to open database file") from error
    may_make_files = os.access(path.parent, os.W_OK) and owner == os.geteuid()
    as_it_lies = not may_make_files and not path.with_name(path.name + "-wal").exists()
    return f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if as_it_lies else ''}"
