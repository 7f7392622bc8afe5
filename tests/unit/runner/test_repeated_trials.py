"""A round with repeats runs each point several times, far apart, and a resumed round runs exactly what is missing."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.sample_runs import sample_runs
from tmflow.runfile import record
from tmflow.runfile.record import CampaignRef, ExperimentRef, Run
from tmflow.runner import round as runner
from tmflow.runner.journal import Journal
from tmflow.runner.supervisor import RoundJob, Trial, run_round
from tmflow.spec.trial import TrialSpec
from tmflow.training.measurement import Measurement

POINT = {"model": "mnist_softmax", "dataset": "digits", "batch": 5, "iterations": 20, "learning_rate": 0.5}
MEASURED = {field.name: getattr(sample_runs()[0], field.name) for field in fields(Measurement)}


def point(strategy: str = "lock", threads: int = 1, **parameters: Any) -> TrialSpec:
    return TrialSpec.model_validate({**POINT, "strategy": strategy, "threads": threads, **parameters})


POINTS = [point(threads=threads) for threads in range(1, 20)]


def job_of(tmp_path: Path, points: list[TrialSpec], repeats: int = 1, number: int = 1) -> RoundJob:
    return RoundJob(
        campaign=CampaignRef(uid="a-campaign", created_at_utc="2026-01-01T00:00:00Z"),
        experiment=ExperimentRef(name="test", scale="adhoc", definition_sha256="0" * 64, definition={}),
        number=number,
        points=points,
        repeats=repeats,
        trial_timeout_s=300,
        run_file=tmp_path / f"round-{number:03}.jsonl",
    )


def test_points_are_shuffled_as_ever(tmp_path: Path) -> None:
    job = job_of(tmp_path, POINTS)
    expected = list(POINTS)
    random.Random(job.order_seed).shuffle(expected)
    assert job.ordered_trials() == [Trial(spec, 1) for spec in expected]
    assert job_of(tmp_path, POINTS, 3).ordered_trials()[: len(POINTS)] == job.ordered_trials()


def test_each_pass_has_every_point_once_in_an_order_of_its_own(tmp_path: Path) -> None:
    trials = job_of(tmp_path, POINTS, 4).ordered_trials()
    passes = [trials[at : at + len(POINTS)] for at in range(0, len(trials), len(POINTS))]
    assert [{repeat for _, repeat in one} for one in passes] == [{1}, {2}, {3}, {4}]
    assert [{spec.threads for spec, _ in one} for one in passes] == [set(range(1, 20))] * 4
    assert len({tuple(spec.threads for spec, _ in one) for one in passes}) == 4
    assert job_of(tmp_path, POINTS, 4).ordered_trials() == trials, "the seed decides"


@pytest.mark.parametrize("n", [2, 3])
def test_no_point_runs_twice_in_a_row(n: int, tmp_path: Path) -> None:
    for number in range(1, 50):
        trials = job_of(tmp_path, POINTS[:n], 3, number).ordered_trials()
        assert all(before.spec != after.spec for before, after in pairwise(trials))
        assert Counter(spec.threads for spec, _ in trials) == dict.fromkeys(range(1, n + 1), 3)


def test_a_lone_point_is_repeated(tmp_path: Path) -> None:
    assert [repeat for _, repeat in job_of(tmp_path, POINTS[:1], 3).ordered_trials()] == [1, 2, 3]


def test_each_process_repeats_its_own_points(tmp_path: Path) -> None:
    elided = point("tle", tunables="default")
    job = job_of(tmp_path, [*POINTS[:3], elided], 2)
    assert sorted(len(trials) for trials in job.processes()) == [2, 6]
    assert {trial.key for trial in job.ordered_trials()} == job.keys()


class Variant:
    """A graph whose process ends in the trial number `dies_at` of all its variants, counted from 0."""

    ran = 0
    dies_at: int | None = None

    def warm_up(self, *_: object) -> None:
        pass

    def run(self, *_: object) -> SimpleNamespace:
        if Variant.ran == Variant.dies_at:
            raise KeyboardInterrupt
        Variant.ran += 1
        return SimpleNamespace(**MEASURED)

    def close(self) -> None:
        pass


@pytest.fixture
def variant(monkeypatch: pytest.MonkeyPatch) -> type[Variant]:
    monkeypatch.setattr(runner, "make_variant", lambda *_: Variant())
    monkeypatch.setattr(Variant, "ran", 0)
    monkeypatch.setattr(Variant, "dies_at", None)
    return Variant


def run_main(job: RoundJob, tmp_path: Path) -> list[Run]:
    (tmp_path / "job.json").write_text(job.model_dump_json())
    runner.main(str(tmp_path / "job.json"), 0)
    return list(record.read(job.run_file))


def test_a_round_records_every_repeat_in_its_order(tmp_path: Path, variant: type[Variant]) -> None:
    job = job_of(tmp_path, POINTS[:3], 2)
    runs = run_main(job, tmp_path)
    assert [run.trial for run in runs] == [trial.key for trial in job.ordered_trials()]
    assert [run.ordinal for run in runs] == list(range(6))
    assert {run.trial_seed for run in runs} == {runs[0].spec.seed}
    assert len({run.uid for run in runs}) == variant.ran == 6


@pytest.mark.parametrize("killed_at", range(1, 6))
def test_a_killed_round_runs_what_is_missing_once(killed_at: int, tmp_path: Path, variant: type[Variant]) -> None:
    job = job_of(tmp_path, POINTS[:3], 2)
    variant.dies_at = killed_at
    with pytest.raises(KeyboardInterrupt):
        run_main(job, tmp_path)
    kept = Journal(job.run_file).runs
    assert len(kept) == killed_at
    assert not job.run_file.exists()
    variant.dies_at = None
    runs = run_main(job, tmp_path)
    assert [run.trial for run in runs] == [trial.key for trial in job.ordered_trials()]
    assert [run for run in runs if run.uid in {run.uid for run in kept}] == kept
    assert variant.ran == 6
    assert {run.uid for run in runs if not run.resumed} == {run.uid for run in kept}


def test_a_round_that_is_resumed_with_fewer_repeats_has_no_more_than_these(
    tmp_path: Path, variant: type[Variant]
) -> None:
    variant.dies_at = 5
    with pytest.raises(KeyboardInterrupt):
        run_main(job_of(tmp_path, POINTS[:3], 2), tmp_path)
    runs = run_main(job_of(tmp_path, POINTS[:3]), tmp_path)
    assert {run.trial for run in runs} == job_of(tmp_path, POINTS[:3]).keys()


@pytest.mark.parametrize(("measured", "planned"), [(1, 3), (3, 1)])
def test_a_measured_round_is_not_measured_again_for_other_repeats(
    measured: int, planned: int, tmp_path: Path, variant: type[Variant]
) -> None:
    runs = run_main(job_of(tmp_path, POINTS[:3], measured), tmp_path)
    run_round(job_of(tmp_path, POINTS[:3], planned))
    assert list(record.read(tmp_path / "round-001.jsonl")) == runs
