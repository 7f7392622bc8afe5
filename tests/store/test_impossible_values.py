"""Values that a database can hold but no machine produces are omitted when they are read, with a message."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests.support.sample_bundles import sample_bundle
from tests.support.sample_runs import CLUSTER, FULL, SOFTWARE_TM, sample_runs
from tmflow.analysis import summaries
from tmflow.base.errors import BadInput
from tmflow.contributions.importer import import_bundle
from tmflow.platform.description import transactions as told_of_transactions
from tmflow.store import engine, platform_queries, queries, run_detail
from tmflow.store import platform_queries as circumstances
from tmflow.store.engine import sqlite_url
from tmflow.store.run_filter import RunFilter

MOST = 2**63 - 1


@pytest.fixture
def database(tmp_path: Path) -> Path:
    runs = sample_runs(("fig_4_1",), ("tf_lock", SOFTWARE_TM), (1, 2), 2, **FULL)
    import_bundle(sqlite_url(tmp_path / "study.db"), sample_bundle(tmp_path, runs))
    return tmp_path / "study.db"


def with_change(database: Path, *statements: str) -> Engine:
    with closing(sqlite3.connect(database)) as db, db:
        for statement in statements:
            assert db.execute(statement).rowcount > 0
    return engine.open_reader(sqlite_url(database))


@pytest.mark.parametrize("seconds", ["9e999", "1e300", "5e-324", "1e-12"])
def test_a_run_of_an_impossible_time_is_invalid_and_says_so(database: Path, seconds: str) -> None:
    source = with_change(database, f"UPDATE run SET loop_s = {seconds} WHERE id = 1")
    runs = queries.runs(source, RunFilter(newest_definitions=True))
    (wrong,) = runs[runs["status"] == "invalid"].to_dict("records")
    assert wrong["reason"] == "the recorded loop time is impossible on any machine"
    assert runs.loc[runs["status"] == "invalid", ["loop_s", "final_accuracy"]].isna().all(axis=None)
    assert len(queries.runs(source)) == len(runs) - 1  # those with a result
    reasons = set(summaries.step_time(runs)["reason"].dropna())
    assert reasons == {f"1 of 2 rounds invalid: {wrong['reason']}"}
    assert wrong["uid"] not in set(queries.curves(source)["uid"])
    newest = platform_queries.newest_runs(source, str(runs["platform"].iloc[0]))
    assert list(newest.loc[newest["uid"] == wrong["uid"], "status"]) == ["invalid"]


def test_sums_of_counts_do_not_overflow(database: Path) -> None:
    changes = (
        f"UPDATE counters SET commits = {MOST}, fallbacks = {MOST}, attempts = {MOST} WHERE commits IS NOT NULL",
        f"UPDATE staleness SET steps = {MOST}",
        f"UPDATE run_abort SET n = {MOST}",
        f"UPDATE retries SET sections = {MOST}",
        f"UPDATE variable_read SET reads = {MOST}, torn = {MOST}",
        f"UPDATE round_tally SET n_runs = {MOST}",
    )
    source = with_change(database, *changes)
    assert set(queries.transactions(source)["commits"]) == {2**53}
    assert set(queries.staleness(source)["steps"]) == {2**53}
    assert set(queries.aborts(source)["n"]) == {2**53}
    assert set(queries.full_measures(source)["torn_fraction"]) == {1.0}
    assert set(queries.counts(source)["n_runs"]) == {2**53}


def test_what_lies_beyond_the_steps_of_a_run(database: Path) -> None:
    source = with_change(
        database,
        f"UPDATE staleness SET staleness = {MOST} WHERE staleness = 1",
        f"UPDATE curve_point SET iteration = {MOST} WHERE iteration = 250",
        "UPDATE curve_point SET elapsed_s = 9e999 WHERE iteration = 500",
    )
    assert queries.staleness(source)["staleness"].max() == 1000  # its steps
    assert set(queries.curves(source)["iteration"]) == {750}
    summaries.staleness(queries.runs(source), queries.staleness(source))


def test_phases_without_end_are_left_out(tmp_path: Path) -> None:
    runs = sample_runs(strategies=("lock",), threads=(2,), rounds=1, **CLUSTER)
    import_bundle(sqlite_url(tmp_path / "study.db"), sample_bundle(tmp_path, runs))
    source = with_change(tmp_path / "study.db", "UPDATE phase SET seconds = 9e999 WHERE phase = 'send'")
    assert "send" not in set(queries.phases(source)["phase"])
    assert len(queries.phases(source)) == 5


def test_too_many_bytes_are_not_known(tmp_path: Path) -> None:
    runs = sample_runs(strategies=("lock",), threads=(2,), rounds=1, **CLUSTER)
    import_bundle(sqlite_url(tmp_path / "study.db"), sample_bundle(tmp_path, runs))
    source = with_change(tmp_path / "study.db", f"UPDATE phase SET bytes = {MOST} WHERE phase = 'send'")
    bytes_of = queries.phases(source).set_index("phase")["bytes"]
    assert math.isnan(bytes_of["send"])
    assert bytes_of["receive"] > 0


def test_times_of_locks_without_end_are_not_known(database: Path) -> None:
    source = with_change(database, "UPDATE counters SET lock_waited_s = 9e999")
    measures = queries.full_measures(source)
    assert measures["lock_waited_fraction"].isna().all()
    assert measures["lock_held_fraction"].notna().all()


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "[" * 100_000])
def test_json_that_is_no_object_is_a_sentence(database: Path, text: str) -> None:
    changes = [
        f"UPDATE {table} SET {column} = '{text}'"
        for table, column in (
            ("experiment", "definition_json"),
            ("platform", "facts_json"),
            ("probe", "document_json"),
        )
    ]
    source = with_change(database, *changes)
    runs = queries.runs(source)
    key = str(runs["platform"].iloc[0])
    for read in (
        lambda: queries.definition(source, "fig_4_1", "full", [key]),
        lambda: circumstances.platform_facts(source, [key]),
        lambda: platform_queries.newest_probe(source, key),
        lambda: run_detail.run(source, str(runs["uid"].iloc[0])),
    ):
        with pytest.raises(BadInput, match=r"is not (JSON|a JSON object) in the database: restore a backup, or .*\.$"):
            read()


def test_a_probe_that_lacks_a_field_is_a_sentence(database: Path) -> None:
    source = with_change(database, "UPDATE probe SET document_json = '{}'")
    key = str(queries.runs(source)["platform"].iloc[0])
    with pytest.raises(BadInput, match=r"^the probe of platform .* in the database: 'schema_version' is missing\.$"):
        platform_queries.newest_probe(source, key)


def test_mitigations_that_are_no_json_are_a_sentence(database: Path) -> None:
    source = with_change(database, "UPDATE environment SET mitigations_json = '{'")
    key = str(queries.runs(source)["platform"].iloc[0])
    settings = platform_queries.environments(source, key)
    with pytest.raises(BadInput, match="mitigations of a kernel is not JSON in the database"):
        told_of_transactions({"isa": "x86_64", "tm_capability": "rtm"}, settings)


@pytest.mark.parametrize("code", ["", "null", "-1", "0x", "0x1_0", "x" * 1000])
def test_a_raw_code_that_is_none_says_nothing(database: Path, code: str) -> None:
    source = with_change(database, f"UPDATE abort_reason SET raw_code = '{code}' WHERE id = 1")
    records = queries.records(source)
    summary = summaries.failures(records.runs, records.transactions, records.aborts, "raw_code")
    assert any(str(cause).startswith(f"{code}: ") for cause in summary["cause"])
