"""Bundles of valid runs: writing, reading and verification."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner, Result

from tests.support.own_runs import ARRAYS, KERAS, own_runs, own_spec
from tests.support.sample_bundles import sample_bundle, write_results
from tests.support.sample_runs import EMULATED, sample_runs
from tmflow.base.errors import BadInput
from tmflow.bundle import format
from tmflow.bundle.reader import open_bundle
from tmflow.bundle.rules.expectations import Limits, expect
from tmflow.bundle.verify import Checker, check_run_files, no_result, verify
from tmflow.bundle.writer import MAX_LOG, export
from tmflow.cli import app
from tmflow.runfile import record
from tmflow.store.run_filter import RunFilter


def test_the_runs_of_a_bundle_are_those_of_the_run_files(tmp_path: Path) -> None:
    path = sample_bundle(tmp_path)
    with open_bundle(path) as bundle:
        lines = [line for member in bundle.run_members() for _, line in bundle.lines(member)]
        assert bundle.version == 1
    files = sorted((tmp_path / "results" / "runs").rglob("*.jsonl"))
    assert lines == [line for file in files for line in file.read_text().splitlines()]


def test_a_good_bundle_has_no_problem(tmp_path: Path) -> None:
    found = verify(sample_bundle(tmp_path))
    assert found.problems == []
    assert found.ok
    assert found.runs == len(sample_runs())
    assert list(found.platforms.values()) == ["synthetic test machine, 1 socket, 4 cores, 8 threads, 16 GiB"]


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    first = sample_bundle(tmp_path / "a")
    second = sample_bundle(tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()


def test_in_a_folder_the_name_tells_machine_and_identity(tmp_path: Path) -> None:
    write_results(tmp_path / "results", sample_runs())
    done = export(tmp_path / "results", tmp_path, RunFilter(), None)
    assert done.path.name == f"synthetic-test-machine-8t-{done.identity[:12]}.zip"
    assert done.runs == len(sample_runs())


def test_only_the_chosen_runs_are_exported(tmp_path: Path) -> None:
    runs = sample_runs(experiments=("one", "two"), strategies=("tf_lock",))
    write_results(tmp_path / "results", runs)
    done = export(tmp_path / "results", tmp_path, RunFilter(experiments=["two"]), None)
    with open_bundle(done.path) as bundle:
        names = {
            record.parse_line(line, where).experiment.name
            for m in bundle.run_members()
            for where, line in bundle.lines(m)
        }
    assert names == {"two"}


def test_runs_outside_the_study_are_exported_by_their_campaign(tmp_path: Path) -> None:
    runs = own_runs(ARRAYS)
    folder = tmp_path / "results" / "runs" / "adhoc" / "advise" / runs[0].campaign.uid
    for number in range(1, 5):
        record.write(folder / f"round-{number:03}.jsonl", [run for run in runs if run.round == number])
    write_results(tmp_path / "results", sample_runs(experiments=("tiny",)))
    (tmp_path / "results" / "runs" / "full" / "campaign.json").write_text("{}")
    bundle = export(tmp_path / "results", tmp_path / "bundle.zip", RunFilter(), None)
    with open_bundle(bundle.path) as opened:
        members = [entry.path for entry in opened.manifest]
    assert f"runs/advise/{runs[0].campaign.uid.replace('-', '')[:12]}/round-001.jsonl" in members
    assert format.CAMPAIGN in members  # of the study
    assert verify(bundle.path).ok


def test_an_embedding_may_update_some_rows_of_a_variable() -> None:
    """So the bundle's speed limit of a Keras model is that of one element of each variable."""
    limits = Limits({1: 1.0, 1000: 1000.0})
    keras, arrays = (expect(own_spec(subject), limits).update_s for subject in (KERAS, ARRAYS))
    assert set(keras.values()) == {limits.update_s(1, "plain")}
    assert arrays == {"variable 1": limits.update_s(1000, "plain"), "variable 2": limits.update_s(10, "plain")}


def test_an_experiment_without_runs_is_told_which_have_some(tmp_path: Path) -> None:
    """An experiment without runs is an error, even if another requested experiment has runs."""
    write_results(tmp_path / "results", sample_runs(experiments=("fig_4_1", "fig_4_2")))
    for names in (["fig_4_9"], ["fig_4_1", "fig_4_9"]):
        with pytest.raises(BadInput, match=r"^unknown experiment .* 'fig_4_9' .*; valid: fig_4_1, fig_4_2\.$"):
            export(tmp_path / "results", tmp_path / "bundle.zip", RunFilter(experiments=names), None)
    assert not (tmp_path / "bundle.zip").exists()


def test_emulated_runs_can_be_left_out(tmp_path: Path) -> None:
    write_results(tmp_path / "results", sample_runs(strategies=("tf_lock", EMULATED), rounds=2))
    done = export(tmp_path / "results", tmp_path, RunFilter(evidences=["measured"]), None)
    found = verify(done.path)
    assert found.ok
    assert found.runs == done.runs == len(sample_runs(strategies=("tf_lock",), rounds=2))


