"""SQLite changes no column: a table of which one is to change is made anew."""

from __future__ import annotations

from collections.abc import Sequence

from alembic import op


def rebuild(table: str, changes: Sequence[tuple[str, str]]) -> None:
    """Make the table anew by its own definition, in which each `before` of the changes stands once, with its `after`.

    Others refer to it all the while; their foreign keys are looked at when the transaction ends.
    """
    connection = op.get_bind()
    master = f"SELECT sql FROM sqlite_master WHERE type = '{{}}' AND tbl_name = '{table}' AND sql IS NOT NULL"
    made = str(connection.exec_driver_sql(master.format("table")).scalar_one())
    for before, after in changes:
        assert made.count(before) == 1, f"the definition of {table} has '{before}' {made.count(before)} times"
        made = made.replace(before, after)
    indexes = connection.exec_driver_sql(master.format("index")).scalars().all()
    for statement in (
        "PRAGMA defer_foreign_keys = ON",
        f"CREATE TEMPORARY TABLE kept AS SELECT * FROM {table}",
        f"DROP TABLE {table}",
        made,
        *indexes,
        f"INSERT INTO {table} SELECT * FROM kept",
        "DROP TABLE kept",
    ):
        connection.exec_driver_sql(statement)
