"""The static program tmflow-native, as users build it, here and for emulated machines."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cmake
import pytest
from cpp import called

from tmflow.base.paths import project_root

# The tools that a machine needs to build it, in addition to a shell and the compiler's own programs.
TOOLS = (
    "bash",
    "make",
    "gmake",
    "g++",
    "c++",
    "as",
    "ld",
    "ar",
    "nm",
    "objcopy",
    "ranlib",
    "nproc",
    "grep",
    "sed",
    "uname",
)
# The emulated machines: building for each takes a minute or two, so `make test-deep` runs these tests.
FOREIGN = tuple(pytest.param(machine, marks=pytest.mark.deep) for machine in ("ppc64le", "aarch64"))
EMULATORS = {"here": (), "ppc64le": ("qemu-ppc64le", "-cpu", "power8"), "aarch64": ("qemu-aarch64",)}


@dataclass(frozen=True)
class Program:
    """A program, and the emulator it runs under."""

    path: Path
    emulator: tuple[str, ...] = ()

    def run(self, *arguments: str | Path, timeout: float = 300, **how: Any) -> subprocess.CompletedProcess[str]:
        """Run it; `how` are arguments of subprocess.run."""
        command = (*self.emulator, self.path, *arguments)
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout, **how)


Ask = Callable[..., list[Any]]


def asking(program: Program) -> Ask:
    """Send questions of one kind to a test program (native_ops/runner/tests/answers.hpp) and return its answers; an
    error is {"error": sentence}.
    """

    def asked(what: str, *questions: dict[str, Any]) -> list[Any]:
        lines = "".join(json.dumps({"ask": what, **question}) + "\n" for question in questions or ({},))
        done = program.run(input=lines, encoding="utf-8", timeout=120)
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
        return [answer.get("value", answer) for answer in answers]

    return asked


def make_native(tools: Path, build: Path) -> subprocess.CompletedProcess[str]:
    """Run `make native` into a folder, on a machine that has only these tools."""
    command = ["make", "native", f"NATIVE_DIR={build}"]
    # In addition to the tools, what ccache's keys depend on: the language, and the compiler's name.
    known = {name: value for name, value in os.environ.items() if name.startswith(("CCACHE_", "LANG", "LC_"))}
    own = {"PATH": str(tools), **known, **({"CXX": "c++"} if (tools / "c++").exists() else {})}
    return subprocess.run(
        command, cwd=project_root(), env=own, capture_output=True, text=True, check=False, timeout=600
    )


def made(folder: Path, build: Path) -> Program:
    """The program that `make native` builds from scratch in `build`, without Python, network or git.

    Once for each `folder`, which also has the list of tools. Uses ccache if it is installed.
    """
    program = build / "tmflow-native"
    tools = folder / "tools"
    if not tools.exists():
        shutil.rmtree(build, ignore_errors=True)
        tools.mkdir(parents=True)
        for tool in (*TOOLS, "ccache"):
            if found := shutil.which(tool):
                (tools / tool).symlink_to(found)
        (tools / "cmake").symlink_to(Path(cmake.CMAKE_BIN_DIR) / "cmake")
    done = make_native(tools, build)
    assert done.returncode == 0, done.stdout + done.stderr
    assert str(program) in done.stdout
    return Program(program)


def is_static(path: Path) -> bool:
    """Whether the program needs no shared library and no loader."""
    said = called("readelf", "--program-headers", "--dynamic", path)
    return "INTERP" not in said and "NEEDED" not in said
