"""A copy of the database in one file, made while other processes read and write the database."""

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
    """Write the committed state to `path`, one self-contained SQLite file; return its size in bytes.

    The file is replaced atomically: a portal that reads it sees the old state or the new one. Raises BadInput if the
    database is not a SQLite file of this tmflow, or `path` cannot be written.
    """
    if not is_sqlite(url):
        raise BadInput(f"{shown(url)} is on a server: only a SQLite file can be copied; use the server's tools.")
    require_name(path)
    source = sqlite_path(url)
    if path.exists() and source.exists() and path.samefile(source):
        raise BadInput(f"{path} is the database itself: name another file for the snapshot.")
    if path.with_name(path.name + "-wal").exists():  # SQLite would apply this log to the copy
        raise BadInput(f"{path} is a database in use: name another file for the snapshot.")
    with whole_file(path) as copy:
        try:
            with explain_errors(url):
                copy_pages(open_reader(url), copy)
        except sqlite3.Error as error:
            raise BadInput(f"{path} cannot be written: {error}; what was there before is kept.") from error
    return path.stat().st_size


def copy_pages(reader: Engine, path: Path) -> None:
    """Copy all pages in one step, so that the copy is one state of the database despite concurrent writers."""
    with reader.connect() as opened, closing(sqlite3.connect(path)) as copy:
        source = opened.connection.driver_connection
        assert isinstance(source, sqlite3.Connection)
        copy.execute("PRAGMA journal_mode = OFF")  # a new file: nothing to roll back
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
