"""A round records points that cannot run, fail or hang as such, and continues with the others."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tmflow.base.errors import BadInput
from tmflow.native import loader, registry
from tmflow.platform.profiles import load_profile
from tmflow.runfile import record
from tmflow.runfile.record import CampaignRef, ExperimentRef, Run
from tmflow.runner.journal import Journal
from tmflow.runner.supervisor import RoundJob, run_round
from tmflow.spec.strategies import parameters_of
from tmflow.spec.trial import TrialSpec

pytestmark = pytest.mark.slow


def point(**factors: Any) -> TrialSpec:
    defaults = {
        "model": "mnist_softmax", "dataset": "digits", "strategy": "lock", "threads": 1, "batch": 5, "iterations": 20,
        "learning_rate": 0.5, "test_images": 50,
    }  # fmt: skip
    return TrialSpec.model_validate({**defaults, **factors})


def job_of(tmp_path: Path, points: list[TrialSpec], timeout_s: float = 300) -> RoundJob:
    return RoundJob(
        campaign=CampaignRef(uid="a-campaign", created_at_utc="2026-01-01T00:00:00Z"),
        experiment=ExperimentRef(name="test", scale="adhoc", definition_sha256="0" * 64, definition={}),
        number=2,
        points=points,
        trial_timeout_s=timeout_s,
        run_file=tmp_path / "round-002.jsonl",
    )


def run(tmp_path: Path, points: list[TrialSpec], timeout_s: float = 300) -> dict[str, Run]:
    job = job_of(tmp_path, points, timeout_s)
    run_round(job)
    runs = list(record.read(job.run_file))
    assert {run.spec.sha256 for run in runs} == {point.sha256 for point in points}
    assert len(runs) == len(points)
    return {run.spec.sha256: run for run in runs}


def test_hanging_and_failing_trials_do_not_stop_the_others(tmp_path: Path) -> None:
    hangs = point(iterations=10_000_000)
    fails = point(strategy="tf_nolock", variables="resource")
    too_large = point(batch=9000)
    good = [point(threads=threads) for threads in (1, 2)]
    runs = run(tmp_path, [hangs, fails, too_large, *good], timeout_s=30)
    assert runs[hangs.sha256].status == "timeout"
    assert runs[hangs.sha256].reason == "took longer than 30 s"
    assert runs[fails.sha256].status == "failed"
    assert "always takes the exclusive lock" in str(runs[fails.sha256].reason)
    assert runs[too_large.sha256].status == "unsupported"
    assert [runs[point.sha256].status for point in good] == ["ok", "ok"]


MLP: dict[str, Any] = {"driver": "native", "model": "mnist_mlp", "activation": "relu"}
# The warm-up of a thousand steps takes much longer than a trial: over ten seconds on the fastest machines.
SLOW: dict[str, Any] = {**MLP, "hidden": 800, "batch": 1000}
SHORT: dict[str, Any] = {**MLP, "hidden": 100, "batch": 50}  # a second or so
QUICK: dict[str, Any] = {**MLP, "hidden": 10, "batch": 5}


def test_a_warm_up_that_hangs_is_given_up_with_the_trials_that_have_as_many_workers(tmp_path: Path) -> None:
    """Immediately, and not again in each process; other batches, threads and models continue."""
    hanging = [point(**SLOW, threads=2, iterations=iterations) for iterations in (2, 3)]
    fewer = point(**SLOW, iterations=2)
    same_graph = [point(**{**SLOW, "batch": 2}, threads=threads, iterations=2) for threads in (1, 2)]
    other = point(**QUICK)
    runs = run(tmp_path, [*hanging, fewer, *same_graph, other], timeout_s=8)
    for spec in (*hanging, fewer):
        assert (runs[spec.sha256].status, runs[spec.sha256].reason) == ("timeout", "its warm-up took longer than 8 s")
    assert {runs[spec.sha256].status for spec in (*same_graph, other)} == {"ok"}
    hung = {(runs[spec.sha256].started_at_utc, spec.threads) for spec in (*hanging, fewer)}
    assert len(hung) == 2, "one warm-up with two workers, then one with one"


@pytest.mark.parametrize(("times", "status"), [(1, "ok"), (2, "failed")])
def test_a_warm_up_that_kills_its_process_gets_a_second_chance(tmp_path: Path, times: int, status: str) -> None:
    deadly = [point(**SHORT, threads=2, iterations=iterations) for iterations in (20, 30)]
    harmless = point(**QUICK)
    first = next(spec for spec, _ in job_of(tmp_path, [*deadly, harmless]).ordered_trials() if spec in deadly)
    killed: list[int] = []
    arguments = (first, tmp_path / "round-002.jsonl", times, killed)
    killer = threading.Thread(target=kill_in, args=arguments, kwargs={"warm_up": True})
    killer.start()
    runs = run(tmp_path, [*deadly, harmless])
    killer.join()
    assert len(killed) == times
    assert runs[harmless.sha256].status == "ok"
    assert {runs[spec.sha256].status for spec in deadly} == {status}
    if status == "failed":
        reason = "its process was ended by SIGKILL in its warm-up, 2 times"
        assert {runs[spec.sha256].reason for spec in deadly} == {reason}


def kill_in(trial: TrialSpec, run_file: Path, times: int, seen: list[int], *, warm_up: bool = False) -> None:
    """Kill the process of the round this many times, each time in this trial, or in the warm-up of this and others."""
    deadline = time.monotonic() + 300
    while len(seen) < times and time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            note = Journal(run_file).under_way()
            if note and note.warm_up == warm_up and note.trials[0].spec == trial and note.pid not in seen:
                os.kill(note.pid, signal.SIGKILL)
                seen.append(note.pid)
        time.sleep(0.01)


@pytest.mark.parametrize(("times", "status"), [(1, "ok"), pytest.param(2, "failed", marks=pytest.mark.deep)])
def test_a_trial_that_kills_its_process_gets_a_second_chance(tmp_path: Path, times: int, status: str) -> None:
    deadly, harmless = point(iterations=20_000), point(threads=2)
    killed: list[int] = []
    killer = threading.Thread(target=kill_in, args=(deadly, tmp_path / "round-002.jsonl", times, killed))
    killer.start()
    runs = run(tmp_path, [deadly, harmless])
    killer.join()
    assert len(killed) == times
    assert runs[harmless.sha256].status == "ok"
    assert runs[deadly.sha256].status == status
    if status == "failed":
        assert runs[deadly.sha256].reason == "its process was ended by SIGKILL, 2 times"


GL_WT: dict[str, Any] = {"strategy": "itm", "method": "gl_wt", "optimisation": "O3"}
ENVIRONMENTS = {
    "plain": [point(), point(threads=2), point(strategy="nolock")],
    "elided": [point(strategy="tle", tunables="default", variables=kind) for kind in ("ref", "resource")],
    "gl_wt": [point(strategy="itm", method="gl_wt", optimisation=level) for level in ("O0", "O3")],
    "serial": [point(strategy="itm", method="serial")],
}


@pytest.mark.deep
def test_a_round_of_several_environments_has_a_process_for_each(tmp_path: Path) -> None:
    points = [point for alike in ENVIRONMENTS.values() for point in alike]
    job = job_of(tmp_path, points)
    processes = job.processes()
    by_process = sorted(sorted(trial.spec.sha256 for trial in trials) for trials in processes)
    assert by_process == sorted(sorted(point.sha256 for point in alike) for alike in ENVIRONMENTS.values())
    runs = run(tmp_path, points)
    assert [runs[trial.spec.sha256].ordinal for trials in processes for trial in trials] == list(range(len(points)))
    assert not any(run.resumed for run in runs.values())
    for recorded in runs.values():
        runnable = registry.require(recorded.spec.strategy).why_not
        assert (recorded.status, recorded.reason) == (("unsupported", runnable) if runnable else ("ok", None))
        for row in recorded.counters:
            assert row.commits is None or row.fallbacks is not None
            assert recorded.spec.strategy not in ("itm", "tle") or row.updates == (row.commits or 0) + (
                row.fallbacks or 0
            )


def test_a_round_whose_second_process_is_killed_keeps_what_it_has(tmp_path: Path) -> None:
    points = [point(), point(iterations=20_000), *(point(**GL_WT, iterations=n) for n in (20, 5_000))]
    _, second = job_of(tmp_path, points).processes()
    deadly = max((trial.spec for trial in second), key=lambda point: point.iterations)
    killed: list[int] = []
    killer = threading.Thread(target=kill_in, args=(deadly, tmp_path / "round-002.jsonl", 2, killed))
    killer.start()
    runs = run(tmp_path, points)
    killer.join()
    assert len(killed) == 2
    assert {sha for sha, recorded in runs.items() if recorded.status != "ok"} == {deadly.sha256}
    assert runs[deadly.sha256].reason == "its process was ended by SIGKILL, 2 times"


def run_process(tmp_path: Path, job: RoundJob, process: int, **variables: str) -> None:
    """One process of a round, without its supervisor."""
    (tmp_path / "job.json").write_text(job.model_dump_json())
    command = [sys.executable, "-m", "tmflow.runner.round", tmp_path / "job.json", str(process)]
    subprocess.run(command, env={**os.environ, **variables}, check=True)


def test_an_interrupted_round_goes_on_with_the_process_that_is_left(tmp_path: Path) -> None:
    job = job_of(tmp_path, [point(), point(strategy="nolock"), *ENVIRONMENTS["serial"]])
    first, second = job.processes()
    run_process(tmp_path, job, 0, ITM_DEFAULT_METHOD="serial")
    kept = {recorded.uid for recorded in Journal(job.run_file).runs}
    assert len(kept) == len(first)
    runs = run(tmp_path, job.points)
    assert {runs[trial.spec.sha256].uid for trial in first} == kept
    assert all(runs[trial.spec.sha256].resumed for trial in second), "it ran apart from the rest of its round"


def test_a_library_that_is_none_stops_the_round_before_it_begins(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"library .*none\.so of strategy 'itm' is not a file"):
        run(tmp_path, [point(), point(strategy="itm", method="ml_wt", library=str(tmp_path / "none.so"))])
    assert list(tmp_path.iterdir()) == []


def test_a_state_that_cannot_be_had_is_recorded_with_the_reason(tmp_path: Path) -> None:
    """libitm is requested, but another library runs the transactions."""
    if reason := registry.require("itm").why_not:
        pytest.skip(reason)
    library = tmp_path / "other.so"
    shutil.copy(str(loader.core().tm_library()), library)
    job = job_of(tmp_path, [point(**GL_WT)])
    run_process(tmp_path, job, 0, ITM_DEFAULT_METHOD="gl_wt", LD_PRELOAD=str(library))
    (recorded,) = record.read(job.run_file)
    assert recorded.status == "unsupported"
    assert "in place of libitm, and no library was asked for" in str(recorded.reason)


def test_elision_that_glibc_declines_is_recorded_as_unsupported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tunables enable elision, but glibc believes that the processor lacks RTM, and does not report it."""
    if reason := registry.require("tle").why_not:
        pytest.skip(reason)
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-RTM")
    (recorded,) = run(tmp_path, [point(strategy="tle", tunables="custom")]).values()
    assert recorded.status == "unsupported"
    assert "process elides none" in str(recorded.reason)


