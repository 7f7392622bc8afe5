"""The schema's history leads to the models, and a database that does not fit is told apart and left alone."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import URL, MetaData, Table, create_engine, inspect, select
from sqlalchemy.exc import IntegrityError

from tests.sample_runs import EMULATED, FULL, FUSED, SOFTWARE_TM, sample_runs
from tmflow.errors import BadInput
from tmflow.runner import runfile
from tmflow.store import address, engine, schema
from tmflow.store.ingest import ingest
from tmflow.store.models import Base
from tmflow.store.revision import alembic_config, head
from tmflow.strategy_parameters import PARAMETERS

CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'public'::regnamespace AND conrelid <> 'alembic_version'::regclass
UNION ALL
SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'alembic_version'
UNION ALL
SELECT table_name, column_name, concat_ws(' ', data_type, is_nullable, column_default) FROM information_schema.columns
WHERE table_schema = 'public' AND table_name <> 'alembic_version'
"""
# Where one definition ends and the next begins: at a new line, or where a migration added a column to a line.
BETWEEN = re.compile(r"\n|,\s+(?=\w+ (?:INTEGER|REAL|TEXT)\b)|\s+(?=CONSTRAINT )")
DEFINITIONS = "SELECT name, sql FROM sqlite_master WHERE tbl_name <> 'alembic_version' AND sql IS NOT NULL"


def definitions(url: URL) -> set[tuple[str, ...]]:
    """Everything that the database says of its tables, a line each, in no order."""
    made = create_engine(url)
    with made.connect() as connection:
        if not address.is_sqlite(url):
            return {tuple(row) for row in connection.exec_driver_sql(CONSTRAINTS)}
        tables = connection.exec_driver_sql(DEFINITIONS).all()
    return {(name, line.strip().rstrip(",")) for name, sql in tables for line in BETWEEN.split(sql)}


def of_models(url: URL) -> set[tuple[str, ...]]:
    made = create_engine(url)
    Base.metadata.create_all(made)
    with made.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num TEXT)")
    made.dispose()
    return definitions(url)


def test_migrations_from_nothing_make_the_models_on_sqlite(sqlite: URL, tmp_path: Path) -> None:
    assert schema.upgrade(sqlite) == (None, head())
    assert definitions(sqlite) == of_models(address.sqlite_url(tmp_path / "models.db"))


