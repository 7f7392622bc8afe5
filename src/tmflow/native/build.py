"""The build of the native libraries, with the CMake and Ninja of this environment, for this interpreter."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from tmflow.base.errors import BadInput
from tmflow.base.paths import native_sources, project_root
from tmflow.native.tools import build_environment, find_compiler, tool

OPS_LIBRARY = "libtmflow_ops.so"
LOOPBACK_LIBRARY = "libtmflow_loopback.so"
RUNTIME_LIBRARY = "libtmflow_runtime.so"

# Of libraries that the build uses where they are: oneTBB as Debian has it, and what `make hpx` writes last.
OPTIONAL = (Path("/usr/include/oneapi/tbb/version.h"), Path(".hpx/tmflow-release"))


class NotConfigured(BadInput):
    """The first step of a build failed, in which CMake looks for all that the build needs."""


def core_file(folder: Path) -> Path | None:
    """The Python module for this interpreter that is built in `folder`, or None."""
    files = (folder / f"_core{suffix}" for suffix in importlib.machinery.EXTENSION_SUFFIXES)
    return next((file for file in files if file.is_file()), None)


def build(
    build_dir: Path, output: Path, log: TextIO | None, options: Sequence[str] = (), inherited: Sequence[int] = ()
) -> None:
    """Build the libraries in `build_dir`, incrementally, and install them in `output`.

    The output of the tools goes to `log` (an open file), or to the output of this process if it is None. The TensorFlow
    ops and the executors are built if this interpreter has TensorFlow. options: further ones for CMake. inherited: file
    descriptors that the tools keep open. Raises BadInput if a tool is missing or the build fails, NotConfigured if its
    first step does.
    """
    cmake, ninja = tool("cmake"), tool("ninja")
    find_compiler()
    configure: list[str | Path] = [
        cmake,
        *("-S", native_sources(), "-B", build_dir, "-G", "Ninja"),
        f"-DCMAKE_MAKE_PROGRAM={ninja}",
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-DTMFLOW_OUTPUT_DIR={output.absolute()}",
        *options,
    ]
    steps: dict[str, list[str | Path]] = {"configure": configure, "build": [cmake, "--build", build_dir]}
    for step, command in steps.items():
        done = subprocess.run(command, stdout=log, stderr=log, pass_fds=inherited, env=build_environment(), check=False)
        if done.returncode != 0:
            failure = NotConfigured if step == "configure" else BadInput
            raise failure(
                f"the native library does not build: step '{step}' ended with exit code {done.returncode}, "
                f"and {log.name if log else 'its output'} says why."
            )


def is_current(variants: Path) -> bool:
    """Whether `variants` (variants.json) and the libraries next to it exist and are as new as every source.

    If they are, no compiler is needed. The C++ tests do not count as sources of the libraries. An optional library that
    was installed after the build makes it old.
    """
    libraries = variants.parent / "lib"
    if not variants.is_file() or core_file(libraries) is None:
        return False
    for_tensorflow = (OPS_LIBRARY, RUNTIME_LIBRARY) if importlib.util.find_spec("tensorflow") else ()
    if not all((libraries / library).is_file() for library in for_tensorflow):
        return False
    native_ops = project_root() / "native_ops"
    built_ns = variants.stat().st_mtime_ns
    # A package's files have the times of their release, so the time of their last change here counts.
    if any(path.stat().st_ctime_ns > built_ns for path in map(project_root().joinpath, OPTIONAL) if path.is_file()):
        return False
    return all(
        source.stat().st_mtime_ns <= built_ns
        for source in native_ops.rglob("*")
        if source.is_file() and native_ops / "tests" not in source.parents
    )
