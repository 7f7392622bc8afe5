"""The build: nothing to do the second time, and what is said when a tool is missing or the build fails."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tmflow.errors import BadInput
from tmflow.native.build import build


def test_a_second_build_does_nothing(libraries: Path, tmp_path: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in libraries.iterdir()}
    log = tmp_path / "log"
    began = time.monotonic()
    with log.open("w", encoding="utf-8") as out:
        build(libraries.parent / "cmake", libraries, out)
    assert time.monotonic() - began < 10
    assert "no work to do" in log.read_text(encoding="utf-8")
    assert {file: file.stat().st_mtime_ns for file in libraries.iterdir()} == before


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match=r"no C\+\+ compiler is installed: .* `apt install g\+\+`"):
        build(tmp_path / "build", tmp_path / "lib", None)


def test_a_compiler_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "g++-none")
    with pytest.raises(BadInput, match="'g\\+\\+-none', is not to be found"):
        build(tmp_path / "build", tmp_path / "lib", None)


def test_without_cmake_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(BadInput, match="'cmake' is missing from this Python environment: run `make setup`"):
        build(tmp_path / "build", tmp_path / "lib", None)


def test_a_failing_step_is_named_and_its_output_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Snakefile").touch()
    (tmp_path / "native_ops").mkdir()
    (tmp_path / "native_ops" / "CMakeLists.txt").write_text('message(FATAL_ERROR "on purpose")\n', encoding="utf-8")
    monkeypatch.setenv("TMFLOW_ROOT", str(tmp_path))
    log = tmp_path / "log"
    with (
        log.open("w", encoding="utf-8") as out,
        pytest.raises(BadInput, match="step 'configure' ended with exit code 1"),
    ):
        build(tmp_path / "build", tmp_path / "lib", out)
    assert "on purpose" in log.read_text(encoding="utf-8")
