"""Connections to the database: URLs, one writer at a time, readers that never block a writer, explained errors."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import Timer
from time import monotonic, sleep
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, OperationalError, ProgrammingError

from tmflow.base.errors import BadInput, unknown
from tmflow.store.migrations import Standing, standing

VARIABLE = "TMFLOW_DB_URL"
SQLITE = "sqlite"
POSTGRESQL = "postgresql+psycopg"
_DRIVERS = {
    "sqlite": SQLITE,
    "sqlite+pysqlite": SQLITE,
    "postgres": POSTGRESQL,
    "postgresql": POSTGRESQL,
    POSTGRESQL: POSTGRESQL,
}
# An import of a million runs is one transaction of minutes. A killed process holds no lock, so nobody waits for it.
WRITERS_WAIT_S = 600
PATIENCE_S = 5  # a writer that waits longer prints a message
READERS_WAIT_S = 60  # SQLite briefly locks out readers, too
_WRITER_LOCK = 0x746D666C6F77  # "tmflow": the key of PostgreSQL's advisory lock, an arbitrary number
# Cache for the pages of the indexes by uid and hash, which are written in random order; SQLite's default is 2 MB.
WRITER_CACHE_KIB = 64 << 10


def url_from_env(default: Path) -> URL:
    """The URL in TMFLOW_DB_URL; without one, that of the SQLite file `default` (results/study.db).

    Raises BadInput for a URL that names neither a SQLite file nor a PostgreSQL database.
    """
    text = os.environ.get(VARIABLE)
    return parse(text) if text else sqlite_url(default)


def sqlite_url(path: Path) -> URL:
    """The URL of a SQLite file."""
    return URL.create(SQLITE, database=str(path))


def parse(text: str, source: str = VARIABLE) -> URL:
    """A database URL from text, given as `source`. Raises BadInput without the text, which may hold a password."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise BadInput(
            f"{source} is not a database URL; allowed: sqlite:///results/study.db or "
            "postgresql://user:password@host/database."
        ) from error
    if url.drivername not in _DRIVERS:
        raise unknown(f"kind of database in {source}", url.drivername, _DRIVERS)
    url = url.set(drivername=_DRIVERS[url.drivername])
    if is_sqlite(url) and (not url.database or url.database == ":memory:" or url.query):
        raise BadInput(f"{source} names no SQLite file; allowed: sqlite:///path/to/file, without options.")
    return url


def is_sqlite(url: URL) -> bool:
    return url.get_backend_name() == SQLITE


def sqlite_path(url: URL) -> Path:
    """The file of a SQLite URL."""
    return Path(url.database or "")


def shown(url: URL) -> str:
    """Format the database for a message, without the password and the options, which may hold one too."""
    if is_sqlite(url):
        return f"database {url.database}"
    return f"database {url.set(drivername='postgresql', query={}).render_as_string(hide_password=True)}"


def open_writer(url: URL) -> Engine:
    """Open an engine whose transactions hold the exclusive right to write from their first statement on.

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
        set_up = ("PRAGMA foreign_keys = ON", "PRAGMA journal_mode = WAL", f"PRAGMA cache_size = -{WRITER_CACHE_KIB}")
        engine = _sqlite_engine(url, _read_write_uri, WRITERS_WAIT_S, set_up)
        take_lock = "BEGIN IMMEDIATE"  # a deferred BEGIN takes it at the first write, too late to wait for a writer
    else:
        engine = _postgresql_engine(url, f"-c lock_timeout={WRITERS_WAIT_S}s")
        take_lock = f"SELECT pg_advisory_xact_lock({_WRITER_LOCK})"

    @event.listens_for(engine, "begin")
    def wait_for_lock(connection: Connection) -> None:
        timer = Timer(PATIENCE_S, _print_waiting, [url])
        timer.start()
        try:
            connection.exec_driver_sql(take_lock)
        finally:
            timer.cancel()

    return engine


@lru_cache(maxsize=8)
def reader_engine(url: URL) -> Engine:
    """As `open_reader`, without checking the database.

    The engine is shared per URL, because it caches compiled statements; its connections are always new.
    """
    if is_sqlite(url):
        return _sqlite_engine(url, _read_only_uri, READERS_WAIT_S, ("PRAGMA query_only = ON",))
    # Autocommit: no transaction of a page stays open, so none can block a migration.
    engine = _postgresql_engine(url, "-c default_transaction_read_only=on")
    return engine.execution_options(isolation_level="AUTOCOMMIT")


def require_file(url: URL) -> None:
    """Raise BadInput if the URL names a SQLite file that does not exist."""
    if not may_exist(url):
        raise BadInput(f"{shown(url)} does not exist; `tmflow ingest` or `tmflow db upgrade` creates it.")


def may_exist(url: URL) -> bool:
    """Whether the database may exist: False for a missing SQLite file.

    Raises BadInput if the path is a folder, or if this user may not look.
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
    problem = read_standing(url).problem
    if problem is not None:
        raise BadInput(f"{shown(url)} {problem}")


