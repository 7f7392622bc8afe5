"""The libraries of an installed package: the name of their folder, and a build that fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tmflow.base import paths
from tmflow.base.errors import BadInput
from tmflow.native import first_use, loader, tools


@pytest.fixture(autouse=True)
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with a source file, and an empty cache."""
    folder = tmp_path / "native_ops"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text('message(FATAL_ERROR "on purpose")\n', encoding="utf-8")
    monkeypatch.setattr(paths, "_PACKAGED_SOURCES", folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("TMFLOW_ROOT", "TMFLOW_NATIVE_DIR", "CXX"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture(autouse=True)
def _each_asks_anew() -> None:
    first_use._folder.cache_clear()


def new_name() -> str:
    """The name of the folder, as another process would find it."""
    first_use._folder.cache_clear()
    return loader.library_dir().name


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

    @pytest.mark.parametrize("name", ["installed_version", "compiler_version", "__version__"])
    def test_each_tensorflow_compiler_and_version_has_its_own(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        names = {new_name()}
        for value in ("1", "2"):
            monkeypatch.setattr(first_use, name, value if name == "__version__" else lambda *_, value=value: value)
            names.add(new_name())
        assert len(names) == 3

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
