"""The URL of the database: validation, display without the password, and explanations of database errors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, OperationalError, ProgrammingError

from tmflow.base.errors import BadInput, unknown

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


def url_from_env(default: Path) -> URL:
    """The URL in TMFLOW_DB_URL; without one, that of the SQLite file `default` (results/study.db).

    Raises BadInput for a URL that names neither a SQLite file nor a PostgreSQL database.
    """
    text = os.environ.get(VARIABLE)
    return parse(text) if text else sqlite_url(default)


def sqlite_url(path: Path) -> URL:
    """The URL of a SQLite file."""
    return URL.create(SQLITE, database=str(path))


def parse(text: str) -> URL:
    """A database URL from text. Raises BadInput, which does not repeat the text: it may hold a password."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise BadInput(
            f"{VARIABLE} is not a database URL; allowed: sqlite:///results/study.db or "
            "postgresql://user:password@host/database."
        ) from error
    if url.drivername not in _DRIVERS:
        raise unknown(f"kind of database in {VARIABLE}", url.drivername, _DRIVERS)
    url = url.set(drivername=_DRIVERS[url.drivername])
    if is_sqlite(url) and (not url.database or url.database == ":memory:" or url.query):
        raise BadInput(f"{VARIABLE} names no SQLite file; allowed: sqlite:///path/to/file, without options.")
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


_BUSY = "is locked: another writer held it all the while; try again when it is done."
_READ_ONLY = "is read-only; to write, this user needs the right to change it (for a SQLite file: and its folder)."
_FULL = "cannot grow: its disk is full; nothing of this was stored: make room, and run the same command again."
# SQLite reports most states only as text, PostgreSQL as SQLSTATE.
_SQLITE_WORDS = {
    "file is not a database": "is not a SQLite database; name another file, or move this one away.",
    "readonly database": _READ_ONLY,
    "database is locked": _BUSY,
    "unable to open database file": "cannot be opened: it is no file, or this user may not read it or its folder.",
}
_SQLITE_FULL = ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE")  # the second is an "I/O error" of its shared memory
_POSTGRESQL_STATES = {
    "25006": _READ_ONLY,
    "42501": "does not give this user the rights that this needs.",
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