def test_migrations_from_nothing_make_the_models_on_postgresql(postgresql: URL, postgresql_server: URL) -> None:
    schema.upgrade(postgresql)
    admin = create_engine(postgresql_server, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.exec_driver_sql("DROP DATABASE IF EXISTS of_models")
        connection.exec_driver_sql("CREATE DATABASE of_models TEMPLATE template0")
    admin.dispose()
    assert definitions(postgresql) == of_models(postgresql_server.set(database="of_models"))


def test_sqlite_tables_are_strict(sqlite: URL) -> None:
    schema.upgrade(sqlite)
    with sqlite3.connect(address.sqlite_path(sqlite)) as connection:
        strict = dict(connection.execute("SELECT name, strict FROM pragma_table_list WHERE schema = 'main'").fetchall())
    assert {strict[name] for name in Base.metadata.tables} == {1}


def test_upgrade_and_check(url: URL) -> None:
    assert not schema.exists(url)
    schema.require_usable(url)
    assert schema.upgrade(url) == (None, head())
    assert schema.upgrade(url) == (head(), head())
    assert schema.exists(url)
    schema.require_usable(url)
    assert schema.check(url) == schema.SchemaState(revision=head(), head=head(), ok=True, problems=())


def test_there_is_no_way_back_from_the_first_revision(url: URL) -> None:
    schema.upgrade(url)
    with pytest.raises(BadInput, match="no older schema"), engine.writer_engine(url).begin() as connection:
        command.downgrade(alembic_config(connection), "base")
    assert schema.check(url).ok


def contents(url: URL) -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables, in the order of their keys."""
    tables = inspect(create_engine(url)).get_table_names()
    with engine.reader_engine(url).connect() as connection:
        found = {}
        for name in sorted(set(tables) - {"alembic_version"}):
            table = Table(name, MetaData(), autoload_with=connection)
            statement = select(table).order_by(*table.primary_key)
            found[name] = [dict(row._mapping) for row in connection.execute(statement)]
        return found


# What the fourth revision brought, beside parameters: of a spec, of counters, and tables.
BEYOND = ("hidden", "activation", "reading", "layout", "measures")
LOCK_TIMES = ("lock_waited_s", "lock_held_s")
CLOCKS = ("suspended_s", "clock_moved_s")  # of a run, by the fifth
FOUND = ("retries", "variable_read", "lost_update", "fused_update")


def without(rows: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


def test_the_second_revision_keeps_what_the_first_held(url: URL, tmp_path: Path) -> None:
    file = tmp_path / "round-001.jsonl"
    runfile.write(file, sample_runs(strategies=("tf_lock", "stm"), threads=(1, 2), rounds=1))
    schema.upgrade(url)
    ingest(url, [file])
    before = contents(url)
    downgrade(url, "0001")
    old = contents(url)
    told = {name: rows for name, rows in before.items() if name not in FOUND}
    assert old == told | {
        "spec": without(before["spec"], *PARAMETERS, *BEYOND),
        "counters": without(before["counters"], *LOCK_TIMES),
        "run": without(before["run"], *CLOCKS),
    }
    with pytest.raises(BadInput, match=f"revision 0001, and this tmflow needs {head()}; run `tmflow db upgrade`"):
        engine.open_reader(url)
    assert schema.upgrade(url) == ("0001", head())
    assert contents(url) == before
    assert len(before["run"]) == 4
    assert schema.check(url).ok


def test_the_third_revision_keeps_what_the_second_held(url: URL, tmp_path: Path) -> None:
    file = tmp_path / "round-001.jsonl"
    rtm = {"strategy": "htm", "provider": "rtm", "budget": 0, "spending": "tuned", "chunk": 64}
    runfile.write(file, sample_runs(strategies=("tf_lock", rtm), threads=(1, 2), rounds=1))
    schema.upgrade(url)
    ingest(url, [file])
    before, made = contents(url), definitions(url)
    downgrade(url, "0002")
    later = set(PARAMETERS) - {"provider", "budget", "spending", "chunk"}
    assert contents(url)["spec"] == without(before["spec"], *later, *BEYOND)
    with engine.writer_engine(url).begin() as connection, pytest.raises(IntegrityError, match="ck_spec_provider_valid"):
        connection.exec_driver_sql("UPDATE spec SET provider = 'emulated'")
    assert schema.upgrade(url) == ("0002", head())
    assert contents(url) == before
    assert {row["provider"] for row in before["spec"]} == {None, "rtm"}
    assert definitions(url) == made
    assert schema.check(url).ok
    runfile.write(file, sample_runs(strategies=(EMULATED,), threads=(1,), campaign="campaign-2"))
    assert ingest(url, [file]).runs_new == 3


def test_the_fourth_revision_keeps_what_the_third_held(url: URL, tmp_path: Path) -> None:
    file = tmp_path / "round-001.jsonl"
    eigen = {"strategy": "lock", "kernel": "eigen", "optimisation": "O3"}
    runfile.write(file, sample_runs(strategies=("tf_lock", eigen, EMULATED), threads=(1, 2), rounds=1))
    schema.upgrade(url)
    ingest(url, [file])
    before, made = contents(url), definitions(url)
    downgrade(url, "0003")
    old = contents(url)
    told = {name: rows for name, rows in before.items() if name not in FOUND}
    assert old == told | {
        "spec": without(before["spec"], *BEYOND, "block", "promise"),
        "counters": without(before["counters"], *LOCK_TIMES),
        "run": without(before["run"], *CLOCKS),
    }
    for change, objection in {
        "kernel = 'fused'": "ck_spec_kernel_valid",
        "variables = NULL": r"(?i)not.null",
        "intra_op_threads = 2000": "ck_spec_intra_op_threads_range",
    }.items():
        with engine.writer_engine(url).begin() as connection, pytest.raises(IntegrityError, match=objection):
            connection.exec_driver_sql(f"UPDATE spec SET {change}")
    assert schema.upgrade(url) == ("0003", head())
    assert contents(url) == before
    assert definitions(url) == made
    assert {(row["reading"], row["layout"], row["measures"]) for row in before["spec"]} == {
        ("plain", "separate", "usual")
    }
    assert schema.check(url).ok
    runfile.write(file, sample_runs(strategies=(FUSED,), threads=(2,), campaign="campaign-2", **FULL))
    assert ingest(url, [file]).runs_new == 3


def test_the_fifth_revision_keeps_what_the_fourth_held_and_what_clocks_did_is_not_given_up(
    url: URL, tmp_path: Path
) -> None:
    file = tmp_path / "round-001.jsonl"
    runs = sample_runs(strategies=("tf_lock",), threads=(1, 2), rounds=1)
    runfile.write(file, runs)
    schema.upgrade(url)
    ingest(url, [file])
    before, made = contents(url), definitions(url)
    downgrade(url, "0004")
    assert contents(url) == before | {"run": without(before["run"], *CLOCKS)}
    assert schema.upgrade(url) == ("0004", head())
    assert (contents(url), definitions(url)) == (before, made)
    machine = runs[0].machine
    assert machine
    slept = machine.model_copy(update={"suspended_s": 3.5, "clock_moved_s": -1.25, "disturbed": True})
    file = tmp_path / "round-002.jsonl"
    runfile.write(file, [runs[0].model_copy(update={"machine": slept, "uid": "a-run-that-slept", "round": 2})])
    ingest(url, [file])
    assert next(row for row in contents(url)["run"] if row["uid"] == "a-run-that-slept")["clock_moved_s"] == -1.25
    with pytest.raises(BadInput, match="revision 0004 cannot hold what the clocks did"):
        downgrade(url, "0004")
    assert schema.check(url).ok


def test_no_run_is_left_without_its_spec(url: URL, tmp_path: Path) -> None:
    """Runs refer to the table that SQLite makes anew: one that would lose its spec must stop the migration."""
    file = tmp_path / "round-001.jsonl"
    runfile.write(file, sample_runs(strategies=("tf_lock",), threads=(1, 2), rounds=1))
    schema.upgrade(url)
    ingest(url, [file])
    downgrade(url, "0003")
    assert schema.upgrade(url) == ("0003", head())
    with engine.writer_engine(url).begin() as connection, pytest.raises(IntegrityError, match=r"(?i)foreign.key"):
        connection.exec_driver_sql("DELETE FROM spec")
    assert schema.check(url).ok


@pytest.mark.parametrize(
    ("variant", "to", "says"),
    [
        ({"strategy": "htm", "budget": 0}, "0001", "revision 0001 cannot hold the parameters"),
        (SOFTWARE_TM, "0002", "revision 0002 cannot hold the parameters of strategies, or the emulators"),
        ({"strategy": "lock", "kernel": "eigen"}, "0002", "revision 0002 cannot hold"),
        (EMULATED, "0002", "revision 0002 cannot hold"),
        (FUSED, "0003", "revision 0003 cannot hold the factors beyond the study, or the full measures"),
        ({"strategy": "striped", "block": 2048}, "0003", "revision 0003 cannot hold"),
        ({"strategy": "adaptive", "promise": "tensor"}, "0003", "revision 0003 cannot hold"),
        ({"strategy": "lock", "reading": "consistent"}, "0003", "revision 0003 cannot hold"),
        ({"strategy": "lock", "layout": "joined"}, "0003", "revision 0003 cannot hold"),
        ({"strategy": "lock", "measures": "full"}, "0003", "revision 0003 cannot hold"),
        ({"strategy": "lock", "driver": "native"}, "0003", "revision 0003 cannot hold"),
        ({"strategy": "lock", "model": "mnist_mlp", "hidden": 8, "activation": "relu"}, "0003", "revision 0003 cannot"),
    ],
    ids=str,
)
def test_nothing_is_given_up_for_an_older_schema(
    url: URL, tmp_path: Path, variant: dict[str, Any], to: str, says: str
) -> None:
    file = tmp_path / "round-001.jsonl"
    runfile.write(file, sample_runs(strategies=(variant,), threads=(1,), rounds=1))
    schema.upgrade(url)
    ingest(url, [file])
    before = contents(url)
    with pytest.raises(BadInput, match=says):
        downgrade(url, to)
    assert schema.check(url).ok
    assert contents(url) == before


def downgrade(url: URL, to: str) -> None:
    with engine.writer_engine(url).begin() as connection:
        command.downgrade(alembic_config(connection), to)


def test_check_reports_drift(url: URL) -> None:
    schema.upgrade(url)
    with engine.writer_engine(url).begin() as connection:
        connection.exec_driver_sql("ALTER TABLE spec DROP COLUMN pinning")
        connection.exec_driver_sql("DROP TABLE curve_point")
    state = schema.check(url)
    assert not state.ok
    assert any("lost tables (curve_point)" in problem for problem in state.problems)
    assert any(re.search("add_column .*spec.*pinning", problem) for problem in state.problems)
    with pytest.raises(BadInput, match=r"lost tables \(curve_point\)"):
        engine.open_reader(url)


def test_check_reports_a_broken_reference(sqlite: URL) -> None:
    schema.upgrade(sqlite)
    with sqlite3.connect(address.sqlite_path(sqlite)) as connection:
        connection.execute("INSERT INTO campaign VALUES (1, 'campaign-1', '2026-01-01T00:00:00Z', 99)")
    assert schema.check(sqlite).problems == ("table campaign, row 1: the platform that it refers to does not exist",)


def test_check_reports_damage(sqlite: URL) -> None:
    schema.upgrade(sqlite)
    path = address.sqlite_path(sqlite)
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO run_file VALUES (1, 'abcdef', 'round-001.jsonl', '2026-01-01T00:00:00Z', 0)")
    connection.close()
    # The hash is in the table and in its index; now they disagree.
    path.write_bytes(path.read_bytes().replace(b"abcdef", b"abcdeg", 1))
    assert any("damaged" in problem for problem in schema.check(sqlite).problems)


@pytest.mark.parametrize("opened", [engine.open_reader, engine.open_writer])
class TestUnusable:
    """Each kind of wrong database gets its own sentence, from reader and writer alike."""

    def test_missing(self, sqlite: URL, opened: type) -> None:
        with pytest.raises(BadInput, match=r"study\.db does not exist; `tmflow ingest` or"):
            opened(sqlite)
        assert not address.sqlite_path(sqlite).exists()

    def test_empty(self, postgresql: URL, tmp_path: Path, opened: type) -> None:
        (tmp_path / "empty.db").touch()
        for url in (postgresql, address.sqlite_url(tmp_path / "empty.db")):
            with pytest.raises(BadInput, match="has no tables yet; run `tmflow db upgrade`"):
                opened(url)

    def test_not_a_database(self, tmp_path: Path, opened: type) -> None:
        path = tmp_path / "notes.txt"
        path.write_text("not a database, however long this text may be" * 100)
        with pytest.raises(BadInput, match=r"notes\.txt is not a SQLite database"):
            opened(address.sqlite_url(path))

    def test_a_folder(self, tmp_path: Path, opened: type) -> None:
        with pytest.raises(BadInput, match="is a folder; name a file"):
            opened(address.sqlite_url(tmp_path))

    def test_unknown_revision(self, url: URL, opened: type) -> None:
        schema.upgrade(url)
        with engine.writer_engine(url).begin() as connection:
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
        for refusing in (opened, schema.upgrade, schema.require_usable):
            with pytest.raises(BadInput, match=f"revision 9999, which this tmflow .up to {head()}. does not know"):
                refusing(url)
        assert schema.check(url).revision == "9999"
        assert not schema.check(url).ok

    def test_somebody_else_s(self, url: URL, opened: type) -> None:
        if address.is_sqlite(url):
            address.sqlite_path(url).parent.mkdir()
        made = create_engine(url)
        with made.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE bookmarks (id INTEGER)")
        made.dispose()
        before = definitions(url) if address.is_sqlite(url) else None
        for refusing in (opened, schema.upgrade, schema.require_usable):
            with pytest.raises(BadInput, match=r"tables that are not tmflow's \(bookmarks\)"):
                refusing(url)
        if before is not None:
            assert definitions(url) == before
            assert not list(address.sqlite_path(url).parent.glob("*-wal"))

    def test_unreachable_server(self, opened: type) -> None:
        url = address.parse("postgresql://someone:s3cret@127.0.0.1:1/study?password=s3cret")
        with pytest.raises(BadInput, match="cannot be reached") as caught:
            opened(url)
        assert "someone" in str(caught.value)
        assert "s3cret" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_upgrade_where_no_folder_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="cannot be made: folder"):
        schema.upgrade(address.sqlite_url(tmp_path / "file" / "results" / "study.db"))
