"""Connections to the database: one writer at a time, and readers that never block a writer."""

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

# An import of a million runs is one transaction of minutes. A killed process holds no lock, so nobody waits for it.
WRITERS_WAIT_S = 600
PATIENCE_S = 5  # a writer that waits longer prints a message
READERS_WAIT_S = 60  # SQLite briefly locks out readers, too
_WRITER_LOCK = 0x746D666C6F77  # "tmflow": the key of PostgreSQL's advisory lock, an arbitrary number
# Cache for the pages of the indexes by uid and hash, which are written in random order; SQLite's default is 2 MB.
WRITER_CACHE_KIB = 64 << 10


def open_writer(url: URL) -> Engine:
    """Open an engine whose transactions hold the only right to write, from their first statement on.

    Raises BadInput if the database is missing, unreachable, not a tmflow database or of another revision.
    """
    _require_current(url)
    return writer_engine(url)


def open_reader(url: URL) -> Engine:
    """Open an engine that only reads committed data and blocks no writer. Raises as `open_writer` does."""
    _require_current(url)
    return reader_engine(url)


def writer_engine(url: URL) -> Engine:
    """As `open_writer`, without checking the database; a missing SQLite file is created on the first use."""
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
    """As `open_reader`, without checking the database.

    The engine is shared per URL, because it caches compiled statements; its connections are always new.
    """
    if is_sqlite(url):
        engine = _sqlite_engine(url, _read_only_uri, READERS_WAIT_S)
        event.listen(engine, "connect", _set_up_sqlite_reader)
        return engine
    # Autocommit: no transaction of a page stays open, so none can block a migration.
    engine = _postgresql_engine(url, "-c default_transaction_read_only=on")
    return engine.execution_options(isolation_level="AUTOCOMMIT")


def require_file(url: URL) -> None:
    """Raise BadInput if the URL names a SQLite file that does not exist."""
    if not may_exist(url):
        raise BadInput(f"{shown(url)} does not exist; `tmflow ingest` or `tmflow db upgrade` makes it.")


def may_exist(url: URL) -> bool:
    """Whether the database may exist: False for a missing SQLite file.

    Raises BadInput if the path is a folder, or if this user has no right to look.
    """
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
    # Checked by a reader: a writer would change the journal mode of a file that may not be ours.
    require_file(url)
    with explain_errors(url), reader_engine(url).connect() as connection:
        require_current(connection)


def _sqlite_engine(url: URL, uri: Callable[[Path], str], wait_s: float) -> Engine:
    engine = create_engine(url, poolclass=NullPool)

    # A reader decides at each connection how to open the file; SQLAlchemy's connection strings are fixed.
    @event.listens_for(engine, "do_connect")
    def connect(*_: Any) -> sqlite3.Connection:
        return sqlite3.connect(
            uri(sqlite_path(url)),
            uri=True,
            timeout=wait_s,
            check_same_thread=False,
            isolation_level=None,  # SQLAlchemy, not the driver, begins transactions
        )

    return engine


def _postgresql_engine(url: URL, options: str) -> Engine:
    # No pool here either: the caller need not close the engine.
    return create_engine(url, poolclass=NullPool, connect_args={"options": options, "connect_timeout": 10})


def _set_up_sqlite_writer(connection: sqlite3.Connection, _: object) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA cache_size = -{WRITER_CACHE_KIB}")


def _set_up_sqlite_reader(connection: sqlite3.Connection, _: object) -> None:
    connection.execute("PRAGMA query_only = ON")


def _begin_immediate(connection: Connection) -> None:
    # A deferred BEGIN takes the lock at the first write, too late to wait for another writer.
    with _report_waiting(connection.engine.url):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _take_writer_lock(connection: Connection) -> None:
    with _report_waiting(connection.engine.url):
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITER_LOCK})")


@contextmanager
def _report_waiting(url: URL) -> Iterator[None]:
    timer = Timer(PATIENCE_S, _print_waiting, [url])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _print_waiting(url: URL) -> None:
    message = f"another command writes to {shown(url)}; waiting for it to end, at most {WRITERS_WAIT_S // 60} minutes."
    print(f"tmflow: {message}", file=sys.stderr, flush=True)


def _read_write_uri(path: Path) -> str:
    if path.exists() and not os.access(path, os.W_OK):
        # SQLite raises the same error, but only at the first change, possibly after a long study.
        raise sqlite3.OperationalError("attempt to write a readonly database")
    return f"{path.resolve().as_uri()}?mode=rwc"


def _read_only_uri(path: Path) -> str:
    """The URI to open a SQLite file for reading.

    A reader of a write-ahead log creates files next to the database if no writer has them open. It must not create
    them without the right to, or as a user other than the owner, who could then not write. In these cases the file is
    opened as immutable, provided that there is no log: then the file has all data.
    """
    try:
        owner = path.stat().st_uid
    except OSError as error:  # the file may have disappeared since the last check: the same error as SQLite's
        raise sqlite3.OperationalError("unable to open database file") from error
    may_make_files = os.access(path.parent, os.W_OK) and owner == os.geteuid()
    immutable = not may_make_files and not path.with_name(path.name + "-wal").exists()
    return f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if immutable else ''}"
