"""The schemas and contents of databases, and downgrades to an older revision."""

from __future__ import annotations

import re
from typing import Any

from alembic import command
from sqlalchemy import URL, MetaData, create_engine, select

from tmflow.store import engine
from tmflow.store.migrations import alembic_config

CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'public'::regnamespace AND conrelid <> 'alembic_version'::regclass
UNION ALL
SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'alembic_version'
UNION ALL
SELECT table_name, column_name, concat_ws(' ', data_type, is_nullable, column_default) FROM information_schema.columns
WHERE table_schema = 'public' AND table_name <> 'alembic_version'
"""
# The separator of definitions: a new line, or where a migration added a column to a line.
BETWEEN = re.compile(r"\n|,\s+(?=\w+ (?:INTEGER|REAL|TEXT)\b)|\s+(?=CONSTRAINT )")
OF_TABLE = re.compile(r"FOREIGN KEY\(\w+\) (?=REFERENCES)")  # which a column's constraint of the same name lacks
DEFINITIONS = "SELECT name, sql FROM sqlite_master WHERE tbl_name <> 'alembic_version' AND sql IS NOT NULL"


def definitions(url: URL) -> set[tuple[str, ...]]:
    """All definitions in the schema, one per line, unordered."""
    made = create_engine(url)
    with made.connect() as connection:
        if not engine.is_sqlite(url):
            return {tuple(row) for row in connection.exec_driver_sql(CONSTRAINTS)}
        tables = connection.exec_driver_sql(DEFINITIONS).all()
    lines = ((name, line.strip().rstrip(",")) for name, sql in tables for line in BETWEEN.split(sql))
    return {(name, OF_TABLE.sub("", line)) for name, line in lines}


def contents(url: URL) -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables, in the order of their keys."""
    with engine.reader_engine(url).connect() as connection:
        metadata = MetaData()
        metadata.reflect(connection)  # all tables in a few queries
        rows = {}
        for name in sorted(metadata.tables.keys() - {"alembic_version"}):
            table = metadata.tables[name]
            statement = select(table).order_by(*table.primary_key)
            rows[name] = [dict(row._mapping) for row in connection.execute(statement)]
        return rows


def downgrade(url: URL, to: str) -> None:
    with engine.writer_engine(url).begin() as connection:
        command.downgrade(alembic_config(connection), to)
