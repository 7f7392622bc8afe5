"""Copy rounds of a database to other platforms with other numbers, entirely in SQL."""

from __future__ import annotations

import hashlib
import math
import sqlite3
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

from tmflow.store import models
from tmflow.store.models import Base, Round, Run, RunFile

REASONS = {
    "failed": "the process ended with signal 11",
    "timeout": "the trial took longer than 120 s",
    "invalid": "the loss is not a number",
}
RARE = (0.003, 0.001, 0.001)  # the frequency of each status among the copies
SECONDS = 2  # from the start of a run to that of the next


class Copy(NamedTuple):
    """A planned round: a copy of the first `n_runs` runs of the round `of_round`, and how its platform differs.

    Its runs take `pace` times as long, have `aborts` times as many aborts, and `moved` of 100 commits become fallbacks.
    """

    round_id: int
    of_round: int
    number: int
    campaign_id: int
    experiment_id: int
    platform_id: int
    environment_id: int
    software_id: int
    first_run_id: int
    n_runs: int
    began_s: float
    pace: float
    aborts: int
    moved: int


# The columns of a copied run that differ from its template's: `to_` is its row in `copied`, `of_` the template.
OF_RUN = {
    "id": "to_.run_id",
    "uid": "uid(to_.run_id)",
    "content_sha256": "sha256(uid(to_.run_id))",
    **{name: f"to_.{name}" for name in
       ("round_id", "platform_id", "environment_id", "software_id", "run_file_id")},
    "status": "coalesce(to_.fate, of_.status)",
    "reason": "coalesce(reason(to_.fate), of_.reason)",
    "trial_seed": "of_.trial_seed + to_.number - 1",
    "started_at_utc": "strftime('%Y-%m-%dT%H:%M:%fZ', to_.started_s, 'unixepoch')",
    "disturbed": "iif(of_.disturbed IS NULL OR to_.fate IS NOT NULL, NULL, chance(to_.run_id, 2) < 0.02)",
    **{name: f"iif(to_.fate IS NULL, of_.{name} * to_.pace, NULL)" for name in
       ("setup_s", "loop_s", "evaluation_s", "total_s")},
    "final_accuracy": "iif(to_.fate IS NULL, min(1.0, of_.final_accuracy * to_.better), NULL)",
    **{name: f"iif(to_.fate IS NULL, of_.{name}, NULL)" for name in
       ("load1_before", "load1_after", "steal_fraction", "others_fraction", "suspended_s", "clock_moved_s")},
}  # fmt: skip
COMMITS = "of_.commits - of_.commits * to_.moved / 100"
# The same for its details.
OF_DETAILS: dict[type[Base], dict[str, str]] = {
    models.CurvePoint: {
        "elapsed_s": "of_.elapsed_s * to_.pace",
        "accuracy": "min(1.0, of_.accuracy * to_.better)",
    },
    models.Counters: {
        "commits": COMMITS,
        "fallbacks": "of_.fallbacks + of_.commits * to_.moved / 100",
        "attempts": f"{COMMITS} + (of_.attempts - of_.commits) * to_.aborts",
        "lock_waited_s": "of_.lock_waited_s * to_.pace",
        "lock_held_s": "of_.lock_held_s * to_.pace",
    },
    models.ThreadAbort: {"n": "of_.n * to_.aborts"},
    models.RunAbort: {"n": "of_.n * to_.aborts"},
    models.LostUpdate: {"lost": "min(of_.expected, of_.lost * to_.aborts)"},
    models.VariableRead: {"torn": "min(of_.reads, of_.torn * to_.aborts)"},
    models.Staleness: {},
    models.Retries: {},
    models.FusedUpdate: {},
}


def add(db: sqlite3.Connection, model: type[Base], row: Mapping[str, Any]) -> int:
    """Insert a row; return its id."""
    names = ", ".join(row)
    added = db.execute(
        f"INSERT INTO {model.__tablename__} ({names}) VALUES ({', '.join('?' * len(row))})", list(row.values())
    )
    assert added.lastrowid is not None
    return added.lastrowid


def opened(path: Path) -> sqlite3.Connection:
    """A connection for bulk writing; a crash corrupts the file."""
    db = sqlite3.connect(path)
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -1000000"):
        db.execute(f"PRAGMA {pragma}")
    for name, function in FUNCTIONS.items():
        db.create_function(name, -1, function, deterministic=True)
    return db


