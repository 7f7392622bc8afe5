"""The schema's history, run by Alembic, and the state of a database's schema. A released revision is never edited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sqlalchemy import Connection, inspect

from tmflow.store.models import Base

if TYPE_CHECKING:  # Alembic takes 0.2 s to import, and most commands that import this module do not look at the schema
    from alembic.config import Config
    from alembic.script import ScriptDirectory

_UPGRADE = "run `tmflow db upgrade`."


@dataclass(frozen=True)
class Standing:
    """The state of a database's schema; `problem` is None if this tmflow can use it."""

    kind: Literal["empty", "foreign", "unknown", "behind", "incomplete", "current"]
    revision: str | None
    problem: str | None


def alembic_config(connection: Connection | None = None) -> Config:
    """Alembic's configuration; migrations run on `connection`, inside the caller's transaction."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def head() -> str:
    """The newest revision that this tmflow knows; it works with no other."""
    revision = _history().get_current_head()
    assert revision is not None, "the package has lost its migrations"
    return revision


def standing(connection: Connection) -> Standing:
    """Compare the tables and the recorded revision with this tmflow's; change nothing."""
    from alembic.runtime.migration import MigrationContext

    tables = set(inspect(connection).get_table_names()) - {"alembic_version"}
    heads = MigrationContext.configure(connection).get_current_heads()
    missing = sorted(Base.metadata.tables.keys() - tables)
    if not heads:
        if tables:
            return Standing("foreign", None, f"holds tables that are not tmflow's ({min(tables)}); name another one.")
        return Standing("empty", None, f"has no tables yet; {_UPGRADE}")
    revision = ", ".join(heads)
    if revision not in {script.revision for script in _history().walk_revisions()}:
        problem = f"has revision {revision}, which this tmflow (up to {head()}) does not know; install a newer tmflow."
        return Standing("unknown", revision, problem)
    if revision != head():
        return Standing("behind", revision, f"has revision {revision}, and this tmflow needs {head()}; {_UPGRADE}")
    if missing:
        problem = f"has lost tables ({', '.join(missing)}); restore it, or ingest the run files into a new one."
        return Standing("incomplete", revision, problem)
    return Standing("current", revision, None)


@cache
def _history() -> ScriptDirectory:
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(alembic_config())


def rebuild(table: str, changes: Sequence[tuple[str, str]]) -> None:
    """Recreate the table, replacing each `before` of the changes, which must occur once in its definition, by `after`.

    Foreign keys of other tables to this one are checked at the end of the transaction. Rows of other tables that are
    deleted with those of this one are kept.
    """
    from alembic import op

    connection = op.get_bind()
    master = f"SELECT sql FROM sqlite_master WHERE type = '{{}}' AND tbl_name = '{table}' AND sql IS NOT NULL"
    definition = str(connection.exec_driver_sql(master.format("table")).scalar_one())
    for before, after in changes:
        n = definition.count(before)
        assert n == 1, f"the definition of {table} has '{before}' {n} times"
        definition = definition.replace(before, after)
    indexes = connection.exec_driver_sql(master.format("index")).scalars().all()
    details = [name for name in inspect(connection).get_table_names() if _is_deleted_with(connection, name, table)]
    for statement in (
        *(f"CREATE TEMPORARY TABLE kept_{name} AS SELECT * FROM {name}" for name in details),
        "PRAGMA defer_foreign_keys = ON",
        f"CREATE TEMPORARY TABLE kept AS SELECT * FROM {table}",
        f"DROP TABLE {table}",
        definition,
        *indexes,
        f"INSERT INTO {table} SELECT * FROM kept",
        "DROP TABLE kept",
    ):
        connection.exec_driver_sql(statement)
    for name in details:
        connection.exec_driver_sql(f"DELETE FROM {name}")  # they are left if foreign keys are not enforced
        connection.exec_driver_sql(f"INSERT INTO {name} SELECT * FROM kept_{name}")
        connection.exec_driver_sql(f"DROP TABLE kept_{name}")


def _is_deleted_with(connection: Connection, table: str, parent: str) -> bool:
    keys = connection.exec_driver_sql(f"PRAGMA foreign_key_list({table})").mappings()
    return any((key["table"], key["on_delete"]) == (parent, "CASCADE") for key in keys)


def replace_check(table: str, name: str, before: str, after: str) -> None:
    """Replace the condition of the CHECK called `name`; SQLite recreates the table for it."""
    from alembic import op

    if op.get_context().dialect.name == "sqlite":
        rebuild(table, [(before, after)])
        return
    op.drop_constraint(op.f(name), table)
    op.create_check_constraint(op.f(name), table, after)
