"""The migrations lead to the schema of the models, and an incompatible database is recognised and left unchanged."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import URL, create_engine
from sqlalchemy.exc import IntegrityError

from tests.store.schemas import contents, definitions, downgrade
from tests.support.forged import contribute, forged_runs, local_runs, store
from tests.support.own_runs import ARRAYS, own_runs
from tests.support.sample_runs import CLUSTER, EMULATED, FULL, FUSED, OPTIMISER, SOFTWARE_TM, sample_runs
from tmflow.base.errors import BadInput
from tmflow.contributions.importer import contributions, withdraw
from tmflow.runfile import record
from tmflow.runfile.record import OF_SLOTS, TRAFFIC
from tmflow.spec.strategies import PARAMETERS
from tmflow.store import engine, schema
from tmflow.store.ingest import ingest
from tmflow.store.migrations import alembic_config, head
from tmflow.store.models import Base


def of_models(url: URL) -> set[tuple[str, ...]]:
    made = create_engine(url)
    Base.metadata.create_all(made)
    with made.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num TEXT)")
    made.dispose()
    return definitions(url)


def test_migrations_from_nothing_make_the_models_on_sqlite(sqlite: URL, tmp_path: Path) -> None:
    assert schema.upgrade(sqlite)[:2] == (None, head())
    assert definitions(sqlite) == of_models(engine.sqlite_url(tmp_path / "models.db"))


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
    with sqlite3.connect(engine.sqlite_path(sqlite)) as connection:
        strict = dict(connection.execute("SELECT name, strict FROM pragma_table_list WHERE schema = 'main'").fetchall())
    assert {strict[name] for name in Base.metadata.tables} == {1}


def test_upgrade_and_check(url: URL) -> None:
    assert not schema.exists(url)
    schema.require_usable(url)
    assert schema.upgrade(url)[:2] == (None, head())
    assert schema.upgrade(url)[:2] == (head(), head())
    assert schema.exists(url)
    schema.require_usable(url)
    assert schema.check(url) == schema.SchemaState(revision=head(), head=head(), ok=True, problems=())


def test_there_is_no_way_back_from_the_first_revision(url: URL) -> None:
    schema.upgrade(url)
    with pytest.raises(BadInput, match="no older schema"), engine.writer_engine(url).begin() as connection:
        command.downgrade(alembic_config(connection), "base")
    assert schema.check(url).ok


# What the fourth revision added, in addition to parameters: to a spec, to counters, and tables.
BEYOND = ("hidden", "activation", "reading", "layout", "measures")
LOCK_TIMES = ("lock_waited_s", "lock_held_s")
CLOCKS = ("suspended_s", "clock_moved_s")  # of a run, by the fifth
FOUND = ("retries", "variable_read", "lost_update", "fused_update")
TALLY = "round_tally"  # the sixth
LATER = "later_factors_json"  # of a spec, by the eleventh
CONTENTION = ("failed_publications", "taken_blocks")  # the ninth
REPEAT = "repeat"  # of a run, by the twelfth
OF_CLUSTER = ("process", "phase")  # the fourteenth


def of_the_seventh(tables: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Except for the changes of later revisions."""
    kept = {
        name: rows for name, rows in tables.items() if name not in ("contribution", "probe", *CONTENTION, *OF_CLUSTER)
    }
    named = ("run", TALLY) if TALLY in tables else ("run",)
    changed = {name: without(tables[name], "contribution_id", REPEAT) for name in named}
    experiment = without(tables["experiment"], "last_run_at_utc")
    return kept | changed | {"experiment": experiment, "spec": without(tables["spec"], LATER)}


