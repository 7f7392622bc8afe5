"""Rebuild of a table with a changed definition: SQLite cannot change a column."""

from __future__ import annotations

from collections.abc import Sequence

from alembic import op


def rebuild(table: str, changes: Sequence[tuple[str, str]]) -> None:
    """Recreate the table, replacing each `before` of the changes, which must occur once in its definition, by `after`.

    Foreign keys of other tables to this one are checked at the end of the transaction.
    """
    connection = op.get_bind()
    master = f"SELECT sql FROM sqlite_master WHERE type = '{{}}' AND tbl_name = '{table}' AND sql IS NOT NULL"
    definition = str(connection.exec_driver_sql(master.format("table")).scalar_one())
    for before, after in changes:
        n = definition.count(before)
        assert n == 1, f"the definition of {table} has '{before}' {n} times"
        definition = definition.replace(before, after)
    indexes = connection.exec_driver_sql(master.format("index")).scalars().all()
    for statement in (
        "PRAGMA defer_foreign_keys = ON",
        f"CREATE TEMPORARY TABLE kept AS SELECT * FROM {table}",
        f"DROP TABLE {table}",
        definition,
        *indexes,
        f"INSERT INTO {table} SELECT * FROM kept",
        "DROP TABLE kept",
    ):
        connection.exec_driver_sql(statement)
