"""The schema of the database: upgrade it, check the database for damage, and copy it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import URL, Connection, Engine, text

from tmflow.base.errors import BadInput
from tmflow.base.files import require_name, whole_file, writing
from tmflow.store import check as consistency
from tmflow.store.engine import (
    explain_errors,
    is_sqlite,
    may_exist,
    open_reader,
    open_writer,
    read_standing,
    reader_engine,
    require_file,
    shown,
    sqlite_path,
    writer_engine,
)
from tmflow.store.migrations import Standing, alembic_config, head, standing
from tmflow.store.models import Base


@dataclass(frozen=True)
class SchemaState:
    """The result of `check`. `revision` is None if the database holds no tmflow tables."""

    revision: str | None
    head: str
    ok: bool
    problems: tuple[str, ...]


class Upgraded(NamedTuple):
    """The revision before (None without tables) and now, and the backup copy if one was made."""

    before: str | None
    now: str
    copy: Path | None


def upgrade(url: URL) -> Upgraded:
    """Create the database if it is missing, and upgrade it to this tmflow's revision in one transaction.

    A SQLite file that holds runs is first copied next to it. Raises BadInput for a database that is not tmflow's or is
    newer than this tmflow, and if the copy cannot be written.
    """
    if is_sqlite(url):
        folder = sqlite_path(url).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"{shown(url)} cannot be created: folder {folder}: {error.strerror}.") from error
    # Checked by a reader: a writer would change the journal mode of a file that may not be ours.
    before = _standing(url)
    if before is not None and before.kind not in ("empty", "behind", "current"):
        raise BadInput(f"{shown(url)} {before.problem}")
    with explain_errors(url), writer_engine(url).begin() as connection:
        state = standing(connection)
        copy = _back_up(url, connection) if state.kind == "behind" and is_sqlite(url) else None
        command.upgrade(alembic_config(connection), "head")
    return Upgraded(state.revision, head(), copy)


def exists(url: URL) -> bool:
    """Whether the database exists and has any table. Raises BadInput if it cannot be read."""
    state = _standing(url)
    return state is not None and state.kind != "empty"


def _standing(url: URL) -> Standing | None:
    """The state of the schema; None if the database does not exist."""
    if not may_exist(url):
        return None
    return read_standing(url)


def require_usable(url: URL) -> None:
    """Raise BadInput unless `ingest` could write to the database now; a missing database is fine."""
    if exists(url):
        with explain_errors(url), open_writer(url).begin():
            pass  # a transaction that has begun holds the exclusive right to write


def check(url: URL) -> SchemaState:
    """Check for damage, schema drift and inconsistent rows; change nothing.

    Raises BadInput if the database is missing or unreadable.
    """
    require_file(url)
    with explain_errors(url), reader_engine(url).connect() as connection:
        state = standing(connection)
        problems = [] if state.problem is None else [f"the database {state.problem}"]
        damage = _damage(connection) if is_sqlite(url) else []
        drift = list(_drift(connection)) if state.kind in ("current", "incomplete") else []
        problems += damage
        problems += [f"the tables differ from the models: {' '.join(map(str, step))}" for step in drift]
        can_query = state.kind == "current" and not any("column" in str(step[0]) for step in drift)
        if can_query and not damage:
            problems += consistency.problems(connection)
    return SchemaState(state.revision, head(), not problems, tuple(problems))


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
                _copy_pages(open_reader(url), copy)
        except sqlite3.Error as error:
            raise BadInput(f"{path} cannot be written: {error}; the previous file is kept.") from error
    return path.stat().st_size


def _copy_pages(reader: Engine, path: Path) -> None:
    """Copy all pages in one step, so that the copy is one state of the database despite concurrent writers."""
    with reader.connect() as opened, closing(sqlite3.connect(path)) as copy:
        source = opened.connection.driver_connection
        assert isinstance(source, sqlite3.Connection)
        copy.execute("PRAGMA journal_mode = OFF")  # a new file: nothing to roll back
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")


def _back_up(url: URL, writer: Connection) -> Path | None:
    """Copy the file before the upgrade, named after the new revision; None if it has no runs.

    `writer` keeps other processes from writing meanwhile.
    """
    if writer.execute(text("SELECT id FROM run LIMIT 1")).first() is None:
        return None
    path = sqlite_path(url)
    copy = path.with_name(f"{path.name}.before-{head()}")
    with whole_file(copy) as new, writing(copy):
        try:
            _copy_pages(reader_engine(url), new)
        except sqlite3.Error as error:
            raise BadInput(f"{copy} cannot be written: {error}; {shown(url)} is unchanged.") from error
    return copy


def _damage(connection: Connection) -> list[str]:
    """Run SQLite's integrity checks. PostgreSQL always enforces its foreign keys and checks its pages itself."""
    messages = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
    # SQLite does not name the broken rule; `consistency` does.
    damage = [message for message in messages if message != "ok" and not message.startswith("CHECK constraint failed")]
    if damage:
        return [f"the file is damaged: {message}" for message in damage]
    return [
        f"table {table}, row {row}: the {parent} that it refers to does not exist"
        for table, row, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check")
    ]


def _drift(connection: Connection) -> Iterator[Sequence[object]]:
    """The operations that would turn the tables of the database into the models of this tmflow."""
    for difference in compare_metadata(MigrationContext.configure(connection), Base.metadata):
        yield from difference if isinstance(difference, list) else [difference]
