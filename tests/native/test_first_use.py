"""The libraries of an installed package: the name of their folder, and a build that fails."""

from __future__ import annotations

import io
import os
import shutil
import sys
import threading
from pathlib import Path

import pytest

from tmflow.base import paths
from tmflow.base.errors import BadInput
from tmflow.base.locks import locked
from tmflow.native import first_use, loader, tools


@pytest.fixture(autouse=True)
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with a source file, and an empty cache."""
    folder = tmp_path / "native_ops"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text('message(FATAL_ERROR "on purpose")\n', encoding="utf-8")
    monkeypatch.setattr(paths, "_PACKAGED_SOURCES", folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("TMFLOW_ROOT", "TMFLOW_NATIVE_DIR", "CXX", "CXXFLAGS", "LDFLAGS"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture(autouse=True)
def _each_asks_anew() -> None:
    first_use._folder.cache_clear()


def new_name() -> str:
    """The name of the folder, as another process would find it."""
    first_use._folder.cache_clear()
    return loader.library_dir().name


# It builds one file, the path of the folder where it works, or fails at the step that FAILS names.
QUICK_SOURCES = """
cmake_minimum_required(VERSION 3.22)
project(quick LANGUAGES NONE)
if("$ENV{FAILS}" STREQUAL "configure")
  message(FATAL_ERROR "on purpose")
endif()
file(WRITE "${TMFLOW_OUTPUT_DIR}/work" "${CMAKE_BINARY_DIR}")
if("$ENV{FAILS}" STREQUAL "build")
  add_custom_target(fails ALL COMMAND "${CMAKE_COMMAND}" -E false)
