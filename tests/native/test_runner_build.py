"""The static program can be built with few tools and runs without other files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from runner import Program, is_static, make_native

pytestmark = pytest.mark.slow


@pytest.mark.deep
def test_make_native_needs_cmake_and_a_compiler_alone(native_program: Program) -> None:
    assert is_static(native_program.path)
    assert native_program.run("--version", env={}).returncode == 0


def test_it_is_built_for_other_machines_too(foreign_program: Program) -> None:
    assert is_static(foreign_program.path)
    assert foreign_program.run("--version").returncode == 0


def test_a_program_that_needs_libraries_is_not_static() -> None:
    shell = shutil.which("sh")
    assert shell is not None
    assert not is_static(Path(shell))


@pytest.mark.parametrize("missing", ["cmake", "g++"])
def test_make_native_says_what_to_install(tmp_path: Path, missing: str) -> None:
    for tool in {"bash", "make", "cmake", "g++"} - {missing}:
        (tmp_path / tool).symlink_to(shutil.which(tool) or "/")
    done = make_native(tmp_path, tmp_path / "build")
    assert done.returncode == 2
    assert (
        f"tmflow: {missing} is not installed, and make native needs it (Debian: apt install cmake g++)." in done.stderr
    )
    assert not (tmp_path / "build").exists()
