"""A database is copied before it is upgraded, and remains usable whenever the upgrade is interrupted."""

from __future__ import annotations

import hashlib
import random
import re
import shutil
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import URL

from tests.store.schemas import downgrade
from tests.support.killing import kill_after, seconds_of
from tests.support.sample_runs import sample_runs
from tmflow.base.errors import BadInput
from tmflow.runfile import record
from tmflow.store import engine, schema
from tmflow.store.ingest import ingest
from tmflow.store.migrations import head

OLDER = ["0009", "0008", "0007", "0006", "0005", "0004", "0003", "0002", "0001"]
State = tuple[str, dict[str, str]]
COPIES = 140  # of 72 runs: ten thousand, with half a million rows
KILLS = 8


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A database of each revision, with the same ten thousand runs."""
    folder = tmp_path_factory.mktemp("large")
    record.write(folder / "0.jsonl", sample_runs(strategies=("tf_lock", "tf_nolock", "stm"), rounds=8))
    text = (folder / "0.jsonl").read_text()
    paths = []
    for number in range(COPIES):
        paths.append(folder / f"{number}.jsonl")
        own = text.replace("campaign-1", f"campaign-{number}")
        paths[-1].write_text(re.sub('"uid": "[0-9a-f]{8}-', f'"uid": "{number:08x}-', own))
    newest = folder / "study.db"
    ingest(engine.sqlite_url(newest), paths)
    found = {head(): newest}
    for revision in OLDER:
        found[revision] = shutil.copy(newest, folder / f"{revision}.db")
        if revision != OLDER[0]:
            shutil.copy(found[OLDER[OLDER.index(revision) - 1]], found[revision])
        downgrade(engine.sqlite_url(found[revision]), revision)
    return found


@pytest.fixture(scope="module")
def states(databases: dict[str, Path]) -> dict[str, State]:
    return {revision: state(path) for revision, path in databases.items()}


@pytest.fixture
def old(databases: dict[str, Path], tmp_path: Path) -> URL:
    """A database of the first revision."""
    return engine.sqlite_url(Path(shutil.copy(databases["0001"], tmp_path / "study.db")))


def state(path: Path) -> State:
    """The revision of a SQLite file, and a hash of the rows of each table, whatever the order of its columns."""
    with closing(sqlite3.connect(path)) as db:
        ((revision,),) = db.execute("SELECT version_num FROM alembic_version")
        tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
        hashes = {}
        for (name,) in tables.fetchall():
            names = sorted(row[1] for row in db.execute(f"PRAGMA table_info({name})"))
            columns = ", ".join(f'"{column}"' for column in names)
            rows = db.execute(f"SELECT {columns} FROM {name} ORDER BY {columns}")
            hashes[name] = hashlib.sha256(f"{columns}{rows.fetchall()}".encode()).hexdigest()
    return revision, hashes


@pytest.mark.deep
@pytest.mark.parametrize("revision", OLDER)
def test_every_revision_is_upgraded_whole_and_kept_beside(
    databases: dict[str, Path], states: dict[str, State], tmp_path: Path, revision: str
) -> None:
    path = Path(shutil.copy(databases[revision], tmp_path / "study.db"))
    assert states[revision][0] == revision
    done = schema.upgrade(engine.sqlite_url(path))
    assert done == (revision, head(), tmp_path / f"study.db.before-{head()}")
    assert state(path) == states[head()]
    assert done.copy
    assert state(done.copy) == states[revision]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["study.db", f"study.db.before-{head()}"]
    assert schema.upgrade(engine.sqlite_url(path)).copy is None


@pytest.mark.deep
def test_an_upgrade_that_is_killed_leaves_the_old_or_the_new(
    databases: dict[str, Path], states: dict[str, State], tmp_path: Path, old: URL
) -> None:
    path = engine.sqlite_path(old)
    whole_s = seconds_of(partial(schema.upgrade, old))
    killed = 0
    for number in range(KILLS):
        for file in tmp_path.iterdir():
            file.unlink()
        shutil.copy(databases["0001"], path)
        killed += kill_after(random.uniform(0.02, 1) * whole_s, partial(schema.upgrade, old))
        found = state(path)
        assert found == states[found[0]], number
        assert schema.upgrade(old)[:2] == (found[0], head())
        assert {file.name for file in tmp_path.iterdir() if ".tmp" not in file.name} <= {
            path.name,
            f"{path.name}.before-{head()}",
        }
    assert killed


def test_without_a_place_for_the_copy_nothing_is_changed(old: URL) -> None:
    path = engine.sqlite_path(old)
    copy = path.with_name(f"{path.name}.before-{head()}")
    copy.mkdir()
    before = state(path)
    with pytest.raises(BadInput, match=rf"before-{head()} cannot be written"):
        schema.upgrade(old)
    assert state(path) == before


def test_what_holds_no_run_is_not_copied(sqlite: URL) -> None:
    schema.upgrade(sqlite)
    downgrade(sqlite, "0007")
    assert schema.upgrade(sqlite) == ("0007", head(), None)
