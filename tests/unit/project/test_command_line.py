"""Programs in tests/ that are not tests answer `--help`, and write nothing for a wrong command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tmflow.base.paths import project_root

TESTS = project_root() / "tests"
INTERNAL = {  # started only by tests
    "tests.native.own_process",
    "tests.native.concurrent_ops",
    "tests.native.concurrent_steps",
    "tests.speed.hpx_process",
    "tests.support.server_processes",
    "tests.training.cluster.start_and_stop",
}
MODULES = sorted(
    ".".join(path.relative_to(TESTS.parent).with_suffix("").parts)
    for path in TESTS.rglob("*.py")
    if "\nif __name__ ==" in path.read_text(encoding="utf-8")
)


def test_the_known_ones_are_found() -> None:
    assert {"tests.speed.ingest_speed", "tests.portal.screenshots", *INTERNAL} <= set(MODULES)


@pytest.mark.slow
@pytest.mark.parametrize("module", sorted({*MODULES} - INTERNAL))
def test_help_is_help_and_a_wrong_word_is_refused(module: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(TESTS.parent), "TMFLOW_RESULTS_DIR": str(tmp_path / "results")}

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", module, *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    helped = call("--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert helped.stdout.startswith(f"usage: python -m {module} [-h] ")
    wrong = call("--no-such")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith(f"usage: python -m {module} ")
    assert list(tmp_path.iterdir()) == []
