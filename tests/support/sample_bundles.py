"""Small valid bundles of the machine of sample_runs.py, and their results folders."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.support.sample_runs import sample_runs
from tmflow.bundle.writer import export
from tmflow.runfile import record
from tmflow.runfile.record import Run, Staleness
from tmflow.spec.trial import TrialSpec
from tmflow.store.run_filter import RunFilter
from tmflow.training.models import load_network


def _untried(*names: str) -> dict[str, Any]:
    return {**dict.fromkeys(names), "why": dict.fromkeys(names, "not tried")}


# A probe with almost no values, of an infinitely fast machine, so that no run is too fast.
PROBE: dict[str, Any] = {
    "schema_version": 1,
    "kind": "tmflow-probe",
    "tmflow": "0.1.0",
    "platform_sha256": None,
    "started_at_utc": "2026-02-05T00:00:00.000Z",
    "seconds": 1.0,
    "evidence": "measured",
    "emulates": None,
    "transactions": {
        **dict.fromkeys(("reported", "enabled", "commits"), False),
        **{"tried": 0, "committed": 0, "statuses": {}},
        **_untried("provider", "capacity", "conflicts", "siblings", "asynchronous", "costs"),
    },
    "machine": _untried("processors", "line_transfer", "lock_handoff", "memory_bandwidth", "smt_yield"),
    "limits": {"update_ns": [{"elements": 10, "ns": 0.1}, {"elements": 10_000, "ns": 10.0}], "why": {}},
}


def sample_bundle(
    folder: Path,
    runs: Iterable[Run] | None = None,
    *,
    name: str = "bundle.zip",
    probe: Mapping[str, Any] | None = PROBE,
) -> Path:
    """A bundle of the runs (default: some sample runs) in a folder; the run files are next to it, in `results`."""
    results = folder / "results"
    write_results(results, sample_runs() if runs is None else runs)
    if probe is not None:
        (results / "probe.json").write_text(json.dumps(probe))
    return export(results, folder / name, RunFilter(), None).path


def write_results(results: Path, runs: Iterable[Run]) -> None:
    """Write run files of the runs, as a study does."""
    files: dict[Path, list[Run]] = {}
    for run in runs:
        item = run.experiment
        path = Path(item.scale) / item.name / item.definition_sha256[:12] / f"round-{run.round:03}.jsonl"
        files.setdefault(path, []).append(consistent(run))
    for path, its_runs in files.items():
        record.write(results / "runs" / path, its_runs)


def consistent(run: Run) -> Run:
    """The sample run made consistent: accuracies possible with the test images, and steps that add up."""
    if run.final_accuracy is None:
        return run
    steps = run.spec.iterations // run.spec.threads
    tested = 100  # a part of the test images of every dataset
    return run.model_copy(
        update={
            "final_accuracy": round(run.final_accuracy * tested) / tested,
            "curve": [
                point.model_copy(update={"accuracy": round(point.accuracy * tested) / tested}) for point in run.curve
            ],
            "lost": [
                row.model_copy(update={"expected": elements(run.spec)[row.variable] * run.spec.iterations})
                for row in run.lost
            ],
            "staleness": [
                Staleness(worker=worker, staleness=behind, steps=n)
                for worker in range(run.spec.threads)
                for behind, n in enumerate((steps - steps // 3, steps // 3))
            ],
        }
    )


def elements(spec: TrialSpec) -> dict[str, int]:
    """The number of elements of each variable of the spec's model."""
    return {item.name: math.prod(item.shape) for item in load_network(spec.model).variables(spec)}
