"""The C++ tests, plain and under the sanitizers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tmflow.paths import project_root

BIN = Path(sys.prefix) / "bin"


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["", "thread", "address"])
def test_cpp_tests_pass(sanitizer: str, tmp_path: Path) -> None:
    options = {
        "CMAKE_MAKE_PROGRAM": BIN / "ninja",
        "TMFLOW_BUILD_PYTHON": "OFF",
        "TMFLOW_BUILD_TENSORFLOW": "OFF",
        "TMFLOW_BUILD_TESTS": "ON",
        "TMFLOW_SANITIZE": sanitizer,
    }
    defined = [f"-D{name}={value}" for name, value in options.items()]
    for command in (
        [BIN / "cmake", "-S", project_root() / "native_ops", "-B", tmp_path, "-G", "Ninja", *defined],
        [BIN / "cmake", "--build", tmp_path, "-j2"],
        [BIN / "ctest", "--test-dir", tmp_path, "--output-on-failure", "--no-tests=error"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
        assert done.returncode == 0, done.stdout + done.stderr