endif()
"""


@pytest.fixture
def quick_sources(sources: Path) -> None:
    (sources / "CMakeLists.txt").write_text(QUICK_SOURCES, encoding="utf-8")


class TestFolder:
    def test_it_is_in_the_cache_of_the_user(self, tmp_path: Path) -> None:
        assert loader.library_dir().parent == tmp_path / "cache" / "tmflow"
        assert new_name() == new_name()

    def test_without_xdg_cache_home_it_is_in_the_home_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        for value in ("", "relative"):  # which its specification says to ignore
            monkeypatch.setenv("XDG_CACHE_HOME", value)
            assert loader.library_dir().parent == tmp_path / "home" / ".cache" / "tmflow"

    def test_the_environment_variable_comes_first(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TMFLOW_NATIVE_DIR", str(tmp_path))
        assert loader.library_dir() == tmp_path
        with pytest.raises(BadInput, match="unset TMFLOW_NATIVE_DIR"):
            loader.core()
        assert not (tmp_path / "cache").exists()

    @pytest.mark.parametrize("name", ["tensorflow_version", "compiler_version", "__version__"])
    def test_each_tensorflow_compiler_and_version_has_its_own(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        names = {new_name()}
        for value in ("1", "2"):
            monkeypatch.setattr(first_use, name, value if name == "__version__" else lambda *_, value=value: value)
            names.add(new_name())
        assert len(names) == 3

    def test_a_tensorflow_of_another_name_counts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        without = [folder for folder in sys.path if not Path(folder, "tensorflow").exists()]
        monkeypatch.setattr(sys, "path", without)
        assert first_use.tensorflow_version() is None
        folders = {new_name()}
        for version in ("2.22.0.dev1", "2.22.0.dev2"):
            site = tmp_path / version
            metadata = site / f"tf_nightly-{version}.dist-info"
            for part in (site / "tensorflow", metadata):
                part.mkdir(parents=True)
            (site / "tensorflow" / "__init__.py").touch()
            (metadata / "METADATA").write_text(f"Name: tf-nightly\nVersion: {version}\n", encoding="utf-8")
            (metadata / "top_level.txt").write_text("tensorflow\n", encoding="utf-8")
            monkeypatch.setattr(sys, "path", [str(site), *without])
            assert first_use.tensorflow_version() == version
            folders.add(new_name())
        assert len(folders) == 3

    def test_each_compiler_with_other_arguments_and_flags_has_its_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        folders = {new_name()}
        settings = {"CXX": f"{tools.find_compiler()[0]} -O1", "CXXFLAGS": "-O1", "LDFLAGS": "-O1"}
        for name, value in settings.items():
            with monkeypatch.context() as context:
                context.setenv(name, value)
                folders.add(new_name())
        assert len(folders) == 4

    def test_blank_variables_are_as_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        before = new_name()
        for name in ("CXX", "CXXFLAGS", "LDFLAGS"):
            monkeypatch.setenv(name, " ")
        assert new_name() == before

    def test_changed_sources_have_their_own(self, sources: Path) -> None:
        before = new_name()
        (sources / "new.hpp").touch()
        assert new_name() != before

    def test_without_a_compiler_it_is_the_latest_of_this_environment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        older = loader.library_dir()
        latest = older.with_name(f"{older.name[:-8]}89abcdef")
        other = older.with_name("0123456789abcdef"[:8] + older.name[8:])
        for age, folder in enumerate((older, latest, other)):
            folder.mkdir(parents=True)
            os.utime(folder, (age, age))
        latest.with_name(f"{latest.name}.lock").touch()
        monkeypatch.setenv("PATH", str(tmp_path))
        assert new_name() == latest.name


def test_a_build_that_fails_is_one_sentence_which_names_the_log(tmp_path: Path) -> None:
    log = loader.library_dir().with_suffix(".log")
    for _ in range(2):
        with pytest.raises(BadInput, match=rf"step 'configure' ended with exit code 1, and {log} says why\.$"):
            loader.core()
        assert "on purpose" in log.read_text(encoding="utf-8")
        assert not loader.library_dir().exists()


def test_a_blank_cxx_is_no_compiler_for_cmake_either(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ("cmake_minimum_required(VERSION 3.22)", "project(one LANGUAGES CXX)", 'message(FATAL_ERROR "accepted")')
    (sources / "CMakeLists.txt").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setenv("CXX", " ")
    with pytest.raises(BadInput, match="step 'configure'"):
        loader.core()
    assert "accepted" in loader.library_dir().with_suffix(".log").read_text(encoding="utf-8")


def test_the_version_is_that_of_the_compiler_behind_a_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = tmp_path / "a launcher"
    launcher.write_text('#!/bin/sh\ncase "$1" in -*) echo "launcher 1.0";; *) exec "$@";; esac\n', encoding="utf-8")
    launcher.chmod(0o755)
    version, compiler = tools.compiler_version(), tools.find_compiler()[0]
    monkeypatch.setenv("CXX", f"'{launcher}' {compiler} -O2")
    assert tools.compiler_version() == version != ""


def test_a_cxx_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "'g++")
    with pytest.raises(BadInput, match=r"^CXX, ''g\+\+', is not the name of .*: No closing quotation\.$"):
        tools.find_compiler()


@pytest.mark.usefixtures("quick_sources")
class TestBuild:
    def test_environments_with_equal_versions_share_the_libraries_but_not_the_work(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        into = loader.library_dir()
        works = set()
        for name in ("one", "two"):
            monkeypatch.setattr(sys, "prefix", str(tmp_path / name))
            assert new_name() == into.name
            first_use.compile_once(into)
            works.add((into / "work").read_text(encoding="utf-8"))
            shutil.rmtree(into)
        assert len(works) == 2

    def test_what_a_build_that_failed_has_made_is_no_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        into = loader.library_dir()
        monkeypatch.setenv("FAILS", "build")
        with pytest.raises(BadInput, match="step 'build' ended with exit code 1"):
            first_use.compile_once(into)
        assert not into.exists()

    def test_after_a_failed_configuration_the_next_use_begins_anew(self, monkeypatch: pytest.MonkeyPatch) -> None:
        into = loader.library_dir()
        for step, is_kept in (("build", True), ("configure", False)):
            monkeypatch.setenv("FAILS", step)
            with pytest.raises(BadInput, match=f"step '{step}'"):
                first_use.compile_once(into)
            assert bool(list(into.parent.glob("*.build/build.ninja"))) == is_kept
        assert not list(into.parent.glob("*.build"))

    def test_of_works_that_were_left_nothing_stays(self) -> None:
        into = loader.library_dir()
        left = into.with_name(f"{into.name}.01234567.build")
        left.mkdir(parents=True)
        first_use.compile_once(into)
        assert {path.name for path in into.parent.iterdir()} == {into.name, f"{into.name}.lock"}

    def test_a_thread_that_waits_for_another_one_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        into = loader.library_dir()
        into.parent.mkdir(parents=True)
        output = Announced()
        monkeypatch.setattr(sys, "stderr", output)
        thread = threading.Thread(target=first_use.compile_once, args=(into,))
        with locked(into.with_name(f"{into.name}.lock"), "the lock", "unused"):
            thread.start()
            assert output.is_written.wait(60)
        thread.join()
        assert output.getvalue().startswith("tmflow: somebody else compiles the strategies; ")
        assert into.is_dir()


class Announced(io.StringIO):
    """A text that says when something has been written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_written = threading.Event()

    def write(self, text: str) -> int:
        written = super().write(text)
        self.is_written.set()
        return written


def test_without_a_compiler_nothing_is_written_but_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match=r"^no C\+\+ compiler is installed: install one, .*`apt install g\+\+`\.$"):
        loader.core()
    assert [path.suffix for path in (tmp_path / "cache" / "tmflow").iterdir()] == [".lock"]


def test_missing_headers_of_python_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools.sysconfig, "get_path", lambda name: str(tmp_path / name))
    header = tmp_path / "include" / "Python.h"
    with pytest.raises(BadInput, match=rf"^the headers of this Python are missing \({header}\): .*python3-dev"):
        loader.core()


def test_a_cache_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    with pytest.raises(BadInput, match=r"cache/tmflow, cannot be made: Not a directory; set XDG_CACHE_HOME"):
        loader.core()


def test_a_user_without_a_home_folder_has_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)  # whom no list of users has
    with pytest.raises(BadInput, match="no home folder: set XDG_CACHE_HOME"):
        loader.core()


def test_what_belongs_to_the_study_needs_a_checkout() -> None:
    with pytest.raises(BadInput, match=r"^libtmflow_runtime\.so belongs to the study, which needs a checkout"):
        loader.runtime()
