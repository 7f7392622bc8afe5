"""A round: what cannot run, fails or hangs is recorded as such, and the rest goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tmflow.runner import runfile
from tmflow.runner.job import RoundJob
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
