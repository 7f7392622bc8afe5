"""The tools that build the native libraries: a C++ compiler, Python's headers, CMake, Ninja and nanobind."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from tmflow.base.errors import BadInput
from tmflow.base.extras import install_command

COMPILERS = ("c++", "g++", "clang++")


def find_compiler() -> list[str]:
    """The C++ compiler that CMake will use, with its arguments: $CXX unless it is blank, else the first of COMPILERS.

    Raises BadInput if there is none.
    """
    wanted = os.environ.get("CXX", "")
    try:
        command = shlex.split(wanted)
    except ValueError as error:
        raise BadInput(f"CXX, '{wanted}', is not the name of a C++ compiler with its arguments: {error}.") from error
    if command:
        if shutil.which(command[0]) is None:
            raise BadInput(f"the C++ compiler that CXX names, '{wanted}', does not exist.")
        return command
    compiler = next((name for name in COMPILERS if shutil.which(name)), None)
    if compiler is None:
        raise BadInput("no C++ compiler is installed: install one, on Debian and Ubuntu with `apt install g++`.")
    return [compiler]


def compiler_version() -> str:
    """The first line of the compiler's version. Raises BadInput if there is no compiler."""
    done = subprocess.run([*find_compiler(), "--version"], capture_output=True, text=True, check=False)
    return done.stdout.partition("\n")[0]


def compiler_variables() -> dict[str, str]:
    """The variables of the environment that choose the compiler and its flags, without those that are blank."""
    values = {name: os.environ.get(name, "").strip() for name in ("CXX", "CXXFLAGS", "LDFLAGS")}
    return {name: value for name, value in values.items() if value}


def build_environment() -> dict[str, str]:
    """The environment of the build's processes: CMake would take a blank CXX for the name of a compiler."""
    given = compiler_variables()
    return {name: value for name, value in os.environ.items() if name != "CXX" or name in given}


def require_python() -> None:
    """Raise BadInput if the headers of this Python or nanobind are missing."""
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.is_file():
        raise BadInput(
            f"the headers of this Python are missing ({header}): install them, on Debian and Ubuntu with "
            "`apt install python3-dev`."
        )
    if importlib.util.find_spec("nanobind") is None:
        raise _missing("nanobind")


def tool(name: str) -> str:
    """The path of a tool in this Python environment, else in the system. Raises BadInput if it is missing.

    The packages cmake and ninja bring the programs of these names, to wherever they were installed.
    """
    try:
        in_package = [str(file.locate()) for file in files(name) or () if file.name == name]
    except PackageNotFoundError:
        in_package = []
    places = (str(Path(sys.prefix) / "bin" / name), *in_package, name)
    program = next((path for path in map(shutil.which, places) if path), None)
    if program is None:
        raise _missing(name)
    return program


def _missing(package: str) -> BadInput:
    return BadInput(f"'{package}' is missing from this Python environment: run `{install_command(package)}`.")