def without(rows: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


def test_the_second_revision_keeps_what_the_first_held(url: URL, tmp_path: Path) -> None:
    file = tmp_path / "round-001.jsonl"
    record.write(file, sample_runs(strategies=("tf_lock", "stm"), threads=(1, 2), rounds=1))
    schema.upgrade(url)
    ingest(url, [file])
    before = contents(url)
    downgrade(url, "0001")
    old = of_the_seventh(contents(url))
    expected = {name: rows for name, rows in of_the_seventh(before).items() if name not in (*FOUND, TALLY)}
    assert old == expected | {
        "spec": without(before["spec"], *PARAMETERS, *BEYOND, LATER),
        "counters": without(before["counters"], *LOCK_TIMES),
        "run": without(expected["run"], *CLOCKS),
    }
    with pytest.raises(BadInput, match=f"revision 0001, and this tmflow needs {head()}; run `tmflow db upgrade`"):
        engine.open_reader(url)
    assert schema.upgrade(url)[:2] == ("0001", head())
    assert contents(url) == before
    assert len(before["run"]) == 4
    assert schema.check(url).ok


def test_the_third_revision_keeps_what_the_second_held(url: URL, tmp_path: Path) -> None:
    file = tmp_path / "round-001.jsonl"
    rtm = {"strategy": "htm", "provider": "rtm", "budget": 0, "spending": "tuned", "chunk": 64}
    record.write(file, sample_runs(strategies=("tf_lock", rtm), threads=(1, 2), rounds=1))
    schema.upgrade(url)
    ingest(url, [file])
    before, made = contents(url), definitions(url)
    downgrade(url, "0002")
    later = set(PARAMETERS) - {"provider", "budget", "spending", "chunk"}
    assert contents(url)["spec"] == without(before["spec"], *later, *BEYOND, LATER)
    with engine.writer_engine(url).begin() as connection, pytest.raises(IntegrityError, match="ck_spec_provider_valid"):
        connection.exec_driver_sql("UPDATE spec SET provider = 'emulated'")
    assert schema.upgrade(url)[:2] == ("0002", head())
    assert contents(url) == before
    assert {row["provider"] for row in before["spec"]} == {None, "rtm"}
    assert definitions(url) == made
    assert schema.check(url).ok
    record.write(file, sample_runs(strategies=(EMULATED,), threads=(1,), campaign="campaign-2"))
    assert ingest(url, [file]).runs_new == 3


def test_the_fourth_revision_keeps_what_the_third_held(url: URL, tmp_path: Path) -> None:
    file = tmp_path / "round-001.jsonl"
    eigen = {"strategy": "lock", "kernel": "eigen", "optimisation": "O3"}
    record.write(file, sample_runs(strategies=("tf_lock", eigen, EMULATED), threads=(1, 2), rounds=1))
    schema.upgrade(url)
    ingest(url, [file])
    before, made = contents(url), definitions(url)
    downgrade(url, "0003")
    old = of_the_seventh(contents(url))
    expected = {name: rows for name, rows in of_the_seventh(before).items() if name not in (*FOUND, TALLY)}
    assert old == expected | {
        "spec": without(before["spec"], *BEYOND, "block", "promise", LATER),
        "counters": without(before["counters"], *LOCK_TIMES),
        "run": without(expected["run"], *CLOCKS),
    }
    for change, objection in {
        "kernel = 'fused'": "ck_spec_kernel_valid",
        "variables = NULL": r"(?i)not.null",
        "intra_op_threads = 2000": "ck_spec_intra_op_threads_range",
    }.items():
        with engine.writer_engine(url).begin() as connection, pytest.raises(IntegrityError, match=objection):
            connection.exec_driver_sql(f"UPDATE spec SET {change}")
    assert schema.upgrade(url)[:2] == ("0003", head())
    assert contents(url) == before
    assert definitions(url) == made
    assert {(row["reading"], row["layout"], row["measures"]) for row in before["spec"]} == {
        ("plain", "separate", "usual")
    }
    assert schema.check(url).ok
    record.write(file, sample_runs(strategies=(FUSED,), threads=(2,), campaign="campaign-2", **FULL))
    assert ingest(url, [file]).runs_new == 3


def test_the_fifth_revision_keeps_what_the_fourth_held_and_what_clocks_did_is_not_given_up(
    url: URL, tmp_path: Path
) -> None:
    file = tmp_path / "round-001.jsonl"
    runs = sample_runs(strategies=("tf_lock",), threads=(1, 2), rounds=1)
    record.write(file, runs)
    schema.upgrade(url)
    ingest(url, [file])
    before, made = contents(url), definitions(url)
    downgrade(url, "0004")
    old, expected = map(of_the_seventh, (contents(url), before))
    assert old | {TALLY: expected[TALLY]} == expected | {"run": without(expected["run"], *CLOCKS)}
    assert schema.upgrade(url)[:2] == ("0004", head())
    assert (contents(url), definitions(url)) == (before, made)
    machine = runs[0].machine
    assert machine
    slept = machine.model_copy(update={"suspended_s": 3.5, "clock_moved_s": -1.25, "disturbed": True})
    file = tmp_path / "round-002.jsonl"
    record.write(file, [runs[0].model_copy(update={"machine": slept, "uid": "a-run-that-slept", "round": 2})])
    ingest(url, [file])
    assert next(row for row in contents(url)["run"] if row["uid"] == "a-run-that-slept")["clock_moved_s"] == -1.25
    with pytest.raises(BadInput, match="revision 0004 cannot hold what the clocks did"):
        downgrade(url, "0004")
    assert schema.check(url).ok


def test_the_sixth_revision_counts_the_runs_that_are_there(url: URL, tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.jsonl" for number in range(2)]
    record.write(files[0], sample_runs(strategies=("tf_lock", EMULATED, "htm"), threads=(1, 2), unsupported=("htm",)))
    record.write(files[1], sample_runs(("fig_4_4",), rounds=2, campaign="campaign-2", platform={"sockets": 2}))
    schema.upgrade(url)
    ingest(url, files)
    before, made = contents(url), definitions(url)
    assert len(before[TALLY]) == 3 * 3 + 2
    downgrade(url, "0005")
    assert TALLY not in contents(url)
    assert schema.upgrade(url)[:2] == ("0005", head())
    assert (contents(url), definitions(url)) == (before, made)
    assert schema.check(url).ok


def test_the_seventh_revision_changes_indexes_alone_and_the_eighth_keeps_all(url: URL, tmp_path: Path) -> None:
    file = tmp_path / "round-001.jsonl"
    record.write(file, runs := sample_runs(strategies=("tf_lock",), threads=(1, 2), rounds=1))
    schema.upgrade(url)
    ingest(url, [file])
    before, made = contents(url), definitions(url)
    downgrade(url, "0007")
    seventh = contents(url), definitions(url)
    assert of_the_seventh(seventh[0]) == of_the_seventh(before)
    assert {row["last_run_at_utc"] for row in seventh[0]["experiment"]} == {max(run.started_at_utc for run in runs)}
    downgrade(url, "0006")
    assert contents(url) == seventh[0]
    assert {row[0] for row in seventh[1] ^ definitions(url)} <= {"run", "ix_run_search", "ix_run_spec_id"}
    assert schema.upgrade(url)[:2] == ("0006", head())
    assert (contents(url), definitions(url)) == (before, made)
    assert schema.check(url).ok


def test_runs_that_were_made_without_python_are_not_given_up(url: URL, tmp_path: Path) -> None:
    file = tmp_path / "round-001.jsonl"
    (run,) = sample_runs(strategies=("tf_lock",), threads=(1,), rounds=1)
    schema.upgrade(url)
    downgrade(url, "0007")
    assert schema.upgrade(url)[:2] == ("0007", head())
    record.write(file, [run.model_copy(update={"software": run.software.model_copy(update={"python": None})})])
    ingest(url, [file])
    assert [row["python"] for row in contents(url)["software"]] == [None]
    with pytest.raises(BadInput, match="revision 0007 cannot hold the runs of this database that were made without"):
        downgrade(url, "0007")
    assert schema.check(url).ok


def test_no_run_is_left_without_its_spec(url: URL, tmp_path: Path) -> None:
    """Runs refer to the table that SQLite recreates: the migration must stop if a run would lose its spec."""
    file = tmp_path / "round-001.jsonl"
    record.write(file, sample_runs(strategies=("tf_lock",), threads=(1, 2), rounds=1))
    schema.upgrade(url)
    ingest(url, [file])
    downgrade(url, "0003")
    assert schema.upgrade(url)[:2] == ("0003", head())
    with engine.writer_engine(url).begin() as connection, pytest.raises(IntegrityError, match=r"(?i)foreign.key"):
        connection.exec_driver_sql("DELETE FROM spec")
    assert schema.check(url).ok


@pytest.mark.deep
@pytest.mark.parametrize(
    ("variant", "to", "says"),
    [
        ({"strategy": "htm", "budget": 0}, "0001", "revision 0001 cannot hold the parameters"),
        (SOFTWARE_TM, "0002", "revision 0002 cannot hold the parameters of strategies, or the emulators"),
        ({"strategy": "lock", "kernel": "eigen"}, "0002", "revision 0002 cannot hold"),
        (EMULATED, "0002", "revision 0002 cannot hold"),
        ({"strategy": "lock", "kernel": "skip_zero"}, "0011", "revision 0011 cannot hold the kernel skip_zero"),
        (FUSED, "0003", "revision 0003 cannot hold the factors beyond the study, or the full measures"),
        ({"strategy": "striped", "block": 2048}, "0003", "revision 0003 cannot hold"),
        ({"strategy": "adaptive", "promise": "tensor"}, "0003", "revision 0003 cannot hold"),
        ({"strategy": "lock", "reading": "consistent"}, "0003", "revision 0003 cannot hold"),
        ({"strategy": "lock", "layout": "joined"}, "0003", "revision 0003 cannot hold"),
        ({"strategy": "lock", "measures": "full"}, "0003", "revision 0008 cannot hold the failed publications"),
        ({"strategy": "lock", "driver": "native"}, "0003", "revision 0003 cannot hold"),
        ({"strategy": "lock", **CLUSTER}, "0014", "revision 0014 cannot hold what the steps of clusters here transfer"),
        (OPTIMISER, "0015", "revision 0015 cannot hold the inconsistent elements that are here"),
        ({"strategy": "lock", "model": "mnist_mlp", "hidden": 8, "activation": "relu"}, "0003", "revision 0003 cannot"),
    ],
    ids=str,
)
def test_nothing_is_given_up_for_an_older_schema(
    url: URL, tmp_path: Path, variant: dict[str, Any], to: str, says: str
) -> None:
    file = tmp_path / "round-001.jsonl"
    record.write(file, sample_runs(strategies=(variant,), threads=(1,), rounds=1))
    schema.upgrade(url)
    ingest(url, [file])
    before = contents(url)
    with pytest.raises(BadInput, match=says):
        downgrade(url, to)
    assert schema.check(url).ok
    assert contents(url) == before


def test_the_ninth_revision_counts_the_runs_of_each_contribution_apart(url: URL, tmp_path: Path) -> None:
    store(url, tmp_path / "local", local_runs())
    for campaign in ("forged", "withdrawn"):
        contribute(url, tmp_path / campaign, forged_runs(campaign=campaign), f"{campaign}.zip")
    withdraw(url, contributions(engine.open_reader(url))["identity"].iloc[1], "invented")
    before, made = contents(url), definitions(url)
    assert {row["contribution_id"] for row in before[TALLY]} == {0, 1}
    downgrade(url, "0008")
    assert all("contribution_id" not in row for row in contents(url)[TALLY])
    assert schema.upgrade(url)[:2] == ("0008", head())
    assert (contents(url), definitions(url)) == (before, made)
    assert schema.check(url).ok


def test_the_twelfth_revision_keeps_what_the_eleventh_held(url: URL, tmp_path: Path) -> None:
    store(url, tmp_path, local_runs())
    before, made = contents(url), definitions(url)
    downgrade(url, "0011")
    assert schema.upgrade(url)[:2] == ("0011", head())
    assert (contents(url), definitions(url)) == (before, made)
    assert schema.check(url).ok


def test_the_thirteenth_revision_keeps_runs_with_their_details(url: URL, tmp_path: Path) -> None:
    """SQLite recreates the table of runs, and the details of a run are deleted with it."""
    file = tmp_path / "round-001.jsonl"
    runs = sample_runs(strategies=("tf_lock", SOFTWARE_TM, EMULATED), threads=(1, 2), rounds=2)
    full = sample_runs(strategies=(FUSED,), threads=(2,), campaign="campaign-2", **FULL)
    record.write(file, [*runs, *(run.model_copy(update={"fused": ["W"]}) for run in full)])
    schema.upgrade(url)
    ingest(url, [file])
    before, made = contents(url), definitions(url)
    assert all(before[name] for name in ("counters", "thread_abort", "run_abort", "curve_point", *FOUND))
    downgrade(url, "0012")
    kept = {name: rows for name, rows in before.items() if name not in OF_CLUSTER}
    lost = without(before["lost_update"], *OF_SLOTS)
    assert contents(url) == kept | {"run": without(before["run"], REPEAT), "lost_update": lost}
    assert schema.upgrade(url)[:2] == ("0012", head())
    assert (contents(url), definitions(url)) == (before, made)
    assert {row[REPEAT] for row in before["run"]} == {1}
    assert schema.check(url).ok


def test_the_fourteenth_revision_keeps_what_the_thirteenth_held(url: URL, tmp_path: Path) -> None:
    store(url, tmp_path, local_runs())
    before, made = contents(url), definitions(url)
    downgrade(url, "0013")
    assert contents(url) == {name: rows for name, rows in before.items() if name not in OF_CLUSTER}
    assert schema.upgrade(url)[:2] == ("0013", head())
    assert (contents(url), definitions(url)) == (before, made)
    assert schema.check(url).ok


def test_the_fifteenth_revision_keeps_the_phases_of_the_fourteenth(url: URL, tmp_path: Path) -> None:
    """Runs of an earlier version have phases without traffic; for the thirteenth revision they are too much."""
    (run,) = sample_runs(strategies=("lock",), threads=(2,), rounds=1, **CLUSTER)
    phases = [phase.model_copy(update=dict.fromkeys(TRAFFIC)) for phase in run.phases]
    store(url, tmp_path, [run.model_copy(update={"phases": phases})])
    before, made = contents(url), definitions(url)
    downgrade(url, "0014")
    assert contents(url) == before | {"phase": without(before["phase"], *TRAFFIC)}
    with pytest.raises(BadInput, match="revision 0013 cannot hold the processes of clusters"):
        downgrade(url, "0013")
    assert schema.upgrade(url)[:2] == ("0014", head())
    assert (contents(url), definitions(url)) == (before, made)
    assert schema.check(url).ok


def test_the_sixteenth_revision_keeps_the_lost_updates_of_the_fifteenth(url: URL, tmp_path: Path) -> None:
    store(url, tmp_path, sample_runs(strategies=("lock",), threads=(2,), rounds=1, **FULL))
    before, made = contents(url), definitions(url)
    assert before["lost_update"]
    downgrade(url, "0015")
    assert contents(url) == before | {"lost_update": without(before["lost_update"], *OF_SLOTS)}
    assert schema.upgrade(url)[:2] == ("0015", head())
    assert (contents(url), definitions(url)) == (before, made)
    assert schema.check(url).ok


def test_the_nineteenth_revision_keeps_what_the_eighteenth_held(url: URL, tmp_path: Path) -> None:
    """SQLite recreates the table of runs, and the details of a run are deleted with it."""
    runs = sample_runs(strategies=("tf_lock", SOFTWARE_TM), threads=(1, 2), rounds=2)
    store(url, tmp_path, [*runs, *sample_runs(strategies=("lock",), threads=(2,), campaign="campaign-2", **FULL)])
    before, made = contents(url), definitions(url)
    assert all(before[name] for name in ("counters", "thread_abort", "curve_point", "lost_update"))
    downgrade(url, "0018")
    assert contents(url) == before
    with pytest.raises(IntegrityError), engine.writer_engine(url).begin() as connection:
        connection.exec_driver_sql("UPDATE run SET final_accuracy = NULL WHERE id = 1")
    assert schema.upgrade(url)[:2] == ("0018", head())
    assert (contents(url), definitions(url)) == (before, made)
    assert schema.check(url).ok


def test_runs_that_are_only_timed_are_too_much_for_the_eighteenth_revision(url: URL, tmp_path: Path) -> None:
    store(url, tmp_path, own_runs(ARRAYS))
    before = contents(url)
    with pytest.raises(BadInput, match="revision 0018 cannot hold the runs without an accuracy that are here"):
        downgrade(url, "0018")
    assert contents(url) == before


@pytest.mark.parametrize(
    ("behind", "change", "held"),
    [
        ("0016", "subscription = 'slots' WHERE subscription = 'variable'", "subscription slots"),
        ("0017", "block = 0 WHERE strategy = 'striped'", "block 0"),
    ],
)
def test_a_revision_that_allows_a_value_keeps_the_rest(
    behind: str, change: str, held: str, url: URL, tmp_path: Path
) -> None:
    store(url, tmp_path, sample_runs(strategies=("lock", EMULATED, "striped"), threads=(2,), rounds=1))
    before, made = contents(url), definitions(url)
    downgrade(url, behind)
    assert contents(url) == before
    assert schema.upgrade(url)[:2] == (behind, head())
    assert (contents(url), definitions(url)) == (before, made)
    with engine.writer_engine(url).begin() as connection:
        assert connection.exec_driver_sql(f"UPDATE spec SET {change}").rowcount == 1
    before = contents(url)
    with pytest.raises(BadInput, match=f"revision {behind} cannot hold the {held}"):
        downgrade(url, behind)
    assert contents(url) == before


def test_repeats_are_stored_once_each_and_not_given_up(url: URL, tmp_path: Path) -> None:
    file, clash = tmp_path / "round-001.jsonl", tmp_path / "round-002.jsonl"
    (first,) = sample_runs(strategies=("tf_lock",), threads=(2,), rounds=1)
    second = first.model_copy(update={"uid": "the-second-repeat", "repeat": 2, "ordinal": 1})
    record.write(file, [first, second])
    schema.upgrade(url)
    assert ingest(url, [file]).runs_new == 2
    assert [row[REPEAT] for row in contents(url)["run"]] == [1, 2]
    record.write(clash, [second.model_copy(update={"uid": "another-second-repeat"})])
    with pytest.raises(BadInput, match=f"round, spec and repeat of run {second.uid}; each"):
        ingest(url, [clash])
    run = "UPDATE run SET repeat = {} WHERE uid = 'the-second-repeat'"
    for value, objection in ((0, "ck_run_repeat_positive"), (1, r"(?i)unique")):
        with engine.writer_engine(url).begin() as connection, pytest.raises(IntegrityError, match=objection):
            connection.exec_driver_sql(run.format(value))
    before = contents(url)
    with pytest.raises(BadInput, match="revision 0012 cannot hold the repeats"):
        downgrade(url, "0012")
    assert contents(url) == before
    assert schema.check(url).ok
