"""The static program tmflow-native, as a user builds it here, and for machines that are emulated."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cmake
from cpp import called

from tmflow.base.paths import project_root

# What a machine needs to have to build it, beside a shell and what comes with the compiler.
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
EMULATORS = {"here": (), "ppc64le": ("qemu-ppc64le", "-cpu", "power8"), "aarch64": ("qemu-aarch64",)}


@dataclass(frozen=True)
class Program:
    """A program, and what it is run under."""

    path: Path
    emulator: tuple[str, ...] = ()

    def run(self, *arguments: str | Path, timeout: float = 300, **how: Any) -> subprocess.CompletedProcess[str]:
        """Run it; `how` as subprocess.run has it."""
        command = (*self.emulator, self.path, *arguments)
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout, **how)


Ask = Callable[..., list[Any]]


def asking(program: Program) -> Ask:
    """Asks a program of the tests (native_ops/runner/tests/answers.hpp) questions of one kind, and returns the answers;
    one that is a sentence of an error is {"error": ...}.
    """

    def asked(what: str, *questions: dict[str, Any]) -> list[Any]:
        lines = "".join(json.dumps({"ask": what, **question}) + "\n" for question in questions or ({},))
        done = program.run(input=lines, encoding="utf-8", timeout=120)
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
        return [answer.get("value", answer) for answer in answers]

    return asked


def make_native(tools: Path, build: Path) -> subprocess.CompletedProcess[str]:
    """`make native` into a folder, on a machine that has these tools and no others."""
    command = ["make", "native", f"NATIVE_DIR={build}"]
    own = {"PATH": str(tools)}
    return subprocess.run(
        command, cwd=project_root(), env=own, capture_output=True, text=True, check=False, timeout=600
    )


def made(folder: Path) -> Program:
    """The program that `make native` makes on a machine without Python, network or git."""
    tools = folder / "tools"
    if not tools.exists():
        tools.mkdir(parents=True)
        for tool in TOOLS:
            if found := shutil.which(tool):
                (tools / tool).symlink_to(found)
        (tools / "cmake").symlink_to(Path(cmake.CMAKE_BIN_DIR) / "cmake")
    done = make_native(tools, folder / "build")
    assert done.returncode == 0, done.stdout + done.stderr
    assert str(folder / "build" / "tmflow-native") in done.stdout
    return Program(folder / "build" / "tmflow-native")


def is_static(path: Path) -> bool:
    """Whether the program needs no library, and no loader of them."""
    said = called("readelf", "--program-headers", "--dynamic", path)
    return "INTERP" not in said and "NEEDED" not in said
