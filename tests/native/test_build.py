"""The build: the second one does nothing; messages for a missing tool or a failed build."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import cpp
import pytest

from tmflow.base.errors import BadInput
from tmflow.native import loader, tools
from tmflow.native.build import build, is_current


def test_a_second_build_does_nothing(libraries: Path, common: Path, tmp_path: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in libraries.iterdir()}
    log = tmp_path / "log"
    # Other processes of the tests build in the same folder.
    with cpp.alone_in(common / "libraries"), log.open("w", encoding="utf-8") as out:
        build(libraries.parent / "cmake", libraries, out)
    assert "no work to do" in log.read_text(encoding="utf-8")
    assert {file: file.stat().st_mtime_ns for file in libraries.iterdir()} == before


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match=r"no C\+\+ compiler is installed: .* `apt install g\+\+`"):
        build(tmp_path / "build", tmp_path / "lib", None)


def test_a_compiler_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "g++-none")
    with pytest.raises(BadInput, match="'g\\+\\+-none', does not exist"):
        build(tmp_path / "build", tmp_path / "lib", None)


def test_without_cmake_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(tools, "files", lambda name: [])
    monkeypatch.setenv("PATH", str(tmp_path))
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


class TestIsCurrent:
    """A checkout with one source and one test, and libraries built after them."""

    @pytest.fixture(autouse=True)
    def checkout(self, libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("TMFLOW_ROOT", str(tmp_path))
        (tmp_path / "Snakefile").touch()
        (tmp_path / "native_ops" / "tests").mkdir(parents=True)
        (tmp_path / "native_ops" / "source.cc").touch()
        (tmp_path / "native_ops" / "tests" / "test.cc").touch()
        shutil.copytree(libraries, tmp_path / "results" / "build" / "lib")
        (tmp_path / "results" / "build" / "variants.json").touch()
        return tmp_path

    @pytest.fixture
    def variants(self, checkout: Path) -> Path:
        return checkout / "results" / "build" / "variants.json"

    def test_a_build_newer_than_its_sources_is_current(self, variants: Path) -> None:
        assert is_current(variants)

    def test_a_newer_source_is_not_in_it(self, variants: Path, checkout: Path) -> None:
        _make_newer(checkout / "native_ops" / "source.cc", variants)
        assert not is_current(variants)

    def test_the_tests_are_no_source_of_it(self, variants: Path, checkout: Path) -> None:
        _make_newer(checkout / "native_ops" / "tests" / "test.cc", variants)
        assert is_current(variants)

    def test_it_is_not_current_without_variants_json(self, variants: Path) -> None:
        variants.unlink()
        assert not is_current(variants)

    @pytest.mark.parametrize("library", ["_core.*", loader.OPS_LIBRARY, loader.RUNTIME_LIBRARY])
    def test_it_is_not_current_without_a_library(self, variants: Path, library: str) -> None:
        (file,) = (variants.parent / "lib").glob(library)
        file.unlink()
        assert not is_current(variants)


def _make_newer(path: Path, than: Path) -> None:
    seconds = than.stat().st_mtime + 1
    os.utime(path, (seconds, seconds))
