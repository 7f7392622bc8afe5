"""A round: what cannot run, fails or hangs is recorded as such, and the rest goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tmflow.errors import BadInput
from tmflow.runner import runfile
from tmflow.runner.job import RoundJob
from tmflow.runner.journal import Journal
from tmflow.runner.runfile import CampaignRef, ExperimentRef, Run
from tmflow.runner.supervise import run_round
from tmflow.spec import TrialSpec

pytestmark = pytest.mark.slow


def point(**factors: Any) -> TrialSpec:
    defaults = {
        "model": "mnist_softmax", "dataset": "digits", "strategy": "lock", "threads": 1, "batch": 5, "iterations": 20,
        "learning_rate": 0.5, "test_images": 50,
    }  # fmt: skip
    return TrialSpec.model_validate({**defaults, **factors})


def run(tmp_path: Path, points: list[TrialSpec], timeout_s: float = 300) -> dict[str, Run]:
    job = RoundJob(
        campaign=CampaignRef(uid="a-campaign", created_at_utc="2026-01-01T00:00:00Z"),
        experiment=ExperimentRef(name="test", scale="adhoc", definition_sha256="0" * 64, definition={}),
        number=2,
        points=points,
        trial_timeout_s=timeout_s,
        run_file=tmp_path / "round-002.jsonl",
    )
    run_round(job)
    runs = list(runfile.read(job.run_file))
    assert {run.spec.sha256 for run in runs} == {point.sha256 for point in points}
    assert len(runs) == len(points)
    return {run.spec.sha256: run for run in runs}


def test_hanging_and_failing_trials_do_not_stop_the_others(tmp_path: Path) -> None:
    hangs = point(iterations=10_000_000)
    fails = point(strategy="tf_nolock", variables="resource")
    too_large = point(batch=9000)
    good = [point(threads=threads) for threads in (1, 2)]
    runs = run(tmp_path, [hangs, fails, too_large, *good], timeout_s=12)
    assert runs[hangs.sha256].status == "timeout"
    assert runs[hangs.sha256].reason == "took longer than 12 s"
    assert runs[fails.sha256].status == "failed"
    assert "always takes the exclusive lock" in str(runs[fails.sha256].reason)
    assert runs[too_large.sha256].status == "unsupported"
    assert [runs[point.sha256].status for point in good] == ["ok", "ok"]


def worker() -> int | None:
    """The process of the round: the child of this process that runs `tmflow.runner.round`."""
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    for pid in " ".join(path.read_text() for path in children).split():
        with contextlib.suppress(OSError):
            if b"tmflow.runner.round" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return int(pid)
    return None


def kill_in(trial: TrialSpec, run_file: Path, times: int, seen: list[int]) -> None:
    """Kill the process of the round as often, each time in this trial."""
    deadline = time.monotonic() + 120
    while len(seen) < times and time.monotonic() < deadline:
        with contextlib.suppress(BadInput):
            under_way, pid = Journal(run_file).under_way(), worker()
            if under_way and under_way.spec == trial and pid and pid not in seen:
                os.kill(pid, signal.SIGKILL)
                seen.append(pid)
        time.sleep(0.01)


@pytest.mark.parametrize(("times", "status"), [(1, "ok"), (2, "failed")])
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


def test_a_round_that_is_measured_is_not_run_again_and_one_of_other_points_is_set_aside(tmp_path: Path) -> None:
    (first,) = run(tmp_path, [point()]).values()
    (again,) = run(tmp_path, [point()]).values()
    assert again == first
    (other,) = run(tmp_path, [point(batch=6)]).values()
    assert other.spec.batch == 6
    assert list(runfile.read(tmp_path / "round-002.a-campai.jsonl")) == [first]


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
