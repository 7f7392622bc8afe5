"""tmflow as `pip install` gives it, outside any checkout: what it brings, and its first use, which compiles."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.support.installation import Installation, copy_sources, make_wheel
from tmflow.base.paths import project_root

pytestmark = pytest.mark.slow

COMPILES, WAITS = "tmflow: compiling the strategies for this machine, once; ", "tmflow: somebody else compiles "
NO_COMPILER = "tmflow.base.errors.BadInput: no C++ compiler is installed: install one, "
WITHOUT_STUDY = (
    "tmflow.advise_for_sizes needs the package pydantic, which is not installed: run `pip install 'tmflow[study]'`."
)
EXAMPLE = "numpy_logistic_regression.py"
TIMED = r"([\d.]+) s   accuracy \d"
UPDATE = """
import numpy as np
from tmflow.arrays import SharedParameters
weights = np.zeros(3, np.float32)
SharedParameters({"weights": weights}).apply({"weights": np.ones(3, np.float32)}, 0.5)
print(weights.tolist())
"""
UPDATED = "[-0.5, -0.5, -0.5]\n"
EIGHT_STEPS = """
import keras, numpy as np, tmflow, tmflow.optimizers, tmflow.tf
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)])
model.compile(tmflow.optimizers.SGD(0.1), loss="mse")
tmflow.Workers(2).fit(model, np.ones((64, 4), "float32"), np.ones((64, 2), "float32"), batch_size=8, verbose=0)
print(sum(row["updates"] for row in model.optimizer.counters().counters))
"""
UPDATES_OF_EIGHT_STEPS = "16\n"  # of two variables


def dependencies() -> list[str]:
    """The names of what the package needs without an extra."""
    project = tomllib.loads((project_root() / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [str(re.split(r"[<>=]", line)[0]) for line in project["dependencies"]]


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return make_wheel(copy_sources(tmp_path / "sources"), tmp_path / "dist")


def native_sources_of(wheel: Path) -> set[str]:
    folder = "tmflow/native_ops/"
    with zipfile.ZipFile(wheel) as archive:
        return {name.removeprefix(folder) for name in archive.namelist() if name.startswith(folder)}


def test_a_wheel_carries_the_native_sources_also_one_from_an_sdist(tmp_path: Path, wheel: Path) -> None:
    native = project_root() / "native_ops"
    parts = (native / "CMakeLists.txt", *(native / part for part in ("cmake", "include", "src")))
    files = {path for part in parts for path in (part, *part.rglob("*")) if path.is_file()}
    assert native_sources_of(wheel) == {path.relative_to(native).as_posix() for path in files}
    make_sdist = "from setuptools import build_meta; build_meta.build_sdist('sdist')"
    subprocess.run([sys.executable, "-c", make_sdist], cwd=tmp_path / "sources", check=True, capture_output=True)
    (sdist,) = (tmp_path / "sources" / "sdist").iterdir()
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert native_sources_of(make_wheel(unpacked, tmp_path / "again")) == native_sources_of(wheel)


@pytest.mark.timeout(1800)  # it compiles for minutes where ccache has nothing
def test_numpy_alone(tmp_path: Path, wheel: Path) -> None:
    """The first use, of three processes: one is killed while it compiles, and two others begin at the same time."""
    installed = Installation(tmp_path, wheel, dependencies())
    cache, no_compiler = installed.home / ".cache" / "tmflow", {"PATH": str(tmp_path), "CXX": None}

    refused = installed.run("-c", UPDATE, **no_compiler)
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1].startswith(NO_COMPILER)

    killed = installed.start("-c", UPDATE, CCACHE_DISABLE="1")  # it shall not be complete before it is killed
    until_exists(cache, "*.build/build.ninja", killed)
    killed.send_signal(signal.SIGKILL)
    assert killed.communicate()[1].startswith(COMPILES)
    assert not list(cache.glob("*/_core*.so"))

    installed.link("threadpoolctl")  # which the example imports
    shutil.copy(project_root() / "examples" / EXAMPLE, installed.home)
    with installed.start("-u", EXAMPLE) as example, installed.start("-c", UPDATE) as update:
        assert example.stdout
        assert example.stderr
        row = example.stdout.readline()
        compiled = list(cache.glob("*/_core*.so"))  # before the first row, so that no row includes the compilation
        outputs = [(row + example.stdout.read(), example.stderr.read()), update.communicate()]
    assert (len(re.findall(TIMED, outputs[0][0])), outputs[1][0]) == (4, UPDATED), outputs
    assert len(compiled) == 1
    said = [line for _, errors in outputs for line in errors.splitlines()]
    assert sum(line.startswith(COMPILES) for line in said) == 1
    assert all(line.startswith((COMPILES, WAITS)) for line in said)
    assert len(list(cache.glob("*/_core*.so"))) == 1
    assert not [path for path in cache.iterdir() if path.suffix in (".build", ".log")]

    for variables in ({}, no_compiler):
        again = installed.run(EXAMPLE, **variables)
        assert (again.returncode, again.stderr) == (0, "")
        assert len(re.findall(TIMED, again.stdout)) == 4
        assert again.stdout.endswith(f"advice: {WITHOUT_STUDY}\n")


def until_exists(folder: Path, pattern: str, process: subprocess.Popen[str]) -> None:
    """Wait until a process has made a file."""
    while not list(folder.glob(pattern)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def test_with_tensorflow_also_of_another_name(tmp_path: Path, wheel: Path) -> None:
    installed = Installation(tmp_path, wheel, [*dependencies(), "tensorflow-cpu"])
    installed.rename("tensorflow-cpu", "tf-nightly")
    first = installed.run("-c", EIGHT_STEPS)
    assert (first.returncode, first.stdout) == (0, UPDATES_OF_EIGHT_STEPS), first.stderr
    assert COMPILES in first.stderr
    second = installed.run("-c", EIGHT_STEPS)
    assert (second.returncode, second.stdout) == (0, UPDATES_OF_EIGHT_STEPS), second.stderr
    assert COMPILES not in second.stderr


def test_what_an_extra_brings_is_named_where_it_is_missing(tmp_path: Path, wheel: Path) -> None:
    installed = Installation(tmp_path, wheel, ["numpy"])
    for command, says in (
        (("-m", "tmflow", "--help"), "tmflow: the command line needs the package typer, which is not installed: "),
        (("-m", "tmflow.__main__"), "tmflow: the command line needs the package typer, which is not installed: "),
    ):
        done = installed.run(*command)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"{says}run `pip install 'tmflow[study]'`.\n"
    for line, extra in (
        ("import tmflow; tmflow.advise", "study"),
        ("from tmflow import open_study", "study"),
        ("from tmflow import Workers", "tensorflow"),
        ("import tmflow.optimizers", "tensorflow"),
        ("import tmflow.tf", "tensorflow"),
    ):
        done = installed.run("-c", f"try:\n    {line}\nexcept ImportError as error:\n    print(error)")
        assert done.stdout.endswith(f", which is not installed: run `pip install 'tmflow[{extra}]'`.\n"), done.stderr
    without_tools = installed.run("-c", UPDATE)
    assert without_tools.stderr.splitlines()[-1].endswith(
        " is missing from this Python environment: run `pip install nanobind`."
    )
