"""Every trial is measured warm: a warm-up that failed is repeated before the next trial of the graph and batch."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.sample_runs import sample_runs
from tmflow.runfile.record import CampaignRef, ExperimentRef
from tmflow.runner import round as runner
from tmflow.runner.journal import Journal
from tmflow.runner.supervisor import RoundJob
from tmflow.spec.trial import TrialSpec
from tmflow.training.measurement import Measurement

POINT = {"model": "mnist_softmax", "dataset": "digits", "strategy": "lock", "iterations": 20, "test_images": 50}
MEASURED = {field.name: getattr(sample_runs()[0], field.name) for field in fields(Measurement)}


class Variant:
    """A graph that remembers which of its trials ran cold."""

    def __init__(self) -> None:
        self.warm: set[int] = set()
        self.cold: list[TrialSpec] = []

    def warm_up(self, images: object, batch: int, workers: int) -> None:
        self.warm.add(batch)

    def run(self, spec: TrialSpec, *_: object) -> SimpleNamespace:
        if spec.batch not in self.warm:
            self.cold.append(spec)
        return SimpleNamespace(**MEASURED)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_a_failed_warm_up_is_repeated(failures: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variants: list[Variant] = []
    attempts = 0

    def make_variant(*_: Any) -> Variant:
        nonlocal attempts
        attempts += 1
        if attempts <= failures:
            raise MemoryError("for a while")
        variants.append(Variant())
        return variants[-1]

    monkeypatch.setattr(runner, "make_variant", make_variant)
    points = [
        TrialSpec.model_validate({**POINT, "threads": threads, "batch": batch, "learning_rate": 0.5})
        for threads in (1, 2)
        for batch in (5, 10)
    ]
    job = RoundJob(
        campaign=CampaignRef(uid="a-campaign", created_at_utc="2026-01-01T00:00:00Z"),
        experiment=ExperimentRef(name="test", scale="adhoc", definition_sha256="0" * 64, definition={}),
        number=1,
        points=points,
        trial_timeout_s=300,
        run_file=tmp_path / "round-001.jsonl",
    )
    journal = Journal(job.run_file)
    runner.RoundRunner(job, journal, 0).run()
    assert [run.status for run in journal.runs] == ["ok"] * 4
    assert [variant.cold for variant in variants] == [[]]
