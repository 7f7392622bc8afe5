"""Builds the C++ tests, here or for another machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tmflow.paths import project_root

BIN = Path(sys.prefix) / "bin"
NATIVE_OPS = project_root() / "native_ops"


def called(*command: str | Path, timeout: float = 900) -> str:
    """What the command says on its standard output; it must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(folder: Path, *targets: str, **options: str | Path) -> None:
    """Configure and build in `folder` the named targets, all if none is named, with CMake's TMFLOW_* options."""
    options = {
        "CMAKE_MAKE_PROGRAM": BIN / "ninja",
        "TMFLOW_BUILD_PYTHON": "OFF",
        "TMFLOW_BUILD_TENSORFLOW": "OFF",
        "TMFLOW_BUILD_TESTS": "ON",
        **options,
    }
    defined = [f"-D{name}={value}" for name, value in options.items()]
    called(BIN / "cmake", "-S", NATIVE_OPS, "-B", folder, "-G", "Ninja", *defined)
    called(
        BIN / "cmake",
        "--build",
        folder,
        f"-j{os.cpu_count()}",
        *(word for name in targets for word in ("--target", name)),
    )


def run_tests(folder: Path, *options: str, timeout: float = 900) -> str:
    """Run all tests that were built in `folder`, or those of CTest's `options`; what CTest says."""
    always = ("--test-dir", folder, "--output-on-failure", "--no-tests=error")
    return called(BIN / "ctest", *always, *options, timeout=timeout)