def test_documents_and_logs_go_along(tmp_path: Path) -> None:
    results = tmp_path / "results"
    write_results(results, sample_runs())
    for name, text in (
        ("runs/full/campaign.json", "{}"),
        ("logs/data.log", "x" * (MAX_LOG + 10)),
        ("logs/rounds/fig_4_1/round-001.log", "fine"),
        ("logs/.hidden", "not taken"),
    ):
        (results / name).parent.mkdir(parents=True, exist_ok=True)
        (results / name).write_text(text)
    (tmp_path / "config.yaml").write_text("experiments: {}")
    with open_bundle(export(results, tmp_path, RunFilter(), tmp_path / "config.yaml").path) as bundle:
        sizes = {entry.path: entry.bytes for entry in bundle.manifest if not format.is_run_file(entry.path)}
        assert bundle.document(format.CAMPAIGN) == {}
        assert b"".join(bundle.chunks(format.CONFIG)) == b"experiments: {}"
    assert sorted(sizes) == [
        *("campaign.json", "config.yaml", "logs/data.log", "logs/rounds/fig_4_1/round-001.log", "platform.json"),
    ]
    assert sizes["logs/data.log"] == MAX_LOG


def test_nothing_is_exported_of_two_machines_or_of_none(tmp_path: Path) -> None:
    results, output = tmp_path / "results", tmp_path / "bundle.zip"
    with pytest.raises(BadInput, match="nothing to export"):
        export(results, output, RunFilter(), None)
    write_results(results, sample_runs())
    with pytest.raises(BadInput, match="nothing to export"):
        export(results, output, RunFilter(experiments=["fig_4_1"], scales=["quick"]), None)
    write_results(results, sample_runs(experiments=("other",), platform={"l1d_ways": 4}))
    with pytest.raises(BadInput, match="line 1 is of another platform than the runs before it"):
        export(results, output, RunFilter(), None)
    (results / "runs/full/fig_4_1/mine").mkdir()
    (results / "runs/full/fig_4_1/mine/best.jsonl").write_text("")
    with pytest.raises(BadInput, match=r"best\.jsonl is not a run file of a study"):
        export(results, output, RunFilter(), None)
    assert not output.exists()


def test_many_processes_find_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = sample_runs(threads=(1, 2), rounds=7)
    bad = [run.model_copy(update={"trial_seed": 77}) if number % 5 == 0 else run for number, run in enumerate(runs)]
    path = sample_bundle(tmp_path, [*bad, runs[7]])
    by_one = verify(path)
    monkeypatch.setattr("tmflow.bundle.verify.WORTH_IT", 0)
    monkeypatch.setattr("tmflow.bundle.verify.cpus_allowed", lambda: 3)
    by_three = verify(path)
    assert by_three == by_one
    assert by_one.runs == len(runs) + 1
    assert {problem.field for problem in by_one.problems} == {"trial_seed", None}


def test_processes_end_with_who_started_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sample_bundle(tmp_path, sample_runs(rounds=6))
    monkeypatch.setattr("tmflow.bundle.verify.WORTH_IT", 0)
    monkeypatch.setattr("tmflow.bundle.verify.cpus_allowed", lambda: 2)
    others = psutil.Process().children()  # of the tests themselves
    with open_bundle(path) as bundle:
        found = check_run_files(bundle, Checker(bundle), no_result)
        next(found)
        children = [child for child in psutil.Process().children() if child not in others]
        assert len(children) == 2
        found.close()
    assert not any(child.is_running() for child in children)


@pytest.mark.parametrize("output", ["", r"\200\004\225\001"], ids=["nothing", "half of a result"])
def test_a_process_that_ends_early_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    """As if the kernel killed it when memory is full."""
    path = sample_bundle(tmp_path, sample_runs(rounds=6))
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nprintf '{output}'\nkill -KILL $$\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr("tmflow.bundle.verify.WORTH_IT", 0)
    monkeypatch.setattr("tmflow.bundle.verify.cpus_allowed", lambda: 2)
    with pytest.raises(BadInput, match=r"a process that checks its run files ended early.*\.$"):
        verify(path)


def test_the_commands_tell_people_and_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMFLOW_RESULTS_DIR", str(tmp_path))
    write_results(tmp_path, sample_runs())
    exported = json.loads(called("export", "--output", str(tmp_path / "b.zip"), "--scale", "full", "--json").stdout)
    assert (exported["runs"], exported["bytes"]) == (len(sample_runs()), (tmp_path / "b.zip").stat().st_size)
    done = called("verify", str(tmp_path / "b.zip"))
    assert done.exit_code == 0
    assert done.stdout.startswith("note: probe.json: it is missing, ")
    assert (
        f"27 runs of synthetic test machine, 1 socket, 4 cores, 8 threads, 16 GiB, identity {exported['identity']}: ok."
        in (done.stdout)
    )
    (tmp_path / "b.zip").write_bytes(b"nothing")
    bad = called("verify", str(tmp_path / "b.zip"), "--json")
    assert bad.exit_code == 2
    assert json.loads(bad.stdout)["ok"] is False
    assert called("verify", str(tmp_path / "b.zip")).stdout.endswith("b.zip: not ok.\n")


def called(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bundle", *arguments])
