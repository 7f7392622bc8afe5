"""A database with rows in all tables, and for each column values at the limits of its type."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Column, Table

from tests.support.claim_worlds import CLAIMS, world_runs
from tests.support.sample_bundles import PROBE, sample_bundle
from tests.support.sample_runs import CLUSTER, EMULATED, FULL, FUSED, SOFTWARE_TM, sample_runs, without_result
from tmflow.contributions.importer import import_bundle
from tmflow.runfile import record
from tmflow.store import writer
from tmflow.store.engine import open_writer, sqlite_url
from tmflow.store.ingest import ingest
from tmflow.store.models import Base, Count, Flag, Real

Value = str | bytes | int | float | None

_NUMBERS: tuple[Value, ...] = (0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63))
_REALS: tuple[Value, ...] = (0.0, 5e-324, 1e-300, 1e300, 1.7e308, float("inf"), -1e300, float("-inf"), -5e-324)
_TEXTS: tuple[Value, ...] = (
    "",
    "x" * 100_000,
    "</script><img src=x onerror=alert(1)> [x](javascript:alert(1)) $x$ :red[x]",
    "datum['x'] || toString.constructor('return 1')()",
    "nul\0 bell\a escape\x1b[2J line\nreturn\r\t",
    "\u202eright to left\u2066 \u05d0\u05d1 \U0001f4a9 \u0301\u0301",
    "0001-01-01T00:00:00.000Z",
    "9999-12-31T23:59:59.999Z",
    "null",
    "-1",
)
_DOCUMENTS: tuple[Value, ...] = ("", "null", "[]", "{}", "1e999", "{", '{"a": ' * 500 + "1" + "}" * 500)


_NO_UTF8 = b"\xff\xfe text"  # SQLite stores any bytes as text


class Change(NamedTuple):
    """A column of one row (by its position in primary-key order, modulo the number of rows), and its new value."""

    table: str
    column: str
    place: int
    value: Value

    def __repr__(self) -> str:
        return f"{self.table}.{self.column}[{self.place}] = {repr(self.value)[:60]}"


def columns() -> Iterator[Column[object]]:
    """All columns of all tables except the ids that tables refer to."""
    for table in Base.metadata.sorted_tables:
        for column in table.columns:
            if column.name != "id" and not column.foreign_keys and not column.name.endswith("_id"):
                yield column


def limits(column: Column[object]) -> list[Value]:
    """The values at the limits of the column's type, and NULL if allowed; CHECKs may refuse some."""
    if isinstance(column.type, Flag):
        values: tuple[Value, ...] = (0, 1)
    elif isinstance(column.type, Count):
        values = _NUMBERS
    elif isinstance(column.type, Real):
        values = _REALS
    else:
        values = (*(_DOCUMENTS if column.name.endswith("_json") else ()), *_TEXTS, _NO_UTF8)
    return [*values, *([None] if column.nullable else [])]


def make_database(folder: Path) -> Path:
    """A database in `folder` with two machines and a contribution, and rows in every table."""
    url = sqlite_url(folder / "study.db")
    claims = CLAIMS.model_copy(update={"claims": {name: CLAIMS.claims[name] for name in _CLAIMS}})
    variants = ("tf_lock", "nolock", EMULATED, SOFTWARE_TM, {"strategy": "tle", "tunables": "custom"}, "htm")
    sample = [
        *world_runs(claims),
        *sample_runs(("study",), variants, (1, 2), 2, campaign="study", unsupported=("htm",), disturbed_rounds=(2,)),
        *sample_runs(("full",), ("lock", "nolock", FUSED, "block_stm"), (1, 2), 2, campaign="full", **FULL),
        *sample_runs(("dist",), ("lock",), (1, 2), 2, campaign="dist", **CLUSTER),
    ]
    sample = [without_result(run, "failed", "signal 11") if at % 41 == 40 else run for at, run in enumerate(sample)]
    record.write(folder / "runs.jsonl", sample)
    ingest(url, [folder / "runs.jsonl"])
    contributed = sample_runs(("study",), ("tf_lock", "nolock"), (1, 2), 2, campaign="contributed")
    import_bundle(url, sample_bundle(folder / "bundle", contributed, probe=PROBE))
    _publish(folder / "study.db")
    with open_writer(url).begin() as connection:
        writer.recount_rounds(connection, [number for (number,) in connection.exec_driver_sql("SELECT id FROM round")])
    with closing(sqlite3.connect(folder / "study.db")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("PRAGMA journal_mode = DELETE")
    return folder / "study.db"


_CLAIMS = ("softmax-same-speed", "softmax-few-commits")


def _publish(path: Path) -> None:
    """Mark some runs as quoted from a paper, which no run file can express yet."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO fused_update SELECT run_id, variable FROM lost_update WHERE lost = 0")
        db.execute("INSERT INTO reference VALUES (1, 'A. Author, A Title', NULL, 'figure 1', 'digitised', 0.02)")
        db.execute(
            "UPDATE run SET evidence = 'published', time_domain = 'reported', reference_id = 1, environment_id = NULL "
            "WHERE evidence = 'measured' AND status = 'ok' AND id % 17 = 0"
        )


def changed(database: Path, to: Path, changes: Iterable[Change]) -> list[Change]:
    """A copy of the database with the changes that its CHECKs and keys allow; returns these."""
    shutil.copyfile(database, to)
    made = []
    with closing(sqlite3.connect(to, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA foreign_keys = ON")
        for change in changes:
            try:
                if _change(db, change):
                    made.append(change)
            except sqlite3.IntegrityError:
                pass
    return made


def _change(db: sqlite3.Connection, change: Change) -> int:
    table: Table = Base.metadata.tables[change.table]
    key = ", ".join(f'"{column.name}"' for column in table.primary_key)  # index is a word of SQL
    (count,) = db.execute(f"SELECT count(*) FROM {change.table}").fetchone()
    row = f"SELECT {key} FROM {change.table} ORDER BY {key} LIMIT 1 OFFSET {change.place % count}"
    value = "CAST(? AS TEXT)" if isinstance(change.value, bytes) else "?"
    statement = f'UPDATE {change.table} SET "{change.column}" = {value} WHERE ({key}) = ({row})'
    return db.execute(statement, [change.value]).rowcount
