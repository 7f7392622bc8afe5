"""Where the database is: a checked URL, and how to name it in a message without its password."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

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
    """The database in words for a message: no password, and no options, which may hold one too."""
    if is_sqlite(url):
        return f"database {url.database}"
    return f"database {url.set(drivername='postgresql', query={}).render_as_string(hide_password=True)}"