def copy_rounds(db: sqlite3.Connection, copies: Sequence[Copy]) -> None:
    """Add the rounds, each with a separate run file, and their runs with all details."""
    files = [add(db, RunFile, _run_file(copy)) for copy in copies]
    names = ("campaign_id", "experiment_id", "number")
    for copy in copies:
        row = {"id": copy.round_id, "order_seed": copy.number, **{name: getattr(copy, name) for name in names}}
        add(db, Round, row)
    _fill_copied(db, [(*copy, file) for copy, file in zip(copies, files, strict=True)])
    indexes = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'run' AND sql <> ''")
    for name, _ in (dropped := indexes.fetchall()):
        db.execute(f"DROP INDEX {name}")
    _insert(db, Run, "id", OF_RUN)
    for _, sql in dropped:
        db.execute(sql)
    for model, changed in OF_DETAILS.items():
        _insert(db, model, "run_id", {"run_id": "to_.run_id", **changed})


def _run_file(copy: Copy) -> dict[str, Any]:
    return {
        "sha256": sha256(f"run file of round {copy.round_id}"),
        "name": f"round-{copy.number:03}.jsonl",
        "ingested_at_utc": "2028-01-01T00:00:00.000Z",
        "n_runs": copy.n_runs,
    }


def _fill_copied(db: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Fill the table `copied`: each planned run and how it differs from its template; `reason` is why it failed."""
    columns = (*Copy._fields, "run_file_id")
    db.execute(f"CREATE TEMP TABLE copy ({', '.join(columns)})")
    db.executemany(f"INSERT INTO copy VALUES ({', '.join('?' * len(columns))})", rows)
    db.execute(
        "CREATE TEMP TABLE point AS SELECT round_id AS of_round, id AS of_run, spec_id, status,"
        " row_number() OVER (PARTITION BY round_id ORDER BY spec_id) - 1 AS place FROM run"
    )
    db.execute("CREATE INDEX temp.of_round ON point (of_round, place)")
    db.execute(f"""
        CREATE TEMP TABLE copied AS
        SELECT first_run_id + place AS run_id, of_run, round_id, copy.number, platform_id, environment_id, software_id,
            run_file_id, aborts, moved, began_s + {SECONDS} * place AS started_s,
            pace * unlike(platform_id, spec_id, first_run_id + place) AS pace,
            1 + 0.01 * normal(first_run_id + place, 3) AS better,
            iif(status = 'ok', fate(first_run_id + place), NULL) AS fate
        FROM copy CROSS JOIN point ON point.of_round = copy.of_round AND place < n_runs
    """)


def _insert(db: sqlite3.Connection, model: type[Base], key: str, changed: Mapping[str, str]) -> None:
    """Copy the rows of the templates, selected by `key`, in the order of the new runs; failed runs have no details."""
    table, columns = model.__tablename__, model.__table__.columns.keys()
    values = [changed.get(name, f"of_.{name}") for name in columns]
    which = "" if model is Run else "WHERE to_.fate IS NULL"
    db.execute(f"""
        INSERT INTO {table} ({", ".join(columns)}) SELECT {", ".join(values)}
        FROM copied to_ CROSS JOIN {table} of_ ON of_.{key} = to_.of_run {which}
    """)


def chance(*keys: int) -> float:
    """A pseudo-random number between 0 and 1 that depends only on the keys."""
    digest = hashlib.blake2b(repr(keys).encode(), digest_size=6).digest()
    return (int.from_bytes(digest) + 0.5) / 2**48


def normal(*keys: int) -> float:
    return NormalDist().inv_cdf(chance(*keys))


def unlike(platform: int, spec: int, run: int) -> float:
    """The time of a run relative to its template: a factor of its platform at this point, and one of this run."""
    return math.exp(0.15 * normal(platform, spec) + 0.03 * normal(run))


def fate(run: int) -> str | None:
    """The status of a copy, which may be a failure although its template has a result."""
    luck = chance(run, 1)
    for status, share in zip(REASONS, RARE, strict=True):
        if luck < share:
            return status
        luck -= share
    return None


def reason(its_fate: str | None) -> str | None:
    return None if its_fate is None else REASONS[its_fate]


def uid(run: int) -> str:
    return str(uuid.UUID(bytes=hashlib.blake2b(b"%d" % run, digest_size=16).digest()))


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in (chance, normal, unlike, fate, reason, uid, sha256)
}
