"""Nothing of a trial's process runs beside its workers, not even idle threads of NumPy's products."""

from __future__ import annotations

import time
from dataclasses import fields
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import numpy as np
import pytest

from tests.support.sample_runs import sample_runs
from tmflow.runfile.record import CampaignRef, ExperimentRef
from tmflow.runner import round as runner
from tmflow.runner.journal import Journal
from tmflow.runner.supervisor import RoundJob
from tmflow.spec.trial import TrialSpec
from tmflow.training.measurement import Measurement

POINT = {"model": "mnist_softmax", "dataset": "digits", "strategy": "lock", "threads": 1, "iterations": 20}
MEASURED = {field.name: getattr(sample_runs()[0], field.name) for field in fields(Measurement)}
IDLE_S = 0.02


def used_s_after_a_product() -> float:
    """The processor time that this process uses while it sleeps for IDLE_S after a large product."""
    np.ones((600, 600), np.float32) @ np.ones((600, 600), np.float32)
    before = time.process_time()
    time.sleep(IDLE_S)
    return time.process_time() - before


class Variant:
    """Evaluates, as a trial does at a point of its curve, and waits."""

    def __init__(self) -> None:
        self.used_s: list[float] = []

    def warm_up(self, *_: object) -> None:
        pass

    def run(self, *_: object) -> SimpleNamespace:
        self.used_s.append(used_s_after_a_product())
        return SimpleNamespace(**MEASURED)

    def close(self) -> None:
        pass


def test_no_thread_spins_after_an_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variant = Variant()
    monkeypatch.setattr(runner, "make_variant", lambda *_: variant)
    job = RoundJob(
        campaign=CampaignRef(uid="a-campaign", created_at_utc="2026-01-01T00:00:00Z"),
        experiment=ExperimentRef(name="test", scale="adhoc", definition_sha256="0" * 64, definition={}),
        number=1,
        points=[
            TrialSpec.model_validate({**POINT, "learning_rate": 0.5, "test_images": 50, "batch": batch})
            for batch in range(1, 6)
        ],
        trial_timeout_s=300,
        run_file=tmp_path / "round-001.jsonl",
    )
    runner.RoundRunner(job, Journal(job.run_file), 0).run()
    assert len(variant.used_s) == 5
    # Threads that spin do so after each product; a single value may also have a start of another test's thread.
    assert median(variant.used_s) < IDLE_S / 2
