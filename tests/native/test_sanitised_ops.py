"""The TensorFlow operations and the executors with sanitizers, in a Python that is compiled without them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import cpp
import pytest
from variants import STRATEGIES, Variant, why_not

from tmflow.native import loader

pytest.importorskip("tensorflow")

OPS, STEPS = (Path(__file__).with_name(name) for name in ("concurrent_ops.py", "concurrent_steps.py"))
SUPPRESSIONS = cpp.NATIVE_OPS / "tests" / "tsan_tensorflow.supp"


@dataclass(frozen=True)
class Sanitizer:
    name: str  # as in TMFLOW_SANITIZE
    libraries: tuple[str, ...]  # preloaded, by the compiler's names for them
    variable: str
    options: str
    targets: tuple[str, ...] = ()
    preloaded: tuple[str, ...] = ()  # after those, in the build folder


# ThreadSanitizer ignores the internals of TensorFlow, which it does not see completely. Without this, it would take a
# mutex of absl that a condition variable releases for one that is locked twice.
THREAD = Sanitizer(
    "thread",
    ("libtsan.so",),
    "TSAN_OPTIONS",
    f"ignore_noninstrumented_modules=1:report_mutex_bugs=0:detect_deadlocks=0:suppressions={SUPPRESSIONS}",
    ("mutex_order",),
    ("tests/libmutex_order.so",),
)
# Python and TensorFlow keep memory until they end. AddressSanitizer looks for the C++ library's `throw` when it is
# loaded, and Python itself does not load that library.
ADDRESS = Sanitizer("address", ("libasan.so", "libstdc++.so"), "ASAN_OPTIONS", "detect_leaks=0")


def link_libraries(folder: Path, libraries: Path, sanitised: Path, name: str) -> None:
    """Make a folder of the native libraries in which one of those for TensorFlow is from the sanitised build."""
    core = loader.core_file(libraries)
    assert core is not None
    (folder / core.name).symlink_to(core)
    for library in (loader.OPS_LIBRARY, loader.RUNTIME_LIBRARY):
        (folder / library).symlink_to((sanitised / "lib" if library == name else libraries) / library)


def sanitised_run(sanitizer: Sanitizer, built: Path, folder: Path, *words: str | Path) -> tuple[int, str]:
    """The exit code and the output of a script with the sanitizer, with the libraries of a folder."""
    libraries_of_compiler = (cpp.called("c++", f"-print-file-name={name}").strip() for name in sanitizer.libraries)
    preloaded = [*libraries_of_compiler, *(str(built / name) for name in sanitizer.preloaded)]
    variables = {sanitizer.variable: sanitizer.options, "LD_PRELOAD": " ".join(preloaded)}
    variables |= {"TMFLOW_NATIVE_DIR": str(folder), "UBSAN_OPTIONS": "print_stacktrace=1"}
    assigned = [f"{name}={value}" for name, value in variables.items()]
    command = ["env", *assigned, sys.executable, *map(str, words)]
    # ThreadSanitizer needs addresses that are not randomised widely.
    setarch = ["setarch", "-R"] if shutil.which("setarch") else []
    done = subprocess.run(
        [*setarch, *command], env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("sanitizer", [THREAD, ADDRESS], ids=lambda sanitizer: sanitizer.name)
def test_operations_at_once_are_clean(
    sanitizer: Sanitizer, builds: cpp.Builds, libraries: Path, tmp_path: Path
) -> None:
    built = builds.sanitised(sanitizer.name, "tmflow_ops", *sanitizer.targets)
    link_libraries(tmp_path, libraries, built, loader.OPS_LIBRARY)
    strategies = [name for name in STRATEGIES if not why_not(Variant(name))]
    code, output = sanitised_run(sanitizer, built, tmp_path, OPS, *strategies)
    assert code == 0, output
    assert "resource striped: lost 0" in output
    assert "rows, resource striped: lost 0" in output


@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_steps_at_once_are_clean(builds: cpp.Builds, libraries: Path, tmp_path: Path) -> None:
    """ThreadSanitizer would report each task that TensorFlow's pool hands over by a queue that it does not see.

    It checks the pool of ours (std_pool_test.cc) and the transport (transport_test.cc) by themselves.
    """
    built = builds.sanitised(ADDRESS.name, "tmflow_runtime")
    link_libraries(tmp_path, libraries, built, loader.RUNTIME_LIBRARY)
    code, output = sanitised_run(ADDRESS, built, tmp_path, STEPS, "std_pool", "tf_pool")
    assert code == 0, output
    assert output.endswith("df: right\n")
