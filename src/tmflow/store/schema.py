"""The schema of the database: bring it up to date, and check that it is whole."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import URL, Connection, text

from tmflow.base.errors import BadInput
from tmflow.base.files import whole_file, writing
from tmflow.store import check as consistency
from tmflow.store.backup import copy_pages
from tmflow.store.engine import may_exist, open_writer, reader_engine, require_file, writer_engine
from tmflow.store.models import Base
from tmflow.store.revision import alembic_config, head, standing
from tmflow.store.url import explain_errors, is_sqlite, shown, sqlite_path


@dataclass(frozen=True)
class SchemaState:
    """What `check` found. `revision` is None where the database holds no tmflow tables."""

    revision: str | None
    head: str
    ok: bool
    problems: tuple[str, ...]


class Upgraded(NamedTuple):
    """The revision before, None where there were no tables, and now; the copy of what was there, if one was made."""

    before: str | None
    now: str
    copy: Path | None


def upgrade(url: URL) -> Upgraded:
    """Make the database if it is missing and bring it to this tmflow's revision.

    All or nothing: one transaction. A SQLite file that holds runs is copied first, beside it. Raises BadInput for a
    database that is not tmflow's or newer than this tmflow, and where the copy cannot be written.
    """
    if is_sqlite(url):
        _make_folder(url)
    if exists(url):
        _require_upgradable(url)
    with explain_errors(url), writer_engine(url).begin() as connection:
        found = standing(connection)
        copy = _copied(url, connection) if found.kind == "behind" and is_sqlite(url) else None
        command.upgrade(alembic_config(connection), "head")
    return Upgraded(found.revision, head(), copy)


def exists(url: URL) -> bool:
    """Whether there is a database with any table in it. Raises BadInput if it cannot be read."""
    if not may_exist(url):
        return False
    with explain_errors(url), reader_engine(url).connect() as connection:
        return standing(connection).kind != "empty"


def require_usable(url: URL) -> None:
    """Raise BadInput unless `ingest` could write to the database now; one that is still to be made is fine."""
    if exists(url):
        with explain_errors(url), open_writer(url).begin():
            pass  # to begin is to hold the only right to write


def check(url: URL) -> SchemaState:
    """Look for damage, drift and what does not agree, changing nothing.

    Raises BadInput if the database is missing or unreadable.
    """
    require_file(url)
    with explain_errors(url), reader_engine(url).connect() as connection:
        found = standing(connection)
        problems = [] if found.problem is None else [f"the database {found.problem}"]
        damage = _damage(connection) if is_sqlite(url) else []
        drift = list(_drift(connection)) if found.kind in ("current", "incomplete") else []
        problems += damage
        problems += [f"the tables differ from the models: {' '.join(map(str, step))}" for step in drift]
        can_be_asked = found.kind == "current" and not any("column" in str(step[0]) for step in drift)
        if can_be_asked and not damage:
            problems += consistency.problems(connection)
    return SchemaState(found.revision, head(), not problems, tuple(problems))


def _require_upgradable(url: URL) -> None:
    # A reader looks: a writer would change the journal mode of a file that is not ours.
    with explain_errors(url), reader_engine(url).connect() as connection:
        found = standing(connection)
    if found.kind not in ("behind", "current"):
        raise BadInput(f"{shown(url)} {found.problem}")


def _copied(url: URL, writer: Connection) -> Path | None:
    """The file as it is, under the name of the revision that comes; None of one without runs. No other writes now."""
    if writer.execute(text("SELECT id FROM run LIMIT 1")).first() is None:
        return None
    path = sqlite_path(url)
    copy = path.with_name(f"{path.name}.before-{head()}")
    with whole_file(copy) as new, writing(copy):
        try:
            copy_pages(reader_engine(url), new)
        except sqlite3.Error as error:
            raise BadInput(f"{copy} cannot be written: {error}; {shown(url)} is as it was.") from error
    return copy


def _make_folder(url: URL) -> None:
    folder = sqlite_path(url).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{shown(url)} cannot be made: folder {folder}: {error.strerror}.") from error


def _damage(connection: Connection) -> list[str]:
    """SQLite's own checks. PostgreSQL always enforces its foreign keys and checks its pages itself."""
    said = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
    # Which rule was broken, SQLite does not say; `consistency` does.
    damage = [message for message in said if message != "ok" and not message.startswith("CHECK constraint failed")]
    if damage:
        return [f"the file is damaged: {message}" for message in damage]
    return [
        f"table {table}, row {row}: the {parent} that it refers to does not exist"
        for table, row, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check")
    ]


def _drift(connection: Connection) -> Iterator[Sequence[object]]:
    """Differences between the tables in the database and the models of this tmflow: what to do, and to what."""
    for difference in compare_metadata(MigrationContext.configure(connection), Base.metadata):
        yield from difference if isinstance(difference, list) else [difference]
