"""Build the C++ sources, here or for another machine, and run their tests."""

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
    """The standard output of the command, which must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(folder: Path, *targets: str, **options: str | Path) -> None:
    """Configure and build the named targets (default: all) in `folder`, with CMake's TMFLOW_* options."""
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
    """The folder, created if necessary, locked against builds of other test processes."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


# If this Python has TensorFlow, the operations can be built.
WITH_TENSORFLOW: dict[str, str | Path] = {"TMFLOW_BUILD_TENSORFLOW": "AUTO", "Python_EXECUTABLE": sys.executable}

# The build for aarch64 is one without Eigen, as on a machine that lacks it, and with little optimisation.
MACHINES: dict[str, dict[str, str | Path]] = {
    "here": WITH_TENSORFLOW,
    "ppc64le": {"CMAKE_TOOLCHAIN_FILE": NATIVE_OPS / "cmake" / "ppc64le.cmake"},
    "aarch64": {
        "CMAKE_TOOLCHAIN_FILE": NATIVE_OPS / "cmake" / "aarch64.cmake",
        "CMAKE_CXX_FLAGS_RELEASE": "-O2 -DNDEBUG",
        "CMAKE_DISABLE_FIND_PACKAGE_Eigen3": "ON",
    },
}


# Next to the builds of `make build` and equally deep in the checkout, because ccache identifies objects by relative
# paths.
BUILDS = project_root() / "build" / "tests"


class Builds:
    """One build for each of MACHINES and each sanitizer, shared by all tests, processes and calls of pytest.

    They stay in `folder`, so everything is compiled once, and again only after a change.
    """

    def __init__(self, folder: Path = BUILDS) -> None:
        self._folder = folder
        self._done: set[tuple[str, ...]] = set()  # the sources do not change while the tests run

    def built(self, machine: str, *targets: str) -> Path:
        """The folder of the build for this machine, with the named targets (default: all)."""
        return self._build(machine, targets, TMFLOW_BUILD_RUNNER="ON", **MACHINES[machine])

    def sanitised(self, sanitizer: str, *targets: str) -> Path:
        """The same for a build with a sanitizer, "thread" or "address"."""
        return self._build(sanitizer, targets, TMFLOW_SANITIZE=sanitizer, **WITH_TENSORFLOW)

    def _build(self, name: str, targets: tuple[str, ...], **options: str | Path) -> Path:
        folder = self._folder / name
        if (name, *targets) not in self._done:
            with alone_in(folder):
                build(folder, *targets, **options)
            self._done.add((name, *targets))
        return folder


def run_tests(folder: Path, *options: str, timeout: float = 900) -> str:
    """Run all tests built in `folder`, or those selected by CTest's `options`; return CTest's output."""
    always = ("--test-dir", folder, "--output-on-failure", "--no-tests=error")
    return called(BIN / "ctest", *always, *options, timeout=timeout)
