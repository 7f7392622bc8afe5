"""Runs of a real machine, and a bundle of invented runs with the facts of that machine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from tests.support.sample_bundles import consistent, sample_bundle
from tests.support.sample_runs import sample_runs
from tmflow.contributions.importer import import_bundle
from tmflow.platform.facts import key_of
from tmflow.runfile import record
from tmflow.runfile.record import Run
from tmflow.store.ingest import ingest

MACHINE = "synthetic-test-machine-8t"  # the key of the local runs
EXPERIMENT = "fig-4.1"  # which the answers use
LOW = "fig-4.12"
EXPERIMENTS = (EXPERIMENT, "fig-4.7", LOW)  # which claims use
CLAIM = "deep-not-acceptable"  # it holds by the local runs of LOW, and does not by the forged ones
FIGURE: dict[str, Any] = {"dataset": "mnist", "matrix": 784, "threads": (1, 2, 4)}


def local_runs(rounds: int = 6) -> list[Run]:
    """Twice the workers are nearly twice as fast, no strategy differs from another, and those of LOW learn nothing."""
    runs = [_timed(run, 0.97) for run in sample_runs(EXPERIMENTS, ("tf_lock", "tf_nolock"), rounds=rounds, **FIGURE)]
    poor = {"final_accuracy": 0.1, "curve": []}
    return [run.model_copy(update=poor if run.experiment.name == LOW else {}) for run in runs]


def forged_runs(rounds: int = 12, **changes: Any) -> list[Run]:
    """Invented runs: more workers gain nothing, and tf_nolock is slow and less accurate."""
    of = {"campaign": "forged", "day": 30, **FIGURE, **changes}
    runs = [_timed(run, 0.05) for run in sample_runs(EXPERIMENTS, ("tf_lock", "tf_nolock"), rounds=rounds, **of)]
    worse = {"final_accuracy": 0.5, "curve": []}
    slow = {True: worse, False: {}}
    return [run.model_copy(update=slow[run.spec.strategy == "tf_nolock"]) for run in runs]


def _timed(run: Run, efficiency: float) -> Run:
    """The run with a time in which each further worker adds that share of a worker."""
    assert run.loop_s is not None
    workers = 1 + (run.spec.threads - 1) * efficiency
    noise = 1 + (run.loop_s * 1e6) % 7 / 1000
    loop_s = 0.5 * noise / workers
    curve = [
        point.model_copy(update={"elapsed_s": loop_s * n / (len(run.curve) + 1)})
        for n, point in enumerate(run.curve, 1)
    ]
    return run.model_copy(update={"loop_s": loop_s, "total_s": loop_s + 0.3, "curve": curve})


def store(url: URL, folder: Path, runs: Iterable[Run]) -> None:
    """Ingest the runs, as a study does."""
    folder.mkdir(parents=True, exist_ok=True)
    record.write(folder / "runs.jsonl", [consistent(run) for run in runs])
    ingest(url, [folder / "runs.jsonl"])


def contribute(url: URL, folder: Path, runs: Iterable[Run], name: str = "stranger.zip") -> str:
    """Import the runs as a bundle that passes its check; return the platform key of the contribution."""
    folder.mkdir(parents=True, exist_ok=True)
    return key_of(MACHINE, import_bundle(url, sample_bundle(folder, runs), name).identity)
