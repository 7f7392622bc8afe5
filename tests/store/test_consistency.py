"""`tmflow db check` finds corruption that no constraint prevents, and describes it."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import URL

from tests.conftest import Tmflow
from tests.support.sample_bundles import sample_bundle
from tests.support.sample_runs import EMULATED, SOFTWARE_TM, sample_runs
from tmflow.contributions.importer import import_bundle
from tmflow.runfile import record
from tmflow.store import engine, models, schema
from tmflow.store.ingest import ingest

HASH = "0" * 64


def fill(url: URL, folder: Path) -> None:
    for number, strategies in enumerate(((EMULATED, SOFTWARE_TM), ("tf_lock", "tle"))):
        path = folder / f"{number}.jsonl"
        record.write(path, sample_runs(strategies=strategies, threads=(1, 2), rounds=2, campaign=f"campaign-{number}"))
        ingest(url, [path])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database without faults."""
    folder = tmp_path_factory.mktemp("whole")
    url = engine.sqlite_url(folder / "study.db")
    fill(url, folder)
    assert schema.check(url).problems == ()
    with closing(sqlite3.connect(folder / "study.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder / "study.db"


def spoilt(path: Path, statement: str) -> tuple[str, ...]:
    """The output of `check` after a statement that no constraint prevents."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        assert connection.execute(statement).rowcount > 0
        connection.commit()
    state = schema.check(engine.sqlite_url(path))
    assert not state.ok
    return state.problems


# The change of the database, and the message of the check.
SPOILT = [
    ("UPDATE run_file SET n_runs = 7 WHERE id = 1", r"run file 0\.jsonl had 7 runs, and 8 are stored of it"),
    # The rollup of aborts
    (
        "UPDATE run_abort SET n = n + 1 WHERE (run_id, reason_id) IN (SELECT run_id, reason_id FROM run_abort LIMIT 1)",
        r"run .{36} has 0 aborts rtm 0x0000000\d of its workers, but 1 in total",
    ),
    (
        "DELETE FROM run_abort WHERE n > 0 AND reason_id = 1",
        r"run .{36} has \d aborts rtm 0x00000006 of its workers, but 0 in total",
    ),
    (
        "INSERT INTO run_abort SELECT id, 1, 5 FROM run WHERE id = 9",
        r"run .{36} has 5 aborts rtm 0x00000006 in total, but none of any worker",
    ),
    (
        "UPDATE counters SET attempts = attempts + 1 WHERE run_id = 1 AND variable = 'W'",
        r"run .{36}: \d+ attempts of worker 0 on W, but \d+ commits and 0 aborts",
    ),
    # The tally of the runs of a round
    (
        "UPDATE round_tally SET n_runs = n_runs + 1 WHERE round_id = 1 AND evidence = 'emulated'",
        r"round 1 of experiment 'fig_4_1' in campaign campaign-0 has 2 runs \(emulated, ok\), the newest of (.{24}), "
        r"but by its tally 3, the newest of \1",
    ),
    (
        "UPDATE round_tally SET newest_run_at_utc = '2027-01-01T00:00:00Z' WHERE round_id = 1",
        r"round 1 .* has 2 runs \(emulated, ok\), the newest of 2026-.*, but by its tally 2, the newest of 2027-01-01",
    ),
    (
        "DELETE FROM round_tally WHERE round_id = 2",
        r"round 2 .* has 2 runs \(measured, ok\), .* but by its tally 0, the newest of none",
    ),
    (
        "UPDATE round_tally SET status = 'failed' WHERE round_id = 1",
        r"round 1 .* has 2 runs \(measured, failed\) by its tally, but there is none",
    ),
    # Raw codes
    (
        "UPDATE abort_reason SET family = 'capacity' WHERE raw_code = '0x00000006' AND mechanism = 'rtm'",
        "abort reason rtm 0x00000006, capacity: the code says 0x00000006, conflict",
    ),
    (
        "UPDATE abort_reason SET raw_code = '0x6' WHERE raw_code = '0x00000006' AND mechanism = 'rtm'",
        "abort reason rtm 0x6, conflict: the code says 0x00000006, conflict",
    ),
    (
        "UPDATE abort_reason SET raw_code = 'six' WHERE raw_code = '0x00000006' AND mechanism = 'rtm'",
        "abort reason rtm six: the raw code is no hexadecimal number",
    ),
    (
        "UPDATE abort_reason SET mechanism = 'magic' WHERE raw_code = '0x00000006' AND mechanism = 'rtm'",
        "abort reason magic 0x00000006: the mechanism is unknown",
    ),
    # Evidence and time
    (
        "UPDATE run SET time_domain = 'simulated' WHERE id = 1",
        r"table run: 1 of its rows violate ck_run_simulated_time_is_simulated \(\(evidence = 'simulated'\) = ",
    ),
    (
        "UPDATE run SET final_accuracy = NULL WHERE id = 1",
        r"run .{36} is ok, and its accuracy does not fit driver sess",
    ),
    ("UPDATE run SET loop_s = NULL WHERE id = 1", r"table run: 1 of its rows violate ck_run_error_xor_result"),
    (
        "UPDATE curve_point SET accuracy = 2",
        r"table curve_point: 48 of its rows violate ck_curve_point_accuracy_range",
    ),
    (
        "UPDATE run SET evidence = 'measured', backend_id = NULL WHERE backend_id = 1",
        r"run .{36} is measured, and its spec has the provider emulated",
    ),
    ("UPDATE backend SET kind = 'simulator'", r"run .{36} is emulated, and its backend is of kind simulator"),
    # Where it ran
    (
        f"INSERT INTO platform (facts_sha256, slug, name, isa, tm_capability, facts_json) "
        f"VALUES ('{HASH}', 's', 'n', 'x', 'none', '{{}}')",
        "table platform, row 2: is invalid: .* isa Field required",
    ),
    # Identities
    ("UPDATE platform SET l2_bytes = 1", r"table platform, row 1: l2_bytes does not match the rest of the row"),
    (
        "UPDATE platform SET facts_json = replace(facts_json, '\"kept\"', '\"lost\"')",
        "table platform, row 1: facts_sha256 does not match",
    ),
    ("UPDATE environment SET governor = 'powersave'", "table environment, row 1: governor does not match"),
    ("UPDATE software SET compiler = 'clang'", "table software, row 1: software_sha256 does not match"),
    ("UPDATE spec SET batch = 99 WHERE id = 1", "table spec, row 1: spec_sha256 does not match"),
    (
        "UPDATE spec SET iterations = 1 WHERE threads = 2",
        "table spec, row 2: is invalid: .*every worker needs at least",
    ),
    ("UPDATE experiment SET definition_json = '{}'", "table experiment, row 1: definition_sha256 does not match"),
    ("UPDATE backend SET config_json = '{}'", "table backend, row 1: config_sha256 does not match"),
    ("UPDATE backend SET config_json = 'none'", "table backend, row 1: is invalid: Expecting value"),
]


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE contribution SET n_runs = 2", r"contribution bundle\.zip had 2 runs, and 9 are stored of it"),
        (
            "UPDATE contribution SET withdrawn_at_utc = '2026-01-01T00:00:00Z', withdrawn_reason = 'why'",
            r"round 1 of experiment 'fig_4_1' in campaign campaign-1 has 9 runs .* by its tally, but there is none",
        ),
        ("UPDATE contribution SET withdrawn_reason = 'why'", "table contribution: 1 of its rows violate ck_contr"),
        ("UPDATE probe SET evidence = 'emulated'", "table probe, row 1: evidence does not match the rest of the row"),
        ("UPDATE probe SET document_json = '{}'", "table probe, row 1: is invalid: "),
    ],
)
def test_a_spoilt_contribution_is_found(tmp_path: Path, statement: str, says: str) -> None:
    url = engine.sqlite_url(tmp_path / "study.db")
    import_bundle(url, sample_bundle(tmp_path, sample_runs(rounds=1)))
    problems = spoilt(tmp_path / "study.db", statement)
    assert any(re.match(says, problem) for problem in problems), problems


@pytest.mark.parametrize(("statement", "says"), SPOILT, ids=[statement for statement, _ in SPOILT])
def test_whatever_is_spoilt_is_found(whole: Path, tmp_path: Path, statement: str, says: str) -> None:
    path = Path(shutil.copy(whole, tmp_path))
    problems = spoilt(path, statement)
    assert any(re.match(says, problem) for problem in problems), problems


def test_a_run_of_another_platform_than_its_campaign(whole: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(whole, tmp_path))
    with closing(sqlite3.connect(path)) as connection:
        columns = ", ".join(row[1] for row in connection.execute("PRAGMA table_info(platform)") if row[1] != "id")
        others = columns.replace("facts_sha256", "'other'").replace("slug", "'other'")
        connection.execute(f"INSERT INTO platform ({columns}) SELECT {others} FROM platform")
        connection.commit()
    problems = spoilt(path, "UPDATE run SET platform_id = 2 WHERE id = 1")
    assert any(re.match(r"run .{36} belongs to another platform than its campaign campaign-0", one) for one in problems)
    assert any(re.match(r"run .{36} belongs to another platform than its environment", one) for one in problems)


def test_a_run_that_is_there_twice(postgresql: URL, tmp_path: Path) -> None:
    """On PostgreSQL, where a constraint can be dropped."""
    fill(postgresql, tmp_path)
    assert schema.check(postgresql).problems == ()
    with engine.writer_engine(postgresql).begin() as connection:
        for name in ("uq_run_uid", "uq_run_content_sha256", "uq_run_round_id_spec_id_repeat"):
            connection.exec_driver_sql(f"ALTER TABLE run DROP CONSTRAINT {name}")
        columns = ", ".join(set(models.Run.__table__.columns.keys()) - {"id"})
        connection.exec_driver_sql(f"INSERT INTO run ({columns}) SELECT {columns} FROM run WHERE id = 1")
    problems = schema.check(postgresql).problems
    for says in (
        "the tables differ from the models: add_constraint",
        "run .{36} is stored 2 times",
        "2 runs have the content [0-9a-f]{64}",
        "repeat 1 of the point [0-9a-f]{64} of experiment 'fig_4_1' has 2 runs in round 1 of campaign campaign-0",
        r"run file 0\.jsonl had 8 runs, and 9 are stored of it",
    ):
        assert any(re.match(says, problem) for problem in problems), (says, problems)


def test_many_of_a_kind_are_told_in_short(whole: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(whole, tmp_path))
    problems = spoilt(path, "DELETE FROM run_abort")
    assert len(problems) == 6
    assert re.fullmatch(r"and \d+ more of this kind", problems[-1])


def test_the_command_lists_what_is_wrong_and_says_so_to_programs(whole: Path, tmp_path: Path, tmflow: Tmflow) -> None:
    path = Path(shutil.copy(whole, tmp_path))
    url = f"sqlite:///{path}"
    assert tmflow("db", "check", TMFLOW_DB_URL=url).returncode == 0
    (problem,) = spoilt(path, "UPDATE software SET compiler = 'clang'")
    done = tmflow("db", "check", TMFLOW_DB_URL=url)
    assert done.returncode == 1
    assert done.stdout.splitlines()[0].endswith("not ok.")
    assert problem in done.stdout
