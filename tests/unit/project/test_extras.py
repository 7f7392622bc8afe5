"""The dependencies of the package: NumPy alone for the core, and an extra for everything else that it imports."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tmflow.base.errors import BadInput, NotInstalled, requires_extra
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
        "tmflow.base.errors.NotInstalled: an emulated machine needs the package pydantic, which is not installed: "
        "run `pip install 'tmflow[study]'`."
    )


def imported_packages() -> Iterator[tuple[str, Path]]:
    for path in (project_root() / "src" / "tmflow").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((alias.name.partition(".")[0], path) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                yield node.module.partition(".")[0], path


def test_every_package_that_is_imported_is_a_dependency_or_in_an_extra() -> None:
    lines = [*PROJECT["dependencies"], *(line for extra in PROJECT["optional-dependencies"].values() for line in extra)]
    declared = {re.split(r"[\[<>=]", line)[0].lower() for line in lines}
    distributions = packages_distributions()
    for package, path in set(imported_packages()):
        if package in sys.stdlib_module_names or package == "tmflow":
            continue
        names = [BROUGHT_BY.get(package, package), *distributions.get(package, ())]
        assert declared & {name.lower().replace("_", "-") for name in names}, f"{path} imports {package}"


@pytest.mark.parametrize(
    ("package", "extra"), [("scipy.stats", "study"), ("keras", "tensorflow"), ("streamlit", "portal")]
)
def test_a_missing_package_is_named_with_its_extra(package: str, extra: str) -> None:
    with pytest.raises(NotInstalled) as caught, requires_extra("this"):
        raise ModuleNotFoundError(name=package)
    package = package.partition(".")[0]
    remedy = f"run `pip install 'tmflow[{extra}]'`."
    assert str(caught.value) == f"this needs the package {package}, which is not installed: {remedy}"
    assert isinstance(caught.value, BadInput)
    assert isinstance(caught.value, ImportError)


def test_a_missing_module_of_our_own_is_a_bug() -> None:
    with pytest.raises(ModuleNotFoundError) as caught, requires_extra("this"):
        raise ModuleNotFoundError(name="tmflow.no_such")
    assert not isinstance(caught.value, NotInstalled)
