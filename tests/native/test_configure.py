"""CMake's decisions before compilation: the list of strategies, and the use of ccache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import cpp
import pytest


def configured(
    sources: Path, folder: Path, *, python: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Configure the build of the strategies, with the Python module if a Python is named."""
    module = ("-DTMFLOW_BUILD_PYTHON=OFF",) if python is None else (f"-DPython_EXECUTABLE={python}",)
    options = ("-DTMFLOW_BUILD_TENSORFLOW=OFF", f"-DCMAKE_MAKE_PROGRAM={cpp.BIN / 'ninja'}", *module)
    environment = {name: value for name, value in os.environ.items() if name != "CMAKE_CXX_COMPILER_LAUNCHER"}
    return subprocess.run(
        [cpp.BIN / "cmake", "-S", sources, "-B", folder, "-G", "Ninja", *options],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_ccache_is_used_where_it_is_installed(tmp_path: Path) -> None:
    ccache = tmp_path / "bin" / "ccache"
    ccache.parent.mkdir()
    ccache.write_text('#!/bin/sh\nexec "$@"\n')
    ccache.chmod(0o755)
    done = configured(cpp.NATIVE_OPS, tmp_path / "build", PATH=f"{ccache.parent}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    assert f"{ccache} " in (tmp_path / "build" / "build.ninja").read_text()


def test_a_strategy_that_is_not_in_the_list_is_named(tmp_path: Path) -> None:
    sources = shutil.copytree(cpp.NATIVE_OPS, tmp_path / "native_ops")
    (sources / "include" / "tmflow" / "strategies" / "toy.hpp").write_text("#pragma once\n")
    done = configured(sources, tmp_path / "build")
    assert done.returncode != 0
    message = " ".join(done.stderr.split())
    assert "strategies/toy.hpp is not in the list of cmake/strategies.cmake" in message
    assert "add the line tmflow_add_strategy(toy NAME_OF_ITS_STRUCT)" in message


def python_of(version: str) -> Path:
    """An interpreter of that version with its headers, also one of pyenv; skips the test where there is none."""
    name = f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for file in (*pyenv.glob(f"versions/{version}.*/bin/{name}"), shutil.which(name)):
        where = "import os, sysconfig; os.stat(sysconfig.get_path('include') + '/Python.h')"
        if file and subprocess.run([file, "-c", where], capture_output=True, check=False).returncode == 0:
            return Path(file)
    pytest.skip(f"no Python {version} with its headers is installed")


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_the_module_is_configured_for_newer_pythons(version: str, tmp_path: Path) -> None:
    nanobind = Path(str(find_spec("nanobind").origin)).parents[1]
    done = configured(cpp.NATIVE_OPS, tmp_path, python=python_of(version), PYTHONPATH=str(nanobind))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("strategy", ["lock", "striped"])
def test_each_strategy_is_compiled_by_a_file_of_its_own(strategy: str, tmp_path: Path) -> None:
    done = configured(cpp.NATIVE_OPS, tmp_path)
    assert done.returncode == 0, done.stderr
    made = (tmp_path / "strategies" / f"{strategy}.cc").read_text()
    assert f'#include "tmflow/strategies/{strategy}.hpp"' in made


def test_no_other_source_includes_a_strategy() -> None:
    include, strategies = cpp.NATIVE_OPS / "include", cpp.NATIVE_OPS / "include" / "tmflow" / "strategies"
    sources = [file for folder in ("src", "runner") for file in (cpp.NATIVE_OPS / folder).rglob("*.cc")]
    assert sources
    for source in sources:
        seen: set[Path] = set()
        files = [source]
        while files:
            file = files.pop()
            seen.add(file)
            named = re.findall(r'^#include "(.+)"', file.read_text(encoding="utf-8"), re.MULTILINE)
            paths = [folder / name for name in named for folder in (include, file.parent)]
            files += [path for path in paths if path.is_file() and path not in seen]
        assert not [file.name for file in seen if file.parent == strategies], f"a change of one compiles {source} again"
