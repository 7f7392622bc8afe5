"""A query's rows as a table of pandas, with the same types whether there are rows or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pandas as pd
from sqlalchemy import Boolean, Column, Connection, Engine, Float, Integer, Select, Text, select
from sqlalchemy.sql.elements import ColumnElement, Label
from sqlalchemy.sql.functions import count
from sqlalchemy.types import TypeEngine

from tmflow.store.url import explain_errors

Source = Engine | Connection
Statement = Select[Any]

CHUNK = 1000  # ids in one statement: far below every limit on its parameters

# Of each kind of column, the type where every row has a value and the type where NULL may occur.
_DTYPES: tuple[tuple[type[TypeEngine[Any]], tuple[str, str]], ...] = (
    (Boolean, ("bool", "boolean")),
    (Integer, ("int64", "Int64")),
    (Float, ("float64", "float64")),
    (Text, ("str", "str")),
)


def frame(source: Source, statement: Statement) -> pd.DataFrame:
    """The rows of `statement`. NULL becomes NaN or NA, never 0. Raises BadInput if the database cannot be used."""
    rows = fetch(source, statement)
    columns = statement.selected_columns
    values = zip(*rows, strict=True) if rows else ([] for _ in columns)
    return pd.DataFrame(
        {
            column.key: pd.Series(list(cells), dtype=_dtype(column))
            for column, cells in zip(columns, values, strict=True)
        }
    )


def with_facts(
    connection: Connection,
    table: pd.DataFrame,
    key: str,
    its_id: ColumnElement[int],
    facts: Sequence[ColumnElement[Any]],
) -> pd.DataFrame:
    """The table with these facts of another in place of the key to it: what many rows share is read once."""
    ids = [int(number) for number in table[key].unique()]
    chunks = [ids[first : first + CHUNK] for first in range(0, max(len(ids), 1), CHUNK)]
    known = pd.concat([frame(connection, select(its_id, *facts).where(its_id.in_(chunk))) for chunk in chunks])
    own = known.take(pd.Index(known["id"]).get_indexer(table[key])).set_axis(table.index)
    place = list(table).index(key)
    return pd.concat([table.iloc[:, :place], own.drop(columns="id"), table.iloc[:, place + 1 :]], axis="columns")


def fetch(source: Source, statement: Statement) -> list[Any]:
    """All rows of `statement`, read at once so that nothing stays open."""
    with connected(source) as connection:
        return list(connection.execute(statement))


@contextmanager
def connected(source: Source) -> Iterator[Connection]:
    """A connection to ask several questions of; of an engine a new one, which is closed at the end."""
    if isinstance(source, Connection):
        with explain_errors(source.engine.url):
            yield source
    else:
        with explain_errors(source.url), source.connect() as connection:
            yield connection


def _dtype(column: ColumnElement[Any]) -> str:
    element = column.element if isinstance(column, Label) else column
    nullable = element.nullable if isinstance(element, Column) else not isinstance(element, count)
    dtypes = next(dtypes for kind, dtypes in _DTYPES if isinstance(column.type, kind))
    return dtypes[bool(nullable)]
