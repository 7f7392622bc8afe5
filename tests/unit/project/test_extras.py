"""The dependencies of the package: NumPy alone for the core, and an extra for everything else that it imports."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tmflow.base import paths
from tmflow.base.errors import BadInput
from tmflow.base.extras import EXTRAS, NotInstalled, requires_extra
from tmflow.base.paths import project_root

PROJECT = tomllib.loads((project_root() / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Packages that are parts of those that others are for.
BROUGHT_BY = {
    "annotated_types": "pydantic",
    "keras": "tensorflow",
    "markupsafe": "jinja2",
    "pydantic_core": "pydantic",
    "starlette": "streamlit",
}

# A process in which only Python's own packages and those that are named are installed.
WITH_ONLY = """
import importlib.machinery, sys
class Named(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        package = name.partition(".")[0]
        return super().find_spec(name, path) if package in sys.stdlib_module_names or package in {packages} else None
sys.meta_path[:] = [importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter, Named]
"""


def with_only(packages: set[str], program: str) -> subprocess.CompletedProcess[str]:
    program = WITH_ONLY.format(packages=packages) + program
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_numpy_is_enough_for_shared_arrays() -> None:
    done = with_only(
        {"numpy", "tmflow"},
        "import numpy as np\n"
        "import tmflow.native.first_use, tmflow.native.ops, tmflow.native.updates\n"
        "from tmflow.arrays import SharedParameters\n"
        "weights = np.zeros(2)\n"
        "SharedParameters({'weights': weights}).apply({'weights': np.ones(2)}, 0.5)\n"
        "print(weights)\n",
    )
    assert (done.returncode, done.stdout) == (0, "[-0.5 -0.5]\n"), done.stderr


def test_an_emulated_machine_needs_more() -> None:
    done = with_only(
        {"numpy", "tmflow"},
        "from tmflow.native.registry import resolve_text\n"
        "resolve_text('htm:provider=emulated:profile=intel-tsx-study')\n",
    )
    assert done.stderr.splitlines()[-1] == (
        "tmflow.base.extras.NotInstalled: an emulated machine needs the package pydantic, which is not installed: "
        "run `make setup`."
    )


def test_the_command_line_without_its_packages_is_one_sentence_and_exit_code_2() -> None:
    done = with_only({"numpy", "tmflow"}, "from tmflow.__main__ import main\nmain()\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "tmflow: the command line needs the package typer, which is not installed: run `make setup`.\n"
    )


def imported_packages() -> Iterator[tuple[str, Path]]:
    for path in (project_root() / "src" / "tmflow").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((alias.name.partition(".")[0], path) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                yield node.module.partition(".")[0], path


def names(requirements: list[str]) -> set[str]:
    """The names of the distributions that requirements of pyproject.toml ask for, without those of tmflow itself."""
    return {re.split(r"[\[<>=]", line)[0].lower() for line in requirements} - {"tmflow"}


@cache
def distributions() -> Mapping[str, list[str]]:
    """The installed distributions by the packages that they provide."""
    return packages_distributions()


def providers(package: str) -> set[str]:
    """The distributions that provide a package, and the package whose part it is."""
    providing = distributions().get(package, ())
    return {name.lower().replace("_", "-") for name in (BROUGHT_BY.get(package, package), *providing)}


def test_every_package_that_is_imported_is_a_dependency_or_in_an_extra() -> None:
    dependencies = names(PROJECT["dependencies"])
    for package, path in set(imported_packages()):
        if package in sys.stdlib_module_names or package == "tmflow" or package in EXTRAS:
            continue
        assert dependencies & providers(package), f"{path} imports {package}"


@pytest.mark.parametrize("extra", PROJECT["optional-dependencies"])
def test_the_packages_of_an_extra_are_those_of_pyproject(extra: str) -> None:
    declared = names(PROJECT["optional-dependencies"][extra])
    packages = [package for package, its_extra in EXTRAS.items() if its_extra == extra]
    assert [package for package in packages if not declared & providers(package)] == []
    assert declared - {name for package in packages for name in providers(package)} == set()


MISSING = [("scipy", "study"), ("keras", "tensorflow"), ("streamlit", "portal")]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process takes tmflow for an installed package."""
    monkeypatch.setattr(paths, "_PACKAGED_SOURCES", tmp_path)
    monkeypatch.delenv("TMFLOW_ROOT", raising=False)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("package", "extra"), MISSING)
def test_a_missing_package_is_named_with_its_extra(package: str, extra: str) -> None:
    with pytest.raises(NotInstalled) as caught, requires_extra("this"):
        raise ModuleNotFoundError(name=package)
    remedy = f"run `pip install 'tmflow[{extra}]'`."
    assert str(caught.value) == f"this needs the package {package}, which is not installed: {remedy}"
    assert isinstance(caught.value, BadInput)
    assert isinstance(caught.value, ImportError)


@pytest.mark.parametrize("package", [package for package, _ in MISSING])
def test_in_a_checkout_make_setup_brings_what_is_missing(package: str) -> None:
    with pytest.raises(NotInstalled, match="which is not installed: run `make setup`"), requires_extra("this"):
        raise ModuleNotFoundError(name=package)


@pytest.mark.parametrize("module", ["tmflow.no_such", "a_module_of_the_user", "scipy.no_such", None])
def test_any_other_missing_module_stays_the_error_of_the_import(module: str | None) -> None:
    error = ModuleNotFoundError(name=module)
    with pytest.raises(ModuleNotFoundError) as caught, requires_extra("this"):
        raise error
    assert caught.value is error