def read_standing(url: URL) -> Standing:
    """The state of the schema, read from one snapshot: another process may create or upgrade the tables meanwhile."""
    snapshot = "BEGIN" if is_sqlite(url) else "BEGIN ISOLATION LEVEL REPEATABLE READ"
    with explain_errors(url), reader_engine(url).connect() as connection:
        connection.exec_driver_sql(snapshot)  # the connection is closed at the end, and with it the transaction
        return standing(connection)


def _sqlite_engine(url: URL, uri: Callable[[Path], str], wait_s: float, set_up: Sequence[str]) -> Engine:
    engine = create_engine(url, poolclass=NullPool)

    # A reader decides at each connection how to open the file; SQLAlchemy's connection strings are fixed.
    @event.listens_for(engine, "do_connect")
    def connect(*_: Any) -> sqlite3.Connection:
        connection = sqlite3.connect(
            uri(sqlite_path(url)),
            uri=True,
            timeout=wait_s,
            check_same_thread=False,
            isolation_level=None,  # SQLAlchemy, not the driver, begins transactions
        )
        for statement in set_up:
            _execute_once_free(connection, statement, wait_s)
        return connection

    return engine


def _execute_once_free(connection: sqlite3.Connection, statement: str, wait_s: float) -> None:
    """Execute a statement, waiting up to `wait_s` for other connections to release the file.

    SQLite does not wait by itself where one that waited could block the other for ever: a change to a write-ahead log
    fails at once while another connection makes the same change.
    """
    give_up = monotonic() + wait_s
    while True:
        try:
            connection.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or monotonic() > give_up:
                raise
            sleep(0.02)


def _postgresql_engine(url: URL, options: str) -> Engine:
    # No pool here either: the caller need not close the engine.
    return create_engine(url, poolclass=NullPool, connect_args={"options": options, "connect_timeout": 10})


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

    A reader of a write-ahead log creates files next to the database if no writer has them open. It must not create them
    without permission, or as a user other than the owner, who could then not write. In these cases the file is opened
    as immutable, provided that there is no log: then the file holds all data.
    """
    try:
        owner = path.stat().st_uid
    except OSError as error:  # the file may have disappeared since the last check: the same error as SQLite's
        raise sqlite3.OperationalError("unable to open database file") from error
    may_make_files = os.access(path.parent, os.W_OK) and owner == os.geteuid()
    immutable = not may_make_files and not path.with_name(path.name + "-wal").exists()
    return f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if immutable else ''}"


_BUSY = "is locked by another writer; try again when that has finished."
_READ_ONLY = "is read-only; to write, this user needs the right to change it (for a SQLite file: and its folder)."
_FULL = "cannot grow because its disk is full; nothing was stored. Free some space and run the command again."
# SQLite reports most states only as text, PostgreSQL as SQLSTATE.
_SQLITE_WORDS = {
    "file is not a database": "is not a SQLite database; name another file, or move this one away.",
    "readonly database": _READ_ONLY,
    "database is locked": _BUSY,
    "unable to open database file": "cannot be opened: it is not a file, or this user may not read it or its folder.",
}
_SQLITE_FULL = ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE")  # the second is an "I/O error" of its shared memory
_POSTGRESQL_STATES = {
    "25006": _READ_ONLY,
    "42501": "does not give this user the necessary rights.",
    "55P03": _BUSY,
    "53100": _FULL,
}


@contextmanager
def explain_errors(url: URL) -> Iterator[None]:
    """Raise BadInput for a database that is unreachable, locked, read-only, damaged or not a database.

    Other errors of the driver (a violated constraint, wrong SQL) are bugs of tmflow and pass unchanged.
    """
    try:
        yield
    except DBAPIError as error:
        explanation = _sqlite_state(error) if is_sqlite(url) else _postgresql_state(error)
        if explanation is None:
            raise
        sentence = f"{shown(url)} {explanation}"
        raise BadInput(sentence.replace(str(url.password), "***") if url.password else sentence) from error


def _sqlite_state(error: DBAPIError) -> str | None:
    text = str(error.orig)
    if getattr(error.orig, "sqlite_errorname", None) in _SQLITE_FULL:
        return _FULL
    for words, explanation in _SQLITE_WORDS.items():
        if words in text:
            return explanation
    return None if isinstance(error, IntegrityError | ProgrammingError) else f"cannot be used: {text}."


def _postgresql_state(error: DBAPIError) -> str | None:
    state = getattr(error.orig, "sqlstate", None)
    if state in _POSTGRESQL_STATES:
        return _POSTGRESQL_STATES[state]
    if not isinstance(error, OperationalError):
        return None
    reason = str(error.orig).strip().splitlines()[0].rstrip(".")
    return f"cannot be reached or used: {reason}."
