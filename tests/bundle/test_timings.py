"""Invented times: each kind is detected, and real times are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.sample_bundles import sample_bundle
from tests.support.sample_runs import sample_runs
from tmflow.bundle.verify import verify
from tmflow.runfile.record import Run

THREADS = (1, 2, 4)
NOISE = np.random.default_rng(20261122)


def times(law: Callable[[Run], float]) -> list[Run]:
    """Four rounds of nine points, with times that follow a simple law."""
    runs = []
    for run in sample_runs(threads=THREADS, rounds=4):
        runs.append(run.model_copy(update={"loop_s": law(run), "total_s": None, "curve": []}))
    return runs


def amdahl(run: Run) -> float:
    return 0.05 + 0.2 / run.spec.threads


def noisy(run: Run) -> float:
    return float(amdahl(run) * np.exp(NOISE.normal(0, 0.02)))


def problems(folder: Path, law: Callable[[Run], float]) -> list[str]:
    report = verify(sample_bundle(folder, times(law)))
    return [problem.sentence for problem in report.problems if problem.severity == "error"]


def test_times_of_a_clock_pass(tmp_path: Path) -> None:
    assert problems(tmp_path, noisy) == []


def test_very_quiet_machines_pass(tmp_path: Path) -> None:
    assert problems(tmp_path, lambda run: float(amdahl(run) * np.exp(NOISE.normal(0, 0.002)))) == []


@pytest.mark.parametrize(
    ("law", "expected"),
    [
        (amdahl, "of the times equal those of other runs"),
        (lambda run: round(noisy(run), 4), "have 4 digits or fewer"),
        (lambda run: float(amdahl(run) * np.exp(NOISE.normal(0, 1e-5))), "no machine repeats itself so exactly"),
    ],
    ids=["equal", "rounded", "without noise"],
)
def test_made_up_times_are_refused(tmp_path: Path, law: Callable[[Run], float], expected: str) -> None:
    assert any(expected in sentence for sentence in problems(tmp_path, law))


def test_times_that_scale_exactly_are_refused(tmp_path: Path) -> None:
    noise = {number: float(np.exp(NOISE.normal(0, 0.05))) for number in range(1, 5)}
    (error,) = problems(tmp_path, lambda run: 0.2 * noise[run.round] * _level(run) / run.spec.threads)
    assert "scale exactly" in error


def _level(run: Run) -> float:
    return 1 + len(run.spec.strategy) / 7


def test_a_few_coincidences_are_no_forgery(tmp_path: Path) -> None:
    runs = times(noisy)
    runs[1] = runs[1].model_copy(update={"loop_s": runs[0].loop_s})
    runs[2] = runs[2].model_copy(update={"loop_s": 0.25})
    assert verify(sample_bundle(tmp_path, runs)).ok


def test_trials_in_another_order_than_they_began_are_refused(tmp_path: Path) -> None:
    runs = sample_runs(rounds=1)
    first, last = min(runs, key=lambda run: run.ordinal), max(runs, key=lambda run: run.ordinal)
    swapped = {first.uid: last.ordinal, last.uid: first.ordinal}
    forged = [
        run.model_copy(update={"ordinal": swapped.get(run.uid, run.ordinal), "total_s": run.loop_s and run.loop_s * 4})
        for run in runs
    ]
    sentences = [problem.sentence for problem in verify(sample_bundle(tmp_path, forged)).problems]
    assert any("ordinal" in sentence and "before run" in sentence for sentence in sentences)
