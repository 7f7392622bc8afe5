"""The plans that SQLite makes of the statements that a query asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event


@contextmanager
def asked(reader: Engine) -> Iterator[list[str]]:
    """The steps of the plans of all that is asked meanwhile."""
    statements: list[tuple[str, Any]] = []

    def listen(_connection: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        statements.append((statement, parameters))

    steps: list[str] = []
    event.listen(reader, "before_cursor_execute", listen)
    try:
        yield steps
    finally:
        event.remove(reader, "before_cursor_execute", listen)
    assert statements
    with reader.connect() as connection:
        for statement, parameters in statements:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            steps += [step for _, _, _, step in plan]
