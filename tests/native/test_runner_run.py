"""The static program runs the study: its run files are like Python's, and with one worker the results are equal."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from runner import Program

from tmflow import datasets
from tmflow.base.paths import project_root
from tmflow.bundle.verify import verify
from tmflow.datasets import mnist_files
from tmflow.native.registry import resolve
from tmflow.platform.facts import platform_facts, platform_sha256
from tmflow.probe import document
from tmflow.runfile import record
from tmflow.runfile.record import Run
from tmflow.runner.journal import Journal
from tmflow.runner.supervisor import RoundJob, run_round
from tmflow.store.engine import sqlite_url
from tmflow.store.ingest import ingest
from tmflow.study.campaign import load
from tmflow.study.config import load_study
from tmflow.study.plan import Plan
from tmflow.training.data import TrialData
from tmflow.training.native_driver import Variant

pytestmark = pytest.mark.slow

STUDY = load_study(project_root() / "config.yaml")
SIX_LONG_TRIALS = ("run", "--experiment", "true-contention", "--rounds", "1", "--points", "6")
QUICK = ("run", "--scale", "quick", "--experiment", "true-contention")


def run_files(results: Path) -> list[Path]:
    return sorted((results / "runs").rglob("round-*.jsonl"))


def runs_of(results: Path) -> list[Run]:
    return [run for path in run_files(results) for run in record.read(path)]


def measured(program: Program, results: Path, *arguments: str) -> list[Run]:
    done = program.run(*arguments, "--results", results)
    assert done.returncode == 0, done.stderr
    return runs_of(results)


@pytest.fixture(scope="module")
def quick(native_program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The complete results of an experiment at the quick scale."""
    results = tmp_path_factory.mktemp("quick")
    measured(native_program, results, *QUICK)
    return results


def test_a_round_is_the_one_that_python_would_run(quick: Path) -> None:
    plan = Plan(STUDY, "quick", quick)
    campaign = load(quick, "quick")
    assert campaign is not None
    assert campaign.invocations[0].ended_at_utc is not None
    assert campaign.finished  # the quick study has no other with the native driver
    assert run_files(quick) == plan.run_files("true-contention")
    for number, path in enumerate(run_files(quick), start=1):
        runs = list(record.read(path))
        job = RoundJob(
            campaign=campaign.ref,
            experiment=runs[0].experiment,
            number=number,
            points=plan.points("true-contention", "mnist"),
            trial_timeout_s=1,
            run_file=path,
        )
        assert job.experiment.definition == STUDY.definition("true-contention", "quick", "mnist")
        assert [run.trial for run in runs] == [trial.key for trial in job.ordered_trials()]
        assert [run.ordinal for run in runs] == list(range(len(runs)))
        for run in runs:
            assert (run.campaign, run.round, run.order_seed) == (campaign.ref, number, job.order_seed)
            assert (run.trial_seed, run.status, run.resumed) == (run.spec.seed + number - 1, "ok", False)
            assert run.dataset_sha256 == mnist_files.catalogue().sha256
            steps = sum(row.updates for row in run.counters if row.variable == "W")
            assert steps == run.spec.iterations == sum(row.steps for row in run.staleness)


def test_its_bundle_is_a_good_one(native_program: Program, quick: Path, tmp_path: Path) -> None:
    done = native_program.run("export", "--results", quick, "--out", tmp_path / "bundle.zip")
    assert done.returncode == 0, done.stderr
    report = verify(tmp_path / "bundle.zip")
    assert report.runs == len(runs_of(quick))
    assert [problem for problem in report.problems if problem.severity == "error"] == []


