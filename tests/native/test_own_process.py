"""The tests of every strategy, run in separate processes for those that need one."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tmflow.base.paths import project_root
from tmflow.native import registry
from tmflow.spec.process_env import OF_A_PROCESS, process_environment

OF_EVERY_STRATEGY = ["test_core.py", "test_ops.py", "test_random.py", "test_refused.py", "test_serial.py"]


@pytest.mark.deep
@pytest.mark.parametrize("strategy", sorted(OF_A_PROCESS))
def test_it_passes_the_tests_of_every_strategy(strategy: str) -> None:
    if reason := registry.require(strategy).why_not:
        pytest.skip(reason)
    files = [f"tests/native/{name}" for name in OF_EVERY_STRATEGY]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not deep", "-k", strategy, "-p", "no:cacheprovider", *files],
        cwd=project_root(),
        env={**os.environ, **process_environment(strategy, {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 50
    assert "skipped" not in done.stdout.splitlines()[-1], done.stdout
