"""Queries return the same columns and types for any content, lose no run, and distinguish 0 from NULL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from sqlalchemy import URL, Engine

from tests.support.sample_runs import (
    CLUSTER,
    EMULATED,
    FULL,
    FUSED,
    OPTIMISER,
    PHASES,
    SOFTWARE,
    SOFTWARE_TM,
    TRAFFIC,
    sample_runs,
)
from tmflow.base.errors import BadInput
from tmflow.runfile import record
from tmflow.runfile.record import Counters, MachineState, Run
from tmflow.spec.trial import TrialSpec
from tmflow.store import engine, queries, run_detail, schema
from tmflow.store.ingest import ingest
from tmflow.store.run_filter import RESULTS, RunFilter

TABLES: dict[str, Callable[[Engine], pd.DataFrame]] = {
    "runs": queries.runs,
    "curves": queries.curves,
    "staleness": queries.staleness,
    "transactions": queries.transactions,
    "variable_transactions": queries.variable_transactions,
    "full_measures": queries.full_measures,
    "aborts": queries.aborts,
    "phases": queries.phases,
    "processes": queries.processes,
    "counts": queries.counts,
    "rounds": queries.rounds,
}


@pytest.fixture
def store(url: URL, tmp_path: Path) -> Callable[..., Engine]:
    """Ingest runs and return a reader."""

    def store(*lots: list[Run]) -> Engine:
        for number, runs in enumerate(lots):
            path = tmp_path / f"{number}.jsonl"
            record.write(path, runs)
            ingest(url, [path])
        return engine.open_reader(url)

    return store


def test_types_do_not_depend_on_rows(url: URL, store: Callable[..., Engine]) -> None:
    schema.upgrade(url)
    empty = {name: query(engine.open_reader(url)) for name, query in TABLES.items()}
    assert all(table.empty for table in empty.values())
    runs = sample_runs(strategies=("stm", "tf_lock"), unsupported=("htm",), disturbed_rounds=(2,))
    cluster = sample_runs(("dist",), strategies=("lock",), campaign="campaign-3", **CLUSTER)
    reader = store(runs, sample_runs(("beyond",), strategies=("lock",), campaign="campaign-2", **FULL), cluster)
    full = {name: query(reader) for name, query in TABLES.items()}
    assert not any(table.empty for table in full.values())
    for name in TABLES:
        pd.testing.assert_series_equal(empty[name].dtypes, full[name].dtypes)
        assert not any(dtype == "object" for dtype in full[name].dtypes)


def test_parameters_keep_their_types_and_0_is_not_null(store: Callable[..., Engine]) -> None:
    parameters = {"provider": "rtm", "budget": 0, "spending": "tuned", "chunk": 64}
    htm = sample_runs(strategies=("htm",), threads=(1,), rounds=1, **parameters)
    lock = sample_runs(strategies=("lock",), threads=(1,), rounds=1)
    table = queries.runs(store(htm, lock), RunFilter(statuses=["ok"]))
    given, none = (table[table["strategy"] == strategy].iloc[0] for strategy in ("htm", "lock"))
    assert given[list(parameters)].to_dict() == parameters
    assert none[list(parameters)].isna().all()
    assert table.dtypes[list(parameters)].astype(str).tolist() == ["str", "Int64", "str", "Int64"]


def test_runs_tell_in_words_what_measured_them(store: Callable[..., Engine]) -> None:
    changed = {"software": SOFTWARE.model_copy(update={"git_commit": "a" * 40, "git_dirty": True})}
    first = sample_runs(strategies=("lock",), threads=(1, 2), rounds=1)
    later = sample_runs(strategies=("lock",), threads=(1, 2), rounds=1, campaign="campaign-2", day=1)
    reader = store(first, [run.model_copy(update=changed) for run in later])
    table = queries.runs(reader, RunFilter()).groupby("campaign_uid")["software"].unique()
    assert table["campaign-1"].tolist() == ["tmflow 0.1.0 at 0000000000"]
    assert table["campaign-2"].tolist() == [
        "tmflow 0.1.0 at aaaaaaaaaa with uncommitted changes, in campaign campaign-2"
    ]
    assert queries.runs(reader, replace(RESULTS, uids=[])).dtypes["software"] == "str"


def test_inconsistent_elements_are_a_share_of_those_beside_which_there_are_arrays(
    store: Callable[..., Engine],
) -> None:
    runs = sample_runs(strategies=(OPTIMISER, {"strategy": "nolock", **FULL}), threads=(2,), rounds=1)
    found = queries.full_measures(store(runs)).set_index("uid")["inconsistent_fraction"]
    of = {run.spec.optimiser: found[run.uid] for run in runs}
    assert of["momentum"] == pytest.approx(784 / 7850)
    assert pd.isna(of["sgd"])


def test_full_measures_are_shares_and_absent_is_not_0(store: Callable[..., Engine]) -> None:
    whole = sample_runs(strategies=("lock", "nolock"), threads=(1, 4), rounds=1, **FULL)
    bare = [run.model_copy(update={"lost": [], "reads": [], "counters": []}) for run in whole[:1]]
    usual = sample_runs(("usual",), strategies=("lock",), threads=(1,), rounds=1, campaign="campaign-2")
    reader = store([*bare, *whole[1:]], usual)
    table = queries.full_measures(reader).set_index("uid")
    assert set(table.index) == {run.uid for run in whole}
    assert table.loc[bare[0].uid].isna().all()
    for run in whole[1:]:
        row, others = table.loc[run.uid], run.spec.threads - 1
        steps = run.spec.iterations // run.spec.threads
        assert row["lost_fraction"] == pytest.approx(50 * others / 2000)
        assert row["torn_fraction"] == pytest.approx((steps // 10) / steps if others else 0)
        assert run.loop_s
        assert row["lock_waited_fraction"] == pytest.approx(2 * 0.001 * others / run.loop_s)
        assert row["lock_held_fraction"] == pytest.approx(2 * 0.002 / run.loop_s)


def test_the_phases_of_a_run_are_means_over_its_workers(store: Callable[..., Engine]) -> None:
    (cluster,) = sample_runs(strategies=("lock",), threads=(2,), rounds=1, **CLUSTER)
    (plain,) = sample_runs(("plain",), strategies=("lock",), threads=(2,), rounds=1, campaign="2")
    table = queries.phases(store([cluster, plain]))
    assert set(table["uid"]) == {cluster.uid}
    means = dict(table[["phase", "phase_us"]].itertuples(index=False))
    assert means == pytest.approx({phase: 1.05e6 * seconds for phase, seconds in PHASES.items()})
    traffic = table.dropna().set_index("phase")[["transfers", "bytes"]].to_dict("index")
    assert traffic == TRAFFIC


def test_the_speed_of_the_others_is_that_of_all_workers_but_the_last(store: Callable[..., Engine]) -> None:
    single, several = sample_runs(strategies=("lock",), threads=(1, 4), rounds=1, **CLUSTER)
    table = queries.processes(store([single, several]))
    assert list(table["uid"]) == [several.uid]  # a single worker is the last
    others = [process for process in several.processes if process.role == "worker" and process.index < 3]
    steps, seconds = sum(one.steps or 0 for one in others), sum(one.loop_s or 0 for one in others)
    assert table["others_per_s"].tolist() == pytest.approx([steps / seconds])


def test_an_emulated_run_shows_no_share_of_time(store: Callable[..., Engine]) -> None:
    emulated = sample_runs(strategies=(EMULATED,), threads=(2,), rounds=1, measures="full")
    table = queries.full_measures(store(emulated))
    assert table[["lock_waited_fraction", "lock_held_fraction"]].isna().all(axis=None)
    assert table[["lost_fraction", "torn_fraction"]].notna().all(axis=None)


def test_full_measures_are_stored_as_they_were_told(store: Callable[..., Engine]) -> None:
    runs = sample_runs(strategies=(FUSED, "nolock"), threads=(2,), rounds=1, **FULL)
    reader = store(runs)
    for run in runs:
        stored_run = run_detail.run(reader, run.uid)
        del stored_run["stored"]
        assert Run.model_validate(stored_run) == run
        assert Run.model_validate(stored_run).content_sha256 == run.content_sha256


def test_an_emulated_run_has_no_seconds_but_all_else(store: Callable[..., Engine]) -> None:
    reader = store(sample_runs(strategies=(EMULATED, "tf_lock"), threads=(2,), rounds=1))
    table = queries.runs(reader).set_index("evidence")
    times = ["setup_s", "loop_s", "evaluation_s", "total_s"]
    assert table.loc["emulated", times].isna().all()
    assert table.loc["measured", times].notna().all()
    assert table["final_accuracy"].notna().all()
    assert table.loc["emulated", "backend"].startswith("intel-tsx-study ")
    assert pd.isna(table.loc["measured", "backend"])
    elapsed = queries.curves(reader).groupby("uid")["elapsed_s"].count()
    assert elapsed[table.loc["emulated", "uid"]] == 0
    assert elapsed[table.loc["measured", "uid"]] == 3


def test_transactions_and_aborts_add_up(store: Callable[..., Engine]) -> None:
    runs = sample_runs(strategies=(EMULATED, SOFTWARE_TM, "tle", "tf_lock"), threads=(1, 4), rounds=2)
    reader = store(runs)
    counted = queries.transactions(reader).set_index("uid")
    by_variable = queries.variable_transactions(reader).set_index("uid")
    aborts = queries.aborts(reader)
    assert set(counted.index) == {run.uid for run in runs if run.spec.strategy != "tf_lock"}
    for run in runs:
        if run.spec.strategy == "tf_lock":
            continue
        row = counted.loc[run.uid]
        of_variables = by_variable.loc[[run.uid]].set_index("variable")
        assert of_variables[["commits", "fallbacks"]].sum().tolist() == [row["commits"], row["fallbacks"]]
        for name in {c.variable for c in run.counters}:
            assert of_variables.loc[name, "updates"] == sum(c.updates for c in run.counters if c.variable == name)
        assert row["commits"] == sum(c.commits or 0 for c in run.counters)
        assert row["fallbacks"] == sum(c.fallbacks or 0 for c in run.counters)
        of_run = aborts[aborts["uid"] == run.uid]
        if run.spec.strategy == "tle":
            assert pd.isna(row["attempts"])
            assert of_run.empty
        else:
            assert row["attempts"] == row["commits"] + of_run["n"].sum()
            assert set(of_run["mechanism"]) == {"rtm" if run.spec.strategy == "htm" else "stm"}


def test_stored_aborts_are_as_they_were_told(store: Callable[..., Engine]) -> None:
    (run,) = sample_runs(strategies=("htm",), threads=(2,), rounds=1, budget=5)
    stored_run = run_detail.run(store([run]), run.uid)
    assert stored_run["spec"]["budget"] == 5
    assert stored_run["aborts"] == [abort.model_dump() for abort in run.aborts]


def test_runs_have_every_factor_and_every_run(store: Callable[..., Engine]) -> None:
    runs = sample_runs(experiments=("fig_4_1", "fig_4_4"), strategies=("tf_lock", "htm"), unsupported=("htm",))
    table = queries.runs(store(runs), RunFilter(newest_definitions=True))
    assert len(table) == len(runs)
    by_uid = table.set_index("uid")
    for run in runs:
        row = by_uid.loc[run.uid]
        assert {name: None if pd.isna(row[name]) else row[name] for name in TrialSpec.model_fields} == dict(run.spec)
        assert (row["experiment"], row["scale"], row["round"]) == (run.experiment.name, "full", run.round)
        assert row["definition_sha256"] == run.experiment.definition_sha256
        assert (row["hardware_threads"], row["platform"]) == (8, "synthetic-test-machine-8t")
        assert (row["ordinal"], row["trial_seed"], row["resumed"]) == (run.ordinal, run.trial_seed, False)
        assert row["started_at_utc"] == run.started_at_utc
        if run.status == "ok":
            assert (row["loop_s"], row["final_accuracy"]) == (run.loop_s, run.final_accuracy)
    assert table["started_at_utc"].is_monotonic_increasing


def test_a_run_without_result_is_kept_with_its_reason(store: Callable[..., Engine]) -> None:
    reader = store(sample_runs(strategies=("tf_lock", "htm"), unsupported=("htm",), rounds=1, threads=(1, 2)))
    assert set(queries.runs(reader)["strategy"]) == {"tf_lock"}
    refused = queries.runs(reader, RunFilter(statuses=("unsupported",), newest_definitions=True))
    assert list(refused["strategy"]) == ["htm", "htm"]
    assert refused["reason"].str.contains("hardware that this machine lacks").all()
    assert refused[["loop_s", "final_accuracy", "disturbed"]].isna().all(axis=None)
    assert queries.runs(reader)["reason"].isna().all()
    assert len(queries.runs(reader, RunFilter(newest_definitions=True))) == 4


def test_zero_is_not_null(store: Callable[..., Engine]) -> None:
    zero, null = (run.model_copy() for run in sample_runs(rounds=1, threads=(1, 2), strategies=("tf_lock",)))
    state = dict.fromkeys(MachineState.model_fields)
    zero = zero.model_copy(
        update={
            "setup_s": 0.0,
            "machine": MachineState.model_validate(state | {"steal_fraction": 0.0, "disturbed": False}),
            "counters": [Counters(worker=0, variable="W", updates=0, commits=0, fallbacks=0, attempts=0)],
        }
    )
    null = null.model_copy(
        update={
            "setup_s": None,
            "machine": MachineState.model_validate(state),
            "counters": [Counters(worker=0, variable="W", updates=0)],
        }
    )
    reader = store([zero, null])
    table = queries.runs(reader).set_index("uid")
    assert table.loc[zero.uid, "setup_s"] == 0.0
    assert pd.isna(table.loc[null.uid, "setup_s"])
    assert not table.loc[zero.uid, "disturbed"]
    assert table.loc[null.uid, "disturbed"] is pd.NA
    measured, unknown = run_detail.run(reader, zero.uid), run_detail.run(reader, null.uid)
    assert (measured["machine"]["steal_fraction"], unknown["machine"]) == (0.0, None)
    counters = {"worker": 0, "variable": "W", "updates": 0, "lock_waited_s": None, "lock_held_s": None}
    assert measured["counters"] == [{**counters, "commits": 0, "fallbacks": 0, "attempts": 0}]
    assert unknown["counters"] == [{**counters, "commits": None, "fallbacks": None, "attempts": None}]


def test_the_newest_definition_is_the_one_run_last(store: Callable[..., Engine]) -> None:
    first = sample_runs(rounds=1)
    second = sample_runs(rounds=1, campaign="campaign-2", day=1, batch=50)
    other_scale = sample_runs(rounds=1, campaign="campaign-3", day=2, batch=10, scale="quick")
    reader = store(second, first, other_scale)
    assert set(queries.runs(reader, replace(RESULTS, scales=["full"]))["batch"]) == {50}
    assert set(queries.runs(reader, replace(RESULTS, scales=["quick"]))["batch"]) == {10}
    assert set(queries.runs(reader, RunFilter(statuses=["ok"]))["batch"]) == {10, 50, 100}
    # Returning to an older definition makes it the newest again.
    again = sample_runs(rounds=1, campaign="campaign-4", day=3)
    reader = store(second, first, other_scale, again)
    assert set(queries.runs(reader, replace(RESULTS, scales=["full"]))["batch"]) == {100}
    assert set(queries.curves(reader, replace(RESULTS, scales=["full"]))["uid"]) == {
        run.uid for run in [*first, *again]
    }


@pytest.mark.parametrize(
    ("only", "kept"),
    [
        (replace(RESULTS, experiments=["fig_4_1"]), 36),
        (replace(RESULTS, scales=["quick"]), 0),
        (replace(RESULTS, experiments=["fig_4_4"]), 18),
        (replace(RESULTS, experiments=["fig_4_4"], scales=["quick"]), 0),
        (replace(RESULTS, statuses=["failed"]), 0),
        (replace(RESULTS, experiments=[]), 0),
        (replace(RESULTS, text="00000000-0000"), 0),
    ],
)
def test_filters(url: URL, store: Callable[..., Engine], only: RunFilter, kept: int) -> None:
    reader = store(
        sample_runs(experiments=("fig_4_1", "fig_4_4"), rounds=2),
        sample_runs(rounds=2, campaign="campaign-2", platform={"threads_logical": 16}),
    )
    table = queries.runs(reader, only)
    assert len(table) == kept
    for detail in (queries.curves, queries.staleness):
        assert set(detail(reader, only)["uid"]) == set(table["uid"])


def test_details_add_up(store: Callable[..., Engine]) -> None:
    runs = sample_runs(strategies=("stm", "tf_lock"), rounds=2)
    reader = store(runs)
    curves = queries.curves(reader).groupby("uid")["accuracy"].apply(list)
    steps = queries.staleness(reader).groupby("uid")["steps"].sum()
    for run in runs:
        assert steps[run.uid] == sum(s.steps for s in run.staleness)
        assert curves[run.uid] == [p.accuracy for p in run.curve]


@pytest.mark.parametrize(
    ("of_machine", "allowed", "usable"),
    [(8, 2, 2), (8, 8, 8), (4, 8, 4), (8, None, 8), (None, 2, 2), (None, None, None)],
)
def test_hardware_threads_are_those_that_the_run_could_use(
    store: Callable[..., Engine], of_machine: int | None, allowed: int | None, usable: int | None
) -> None:
    run = sample_runs(rounds=1, platform={"threads_logical": of_machine})[0]
    run = run.model_copy(update={"environment": {**run.environment, "cpus_allowed": allowed}})
    (found,) = queries.runs(store([run]))["hardware_threads"]
    assert (None if pd.isna(found) else found) == usable


def test_counts(store: Callable[..., Engine]) -> None:
    reader = store(sample_runs(strategies=("tf_lock", "htm"), unsupported=("htm",), threads=(1, 2), rounds=3))
    counts = queries.counts(reader).set_index("status")
    assert dict(counts["n_runs"]) == {"ok": 6, "unsupported": 6}
    assert dict(counts["n_rounds"]) == {"ok": 3, "unsupported": 3}
    newest = queries.runs(reader, RunFilter(newest_definitions=True)).groupby("status")["started_at_utc"].max()
    assert dict(counts["newest_run_utc"]) == dict(newest)


def test_counts_keep_definitions_platforms_and_evidence_apart(store: Callable[..., Engine]) -> None:
    reader = store(
        sample_runs(strategies=(EMULATED, "tf_lock"), threads=(1, 2), rounds=2),
        sample_runs(rounds=1, campaign="campaign-2", batch=50),
        sample_runs(rounds=1, campaign="campaign-3", platform={"sockets": 2}),
    )
    counts = queries.counts(reader)
    everything = queries.runs(reader, RunFilter())
    keys = list(counts.columns[:7])
    groups = everything.groupby(keys)
    expected = pd.DataFrame(
        {
            "n_runs": groups.size(),
            "n_rounds": groups["round"].nunique(),
            "newest_run_utc": groups["started_at_utc"].max(),
        }
    ).reset_index()
    assert len(expected) == 4
    pd.testing.assert_frame_equal(counts.sort_values(keys, ignore_index=True), expected)


def test_a_connection_will_do_as_well(store: Callable[..., Engine]) -> None:
    runs = sample_runs(rounds=1)
    reader = store(runs)
    with reader.connect() as connection:
        pd.testing.assert_frame_equal(queries.runs(connection), queries.runs(reader))
        assert run_detail.run(connection, runs[0].uid) == run_detail.run(reader, runs[0].uid)
        assert queries.revision(connection) == queries.revision(reader)


def test_a_run_that_is_not_there(store: Callable[..., Engine]) -> None:
    reader = store(sample_runs(rounds=1))
    with pytest.raises(BadInput, match="the database has no run nowhere"):
        run_detail.run(reader, "nowhere")
