"""Deduplication: rows that many runs share are stored once, and found again by their key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, insert, select, tuple_

from tmflow.base.errors import BadInput
from tmflow.store.models import Base

Key = tuple[Any, ...]
Row = dict[str, Any]
Item = TypeVar("Item")
Clash = Callable[[Row, Row], str]
"""The message for two rows that contradict each other."""

CHUNK = 1000  # keys in one statement: far below every database's limit on parameters


def ids(
    connection: Connection,
    model: type[Base],
    key: Sequence[str],
    rows: Sequence[Row],
    fixed: Mapping[str, Clash] | None = None,
) -> list[int]:
    """Get the id of each row, identified by its key columns; insert the rows that the table lacks.

    The `fixed` columns follow from the key. Raises BadInput with the message of the column if two rows with the same
    key differ in it.
    """
    clashes = fixed or {}
    by_key: dict[Key, Row] = {}
    for row in rows:
        _require_same(clashes, row, by_key.setdefault(_key(row, key), row))
    id_of = {}
    for stored in _find(connection, model, key, by_key, also=("id", *clashes)):
        _require_same(clashes, by_key[_key(stored, key)], stored)
        id_of[_key(stored, key)] = stored["id"]
    missing = {row_key: row for row_key, row in by_key.items() if row_key not in id_of}
    if missing:
        connection.execute(insert(model), list(missing.values()))
        id_of |= {_key(row, key): row["id"] for row in _find(connection, model, key, missing, also=("id",))}
    return [id_of[_key(row, key)] for row in rows]


def columns(model: type[Base]) -> list[str]:
    """The columns of a table in order, without the id that the database assigns."""
    return [column.name for column in model.__table__.columns if column.name != "id"]


def insert_rows(connection: Connection, model: type[Base], rows: list[Key]) -> None:
    """Insert rows that have the `columns` of a table, with values that the driver accepts without conversion.

    The statement bypasses SQLAlchemy's processing of each row, which takes as long as SQLite's insert.
    """
    if not rows:
        return
    names = columns(model)
    statement = insert(model).compile(dialect=connection.dialect, column_keys=names)
    if statement.positiontup is not None:
        assert statement.positiontup == names
        connection.exec_driver_sql(str(statement), rows)
    else:
        connection.exec_driver_sql(str(statement), [dict(zip(names, row, strict=True)) for row in rows])


def chunks(items: Iterable[Item], weight: Callable[[Item], int] = lambda _: 1) -> Iterator[list[Item]]:
    """Split the items into lists that each weigh about `CHUNK`."""
    chunk: list[Item] = []
    total = 0
    for item in items:
        chunk.append(item)
        total += weight(item)
        if total >= CHUNK:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk


def _find(
    connection: Connection, model: type[Base], key: Sequence[str], keys: Iterable[Key], also: Sequence[str]
) -> Iterator[Row]:
    """Find the stored rows with one of these keys: their key columns and the `also` columns."""
    columns = model.__table__.columns
    for chunk in chunks(keys):
        matches = tuple_(*(columns[name] for name in key)).in_(chunk)
        query = select(*(columns[name] for name in (*key, *also))).where(matches)
        yield from map(dict, connection.execute(query).mappings())


def _key(row: Row, key: Sequence[str]) -> Key:
    return tuple(row[name] for name in key)


def _require_same(clashes: Mapping[str, Clash], row: Row, other: Row) -> None:
    for name, describe in clashes.items():
        if row[name] != other[name]:
            raise BadInput(describe(row, other))
