"""Builds the C++, here or for another machine, and runs its tests."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tmflow.base.paths import project_root

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


@contextmanager
def alone_in(folder: Path) -> Iterator[Path]:
    """The folder, made if need be, while no other process of the tests builds in it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


# The one for aarch64 is as somebody has it who has no Eigen, and is optimised a little only.
MACHINES: dict[str, dict[str, str | Path]] = {
    "here": {},
    "ppc64le": {"CMAKE_TOOLCHAIN_FILE": NATIVE_OPS / "cmake" / "ppc64le.cmake"},
    "aarch64": {
        "CMAKE_TOOLCHAIN_FILE": NATIVE_OPS / "cmake" / "aarch64.cmake",
        "CMAKE_CXX_FLAGS_RELEASE": "-O2 -DNDEBUG",
        "CMAKE_DISABLE_FIND_PACKAGE_Eigen3": "ON",
    },
}


class Builds:
    """One build for each of MACHINES and each sanitizer: what several tests need is compiled once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def built(self, machine: str, *targets: str) -> Path:
        """The folder of the build for that machine, with the named targets, all if none is named."""
        with alone_in(self._folder / machine) as folder:
            build(folder, *targets, TMFLOW_BUILD_RUNNER="ON", **MACHINES[machine])
        return folder

    def sanitised(self, sanitizer: str, *targets: str) -> Path:
        """The same of a build under a sanitizer, "thread" or "address"."""
        with alone_in(self._folder / sanitizer) as folder:
            build(folder, *targets, TMFLOW_SANITIZE=sanitizer)
        return folder

    def sanitised_ops(self, sanitizer: str, *targets: str) -> Path:
        """The same, with the TensorFlow operations."""
        with alone_in(self._folder / f"{sanitizer}-ops") as folder:
            build(
                folder,
                "tmflow_ops",
                *targets,
                TMFLOW_SANITIZE=sanitizer,
                TMFLOW_BUILD_TENSORFLOW="ON",
                Python_EXECUTABLE=sys.executable,
            )
        return folder


def run_tests(folder: Path, *options: str, timeout: float = 900) -> str:
    """Run all tests that were built in `folder`, or those of CTest's `options`; what CTest says."""
    always = ("--test-dir", folder, "--output-on-failure", "--no-tests=error")
    return called(BIN / "ctest", *always, *options, timeout=timeout)
