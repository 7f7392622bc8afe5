"""The build of the native libraries, with the CMake and Ninja of this environment, for this interpreter."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TextIO

from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root
from tmflow.native.loader import OPS_LIBRARY, RUNTIME_LIBRARY, core_file

COMPILERS = ("c++", "g++", "clang++")

# Of libraries that the build uses where they are: oneTBB as Debian has it, and what `make hpx` writes last.
OPTIONAL = (Path("/usr/include/oneapi/tbb/version.h"), Path(".hpx/tmflow-release"))


def build(build_dir: Path, output: Path, log: TextIO | None) -> None:
    """Build the libraries in `build_dir`, incrementally, and install them in `output`.

    The output of the tools goes to `log` (an open file), or to the output of this process if it is None. The TensorFlow
    ops and the executors are built if this interpreter has TensorFlow. Raises BadInput if a tool is missing or the
    build fails.
    """
    cmake, ninja = _tool("cmake"), _tool("ninja")
    find_compiler()
    configure: list[str | Path] = [
        cmake,
        *("-S", project_root() / "native_ops", "-B", build_dir, "-G", "Ninja"),
        f"-DCMAKE_MAKE_PROGRAM={ninja}",
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-DTMFLOW_OUTPUT_DIR={output.absolute()}",
    ]
    steps: dict[str, list[str | Path]] = {"configure": configure, "build": [cmake, "--build", build_dir]}
    for step, command in steps.items():
        done = subprocess.run(command, stdout=log, stderr=log, check=False)
        if done.returncode != 0:
            raise BadInput(
                f"the native library does not build: step '{step}' ended with exit code {done.returncode}, "
                "and its output says why."
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


def _tool(name: str) -> str:
    """The path of a tool in this Python environment, else in the system. Raises BadInput if it is missing."""
    tool = shutil.which(name, path=str(Path(sys.prefix) / "bin")) or shutil.which(name)
    if tool is None:
        raise BadInput(f"'{name}' is missing from this Python environment: run `make setup`.")
    return tool


def find_compiler() -> str:
    """The C++ compiler that CMake will use: $CXX, else the first of COMPILERS. Raises BadInput if there is none."""
    wanted = os.environ.get("CXX")
    if wanted:
        if shutil.which(wanted.split()[0]) is None:
            raise BadInput(f"the C++ compiler that CXX names, '{wanted}', does not exist.")
        return wanted.split()[0]
    compiler = next((name for name in COMPILERS if shutil.which(name)), None)
    if compiler is None:
        raise BadInput("no C++ compiler is installed: install one, on Debian and Ubuntu with `apt install g++`.")
    return compiler


def compiler_version() -> str:
    """The first line of the compiler's version. Raises BadInput if there is no compiler."""
    done = subprocess.run([find_compiler(), "--version"], capture_output=True, text=True, check=False)
    return done.stdout.partition("\n")[0]
