"""The schema revision of a database, and whether this tmflow can use it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from tmflow.base.errors import BadInput
from tmflow.store.models import Base
from tmflow.store.url import shown

_UPGRADE = "run `tmflow db upgrade`."


@dataclass(frozen=True)
class Standing:
    """The state of a database's schema; `problem` is None if this tmflow can use it."""

    kind: Literal["empty", "foreign", "unknown", "behind", "incomplete", "current"]
    revision: str | None
    problem: str | None


def alembic_config(connection: Connection | None = None) -> Config:
    """Alembic's configuration; migrations run on `connection`, inside the caller's transaction."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def head() -> str:
    """The newest revision that this tmflow knows; it works with no other."""
    revision = _history().get_current_head()
    assert revision is not None, "the package has lost its migrations"
    return revision


def standing(connection: Connection) -> Standing:
    """Compare the tables and the recorded revision with this tmflow's; change nothing."""
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


def require_current(connection: Connection) -> None:
    """Raise BadInput unless the database has every table of this tmflow's own revision."""
    problem = standing(connection).problem
    if problem is not None:
        raise BadInput(f"{shown(connection.engine.url)} {problem}")


@cache
def _history() -> ScriptDirectory:
    return ScriptDirectory.from_config(alembic_config())