def test_its_probe_is_pythons_and_goes_along(native_program: Program, quick: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(quick, results)
    done = native_program.run("probe", "--seconds", "5", "--json", "--results", results)
    assert done.returncode == 0, done.stderr
    found = document.parse((results / "probe.json").read_text(), "probe.json")
    assert found.as_dict() == json.loads(done.stdout)
    assert found.platform_sha256 == platform_sha256(platform_facts())
    assert native_program.run("export", "--results", results, "--out", tmp_path / "bundle.zip").returncode == 0
    with zipfile.ZipFile(tmp_path / "bundle.zip") as bundle:
        assert bundle.read("probe.json") == (results / "probe.json").read_bytes()


def test_python_stores_them(quick: Path, tmp_path: Path) -> None:
    report = ingest(sqlite_url(tmp_path / "study.db"), run_files(quick))
    assert report.runs_new == len(runs_of(quick))


def test_what_is_measured_is_not_measured_again(native_program: Program, quick: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in run_files(quick)}
    done = native_program.run(*QUICK, "--results", quick)
    assert (done.returncode, done.stdout) == (0, "Nothing to do: everything is already measured.\n")
    assert {path: path.stat().st_mtime_ns for path in run_files(quick)} == before


def without_times(run: Any) -> Any:
    """The results that depend only on the seed with one worker: everything except times."""
    fields = {
        name: [row.model_dump() for row in getattr(run, name)] for name in ("counters", "staleness", "lost", "reads")
    }
    for row in fields["counters"]:
        del row["lock_waited_s"], row["lock_held_s"]
    return run.final_accuracy, run.fused, [(point.iteration, point.accuracy) for point in run.curve], fields


def test_one_worker_finds_what_it_finds_in_python(native_program: Program, quick: Path, tmp_path: Path) -> None:
    alone = [run for run in runs_of(quick) if run.spec.threads == 1 and run.round == 2]
    alone += measured(
        native_program, tmp_path, "run", "--experiment", "time-to-accuracy", "--points", "1", "--rounds", "1"
    )
    assert {run.spec.model for run in alone} == {"mnist_softmax", "mnist_mlp"}
    dataset = datasets.load("mnist")
    images_of = {seed: TrialData.make(dataset, 784, seed) for seed in {run.trial_seed for run in alone}}
    for run in alone:
        images = images_of[run.trial_seed]
        variant = Variant(run.spec, resolve(run.spec.strategy, run.spec.parameters()))
        trained = variant.run(run.spec, run.trial_seed, images)
        python = Run.model_validate(run.model_dump() | vars(trained))
        assert without_times(run) == without_times(python), (run.spec.strategy, run.trial_seed)


def test_transactions_are_counted_or_refused_with_the_reason(native_program: Program, tmp_path: Path) -> None:
    """Hardware transactions on a machine without them, and emulated ones; the run includes the emulated machine's
    numbers.
    """
    arguments = ("run", "--experiment", "transaction-size", "--rounds", "1", "--points", "18")
    runs = measured(native_program, tmp_path, *arguments)
    for run in runs:
        if run.status == "unsupported":
            assert run.reason
            if run.spec.provider != "rtm":
                assert "threads are more than the" in run.reason, (
                    "emulated ones are refused for want of processors alone"
                )
            continue
        assert run.status == "ok"
        for row in run.counters:
            assert row.commits is not None
            assert row.attempts == row.commits + sum(
                abort.n for abort in run.aborts if (abort.worker, abort.variable) == (row.worker, row.variable)
            )
    emulated = [run for run in runs if run.evidence == "emulated"]
    assert {run.backend.name for run in emulated if run.backend} == {"intel-tsx-study", "ibm-power8-s822"}
    # The scheduler decides whether two threads of so short a trial overlap, and abort. What does not fit always aborts.
    mechanisms = {"intel-tsx-study": "rtm", "ibm-power8-s822": "power"}
    for run in emulated:
        assert run.backend
        assert {abort.mechanism for abort in run.aborts} <= {mechanisms[run.backend.name]}
    assert any(run.aborts for run in emulated if run.spec.profile == "ibm-power8-s822" and run.spec.chunk == 4096)


Begin = Callable[[Path], subprocess.Popen[bytes]]


@pytest.fixture
def begin(native_program: Program) -> Iterator[Begin]:
    """Start the program with some long trials, their results in a folder; it is ended after the test."""
    processes = []

    def began(results: Path) -> subprocess.Popen[bytes]:
        command = [native_program.path, *SIX_LONG_TRIALS, "--results", results]
        processes.append(subprocess.Popen(command, stderr=subprocess.PIPE))
        return processes[-1]

    yield began
    for process in processes:
        process.kill()
        process.wait()


def is_over(process: subprocess.Popen[bytes]) -> bool:
    """Whether the program has ended; if not, some time has passed on return."""
    time.sleep(0.001)
    return process.poll() is not None


def has_a_trial(results: Path) -> bool:
    """Whether the journal of the round has a trial."""
    with suppress(FileNotFoundError):  # it is removed when the round ends
        return any(b"\n" in path.read_bytes() for path in results.rglob("round-001.jsonl.part"))
    return False


def interrupted(process: subprocess.Popen[bytes], results: Path) -> Journal | None:
    """The journal after an interruption of the round, once it has a trial. None if the round ended before."""
    while not has_a_trial(results):
        if is_over(process):
            return None
    children = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGINT)
    code = process.wait(60)
    psutil.wait_procs(children, timeout=60)
    if run_files(results):
        return None
    assert code == 128 + signal.SIGINT
    assert b"finished trials are kept" in (process.stderr.read() if process.stderr else b"")
    (path,) = results.rglob("round-001.jsonl.part")
    return Journal(path.with_suffix(""))


