"""`make check-strategy` runs the tests of one strategy, and refuses an unknown name."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tmflow.base.paths import project_root
from tmflow.native import registry


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=project_root(), capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize("given", ["", "lok"])
def test_an_unknown_strategy_is_refused_with_the_list(given: str) -> None:
    done = run("-m", "tests.native.check_strategy", *given.split())
    assert (done.returncode, done.stdout) == (2, "")
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith(f"tmflow: S is '{given}', and must be a strategy: lock, nolock, ")
    assert sorted(re.findall(r"\w+", sentence.partition("strategy:")[2])) == registry.source_names()


@pytest.mark.parametrize("file", ["test_serial", "test_core"])  # the second has arrays as parameters, too
def test_only_the_tests_of_the_strategy_are_chosen(file: str) -> None:
    code = (
        "import sys, pytest\n"
        "from tests.native.check_strategy import Only\n"
        f"sys.exit(pytest.main(['--collect-only', '-q', 'tests/native/{file}.py'], plugins=[Only('lock')]))\n"
    )
    done = run("-c", code)
    assert done.returncode == 0, done.stdout
    chosen = [line for line in done.stdout.splitlines() if "::" in line]
    assert chosen
    assert all("lock" in re.split(r"[\[\]-]", line) for line in chosen)
