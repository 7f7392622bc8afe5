"""A copy of the database to carry elsewhere, made while others read and write it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import URL, Engine

from tmflow.base.errors import BadInput
from tmflow.base.files import require_name, whole_file
from tmflow.store.engine import open_reader
from tmflow.store.url import explain_errors, is_sqlite, shown, sqlite_path


def snapshot(url: URL, path: Path) -> int:
    """Write what is committed now to `path`, a SQLite file that needs no other beside it; returns its bytes.

    The file appears whole or not at all, in place of one that was there: a portal that reads it sees the old state or
    the new one. Raises BadInput if the database is not a SQLite file of this tmflow's, or `path` cannot be written.
    """
    if not is_sqlite(url):
        raise BadInput(f"{shown(url)} is on a server: only a SQLite file can be copied so; use the server's own tools.")
    require_name(path)
    source = sqlite_path(url)
    if path.exists() and source.exists() and path.samefile(source):
        raise BadInput(f"{path} is the database itself: name another file for the snapshot.")
    if path.with_name(path.name + "-wal").exists():  # which would be read as if it were the copy's
        raise BadInput(f"{path} is a database that is being written: name another file for the snapshot.")
    with whole_file(path) as copy:
        try:
            with explain_errors(url):
                copy_pages(open_reader(url), copy)
        except sqlite3.Error as error:
            raise BadInput(f"{path} cannot be written: {error}; what was there before is kept.") from error
    return path.stat().st_size


def copy_pages(reader: Engine, path: Path) -> None:
    """All pages in one step, which is one state of the database whoever writes meanwhile."""
    with reader.connect() as opened, closing(sqlite3.connect(path)) as copy:
        source = opened.connection.driver_connection
        assert isinstance(source, sqlite3.Connection)
        copy.execute("PRAGMA journal_mode = OFF")  # a file of its own, in which there is nothing to go back to
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