def test_a_round_that_is_measured_is_not_run_again_and_one_of_other_points_is_set_aside(tmp_path: Path) -> None:
    (first,) = run(tmp_path, [point()]).values()
    (again,) = run(tmp_path, [point()]).values()
    assert again == first
    (other,) = run(tmp_path, [point(batch=6)]).values()
    assert other.spec.batch == 6
    assert list(record.read(tmp_path / "round-002.a-campai.jsonl")) == [first]


def test_a_run_says_where_and_how_it_ran(tmp_path: Path) -> None:
    (recorded,) = run(tmp_path, [point(seed=40)]).values()
    assert recorded.trial_seed == 41
    assert not recorded.resumed
    assert recorded.platform["threads_logical"] > 0
    assert recorded.environment["kernel"]
    assert recorded.software.tensorflow
    assert recorded.software.compiler
    assert recorded.software.lock_sha256
    assert recorded.dataset_sha256
    assert recorded.machine is not None
    assert recorded.total_s is not None
    assert recorded.loop_s is not None
    assert recorded.loop_s < recorded.total_s


def test_an_emulated_run_says_so_and_what_emulated_it(tmp_path: Path) -> None:
    htm = {"strategy": "htm", **parameters_of("htm"), "provider": "emulated", "profile": "intel-tsx-study"}
    runs = run(tmp_path, [emulated := point(**htm), point()])
    found = runs[emulated.sha256]
    profile = load_profile("intel-tsx-study")
    assert found.evidence == "emulated"
    assert found.backend is not None
    assert (found.backend.kind, found.backend.name) == ("emulator", "intel-tsx-study")
    assert (found.backend.config, found.backend.config_sha256) == (profile.as_dict(), profile.sha256)
    assert {(r.evidence, r.backend) for r in runs.values() if r is not found} == {("measured", None)}


def test_emulated_trials_with_more_threads_than_processors_are_unsupported_and_the_others_run(tmp_path: Path) -> None:
    emulated = {"strategy": "htm", "provider": "emulated", "profile": "ibm-power8-s822"}
    fits, too_many = (point(**emulated, threads=threads) for threads in (1, 17))
    job_cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, job_cpus[:16])  # inherited by the process of the round
    try:
        runs = run(tmp_path, [too_many, fits])
    finally:
        os.sched_setaffinity(0, job_cpus)
    assert runs[too_many.sha256].status == "unsupported"
    assert str(runs[too_many.sha256].reason).startswith(f"17 threads are more than the {len(job_cpus[:16])} processors")
    assert runs[too_many.sha256].machine is None  # in no time
    assert runs[fits.sha256].status == "ok"
    assert {abort.mechanism for abort in runs[fits.sha256].aborts} <= {"power"}
    assert sum(row.commits or 0 for row in runs[fits.sha256].counters) > 0
