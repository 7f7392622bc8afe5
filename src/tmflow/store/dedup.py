"""Rows that many runs share are stored once: find the ids of those that are there, insert the others."""

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
"""Says to a user what is wrong with two rows."""

CHUNK = 1000  # keys in one statement: far below every limit on its parameters


def ids(
    connection: Connection,
    model: type[Base],
    key: Sequence[str],
    rows: Sequence[Row],
    fixed: Mapping[str, Clash] | None = None,
) -> list[int]:
    """The id of each of the rows, known by their key columns; those that the table lacks are inserted.

    The `fixed` columns follow from the key: where rows of one key differ in one, raises BadInput in its words.
    """
    clashes = fixed or {}
    wanted: dict[Key, Row] = {}
    for row in rows:
        _require_same(clashes, row, wanted.setdefault(_key(row, key), row))
    found = {}
    for stored in _find(connection, model, key, wanted, also=("id", *clashes)):
        _require_same(clashes, wanted[_key(stored, key)], stored)
        found[_key(stored, key)] = stored["id"]
    missing = {itself: row for itself, row in wanted.items() if itself not in found}
    if missing:
        connection.execute(insert(model), list(missing.values()))
        found |= {_key(row, key): row["id"] for row in _find(connection, model, key, missing, also=("id",))}
    return [found[_key(row, key)] for row in rows]


def columns(model: type[Base]) -> list[str]:
    """The columns of a table in their order, but for an id that the database gives."""
    return [column.name for column in model.__table__.columns if column.name != "id"]


def insert_rows(connection: Connection, model: type[Base], rows: list[Key]) -> None:
    """Insert rows of the `columns` of a table, of values that the driver takes as they are.

    The statement goes past SQLAlchemy, which would look at each row again and take as long as SQLite does.
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
    """The items, as many at a time as weigh `CHUNK` together."""
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
    connection: Connection, model: type[Base], key: Sequence[str], wanted: Iterable[Key], also: Sequence[str]
) -> Iterator[Row]:
    """The key columns and the `also` columns of the rows whose key is wanted and that exist."""
    columns = model.__table__.columns
    for chunk in chunks(wanted):
        matches = tuple_(*(columns[name] for name in key)).in_(chunk)
        query = select(*(columns[name] for name in (*key, *also))).where(matches)
        yield from map(dict, connection.execute(query).mappings())


def _key(row: Row, key: Sequence[str]) -> Key:
    return tuple(row[name] for name in key)


def _require_same(clashes: Mapping[str, Clash], row: Row, other: Row) -> None:
    for name, words in clashes.items():
        if row[name] != other[name]:
            raise BadInput(words(row, other))
