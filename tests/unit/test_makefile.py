"""The Makefile: what it removes, and what it must not."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tmflow.paths import project_root

BUILT = ("results/build/lib/_core.so", "build/x", ".ruff_cache/x", "src/tmflow/__pycache__/x.pyc")
KEPT = (
    "results/study.db",
    "results/runs/full/round-001.jsonl",
    "results/report.html",
    ".snakemake/metadata/x",
    "data/mnist/x",
    ".venv/lib/__pycache__/x.pyc",
)


@pytest.mark.parametrize("results", [None, "else where"])
def test_clean_removes_what_was_built_and_keeps_what_was_measured(tmp_path: Path, results: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TMFLOW_RESULTS_DIR"}
    if results:
        environment["TMFLOW_RESULTS_DIR"] = str(tmp_path / results)
    shutil.copy(project_root() / "Makefile", tmp_path)
    built, kept = (
        [tmp_path / name.replace("results", results or "results") for name in names] for names in (BUILT, KEPT)
    )
    for file in built + kept:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    subprocess.run(["make", "clean"], cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert not [file for file in built if file.exists()]
    assert not [file for file in kept if not file.exists()]