@pytest.mark.parametrize("finisher", ["itself", "Python"])
def test_what_an_interrupted_round_has_finished_is_kept(
    native_program: Program, begin: Begin, tmp_path: Path, finisher: str
) -> None:
    # All trials may end before this test gets a processor to interrupt them; then it begins again.
    folders = (tmp_path / str(attempt) for attempt in itertools.count())
    results, journal = next((each, left) for each in folders if (left := interrupted(begin(each), each)))
    if finisher == "itself":
        measured(native_program, results, *SIX_LONG_TRIALS)
    else:
        points = Plan(STUDY, "full", results).points("true-contention", "mnist")
        job = RoundJob(
            campaign=journal.runs[0].campaign,
            experiment=journal.runs[0].experiment,
            number=1,
            points=[points[i * len(points) // 6] for i in range(6)],
            trial_timeout_s=120,
            run_file=journal.run_file,
        )
        run_round(job)
    runs = runs_of(results)
    assert {run.uid for run in runs if not run.resumed} == {run.uid for run in journal.runs} != set()
    assert len(runs) == 6
    assert {run.status for run in runs if run.spec.provider != "rtm"} == {"ok"}
    assert len({run.campaign.uid for run in runs}) == 1


def stopped_in(child: psutil.Process, results: Path) -> dict[str, Any] | None:
    """What a process of the round does, which is stopped there; None if it does nothing or has ended."""
    with suppress(psutil.NoSuchProcess, FileNotFoundError):
        child.suspend()
        while child.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
            time.sleep(0.001)
        for path in results.rglob("round-001.jsonl.now"):
            note: dict[str, Any] = json.loads(path.read_text())
            return note if note["pid"] == child.pid else None
    return None


def killed_twice_in_a_place(process: subprocess.Popen[bytes], results: Path) -> dict[str, Any] | None:
    """The trial or warm-up in which the process of the round was killed twice. None if the round ended before."""
    kills: Counter[str] = Counter()
    while not is_over(process):
        for child in psutil.Process(process.pid).children():
            note = stopped_in(child, results)
            with suppress(psutil.NoSuchProcess):
                if note is None:
                    child.resume()
                    continue
                child.kill()
            psutil.wait_procs([child], timeout=60)
            place = json.dumps([note["warm_up"], [run["spec"] for run in note["trials"]]])
            kills[place] += 1
            if kills[place] == 2:
                return note
    return None


def test_a_trial_that_kills_its_process_twice_has_failed(begin: Begin, tmp_path: Path) -> None:
    # The kills may meet several warm-ups and trials, or none if this test gets no processor; then it begins again.
    attempts = ((begin(each), each) for each in (tmp_path / str(attempt) for attempt in itertools.count()))
    process, results, note = next((*each, note) for each in attempts if (note := killed_twice_in_a_place(*each)))
    assert process.wait(300) == 0
    failed = [run for run in runs_of(results) if run.status == "failed"]
    assert {run.spec.sha256 for run in failed} == {Run.model_validate(run).spec.sha256 for run in note["trials"]}
    where = " in its warm-up" if note["warm_up"] else ""
    assert {run.reason for run in failed} == {f"its process was ended by SIGKILL{where}, 2 times"}


def test_what_takes_too_long_is_recorded(native_program: Program, tmp_path: Path) -> None:
    long = ("run", "--experiment", "true-contention", "--rounds", "1", "--points", "2")
    runs = measured(native_program, tmp_path, *long, "--trial-timeout", "0.0001")
    # The watch may get a processor only after the warm-up has ended; the trial is longer.
    reasons = {f"{what}took longer than 0.0001 s" for what in ("its warm-up ", "")}
    assert [(run.status, run.reason in reasons) for run in runs] == [("timeout", True)] * 2


def test_mnist_that_was_altered_is_refused(native_program: Program, tmp_path: Path) -> None:
    folder = tmp_path / "mnist"
    folder.mkdir()
    for name in (
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    ):
        (folder / name).write_bytes(b"\0" * 100)
    done = native_program.run(*QUICK, "--data", tmp_path, "--results", tmp_path / "results")
    assert done.returncode == 2
    assert "train-images-idx3-ubyte is not the official train-images-idx3-ubyte" in done.stderr
    assert run_files(tmp_path / "results") == []


def run_abroad(program: Program, results: Path, *arguments: str) -> None:
    """A round, by a program that runs in an emulator and starts its workers in it."""
    launcher = {**os.environ, "TMFLOW_NATIVE_LAUNCHER": " ".join(program.emulator)}
    done = program.run(*arguments, "--rounds", "1", "--results", results, env=launcher)
    assert done.returncode == 0, done.stderr


def test_a_machine_that_is_emulated_runs_it_too(foreign_program: Program, quick: Path, tmp_path: Path) -> None:
    run_abroad(foreign_program, tmp_path, *QUICK, "--points", "2")
    here = {run.spec: run for run in runs_of(quick) if run.round == 1}
    runs = runs_of(tmp_path)
    assert [run.spec.threads for run in runs] == [1, 1]
    for run in runs:
        assert (run.status, run.trial_seed) == ("ok", here[run.spec].trial_seed)
        assert run.final_accuracy == pytest.approx(
            here[run.spec].final_accuracy, abs=0.005
        )  # sums are rounded differently
        assert run.platform["isa"] in str(foreign_program.path)


def test_transactions_are_emulated_where_the_processor_has_none(foreign_program: Program, tmp_path: Path) -> None:
    """TSX is emulated on other processors, too: neither has usable transactions here."""
    run_abroad(foreign_program, tmp_path, "run", "--experiment", "transaction-size", "--points", "18")
    runs = [run for run in runs_of(tmp_path) if run.spec.threads == 1]
    assert {run.status for run in runs if run.spec.provider == "rtm"} == {"unsupported"}
    emulated = [run for run in runs if run.spec.provider == "emulated"]
    assert {(run.status, run.spec.profile) for run in emulated} == {
        ("ok", "intel-tsx-study"),
        ("ok", "ibm-power8-s822"),
    }
