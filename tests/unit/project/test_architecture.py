"""The structure of the project: dependencies point one way, modules stay small, the lock matches the requirements."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from envs.make_conda import conda_file
from tmflow.base.paths import project_root

ROOT = project_root()
PACKAGE = ROOT / "src" / "tmflow"


def sources() -> list[Path]:
    folders = ("src", "portal", "tests", "native_ops", "workflow", "envs")
    suffixes = {".py", ".cc", ".cpp", ".hpp", ".h", ".smk", ".sh"}
    return [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_over_500_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 500


# Plug-ins: one file each, as small as what it adds. Every other module is one subject, of more than 60 lines.
PLUG_INS = (
    "**/__init__.py",
    "__main__.py",
    "_version.py",
    "bundle/rules/*.py",
    "cli/*.py",
    "portal/pages/*.py",
    "store/migrations/**/*.py",
    "training/models/*.py",
    "training/synthetic/*.py",
)

# Other modules of 60 lines or fewer: why each stays.
SMALL_MODULES = {
    "base/canonical_json.py": "hashes are needed where Pydantic, which documents need, is not",
    "base/clock.py": "the one source of times, for records and tests",
    "base/extras.py": "the remedy for a missing package depends on the folders, which need the errors",
    "datasets/text_file.py": "each kind of file is a subject of its own",
    "parallel/shared_reads.py": "only this module needs TensorFlow's own tape",
    "parallel/threads.py": "advice without TensorFlow needs them, too",
    "portal/server.py": "the portal's process starts with it, before any page is imported",
    "runtime/transports.py": "transports are a subject of their own beside executors",
    "training/pairs.py": "two models share it",
    "workflow/notebooks.py": "only this module needs the notebook libraries",
}


def test_only_plug_ins_are_small() -> None:
    plug_ins = {path for pattern in PLUG_INS for path in PACKAGE.glob(pattern)}
    others = {path for path in PACKAGE.rglob("*.py") if path not in plug_ins}
    small = {path.relative_to(PACKAGE).as_posix() for path in others if len(path.read_text().splitlines()) <= 60}
    assert small - set(SMALL_MODULES) == set(), "merge these with the module of their subject"
    assert set(SMALL_MODULES) - small == set(), "these need no exception any more: remove them from SMALL_MODULES"


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("outer", ["portal", "workflow", "notebooks", "tests"])
def test_the_package_never_imports_what_is_around_it(outer: str) -> None:
    for path in PACKAGE.rglob("*.py"):
        assert not any(name == outer or name.startswith(f"{outer}.") for name in imports(path)), path


def test_packages_import_only_what_stands_below_them() -> None:
    """The order is in pyproject.toml, where `lint-imports` reads it."""
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def order_of_packages() -> list[str]:
    """The packages as pyproject.toml lists them, the highest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (order,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    return [str(name) for name in order]


def test_contributing_lists_the_packages_with_their_docstrings() -> None:
    rows = ["| package | what it is |", "|---|---|"]
    for name in reversed(order_of_packages()):
        path = name.removeprefix("tmflow.")
        path = f"{path}/" if (PACKAGE / path).is_dir() else f"{path}.py"
        module = PACKAGE / path / "__init__.py" if path.endswith("/") else PACKAGE / path
        first = (ast.get_docstring(ast.parse(module.read_text())) or "").partition("\n")[0]
        rows.append(f"| `{path}` | {first} |")
    table = "\n".join(rows)
    assert table in (ROOT / "CONTRIBUTING.md").read_text(), f"put this table into CONTRIBUTING.md:\n{table}"


def test_every_package_has_its_place_in_the_order() -> None:
    order = order_of_packages()
    packages = {f"tmflow.{path.parent.name}" for path in PACKAGE.glob("*/__init__.py")}
    assert packages ^ set(order) == {"tmflow.api"}


def test_core_headers_do_not_know_tensorflow() -> None:
    for path in (ROOT / "native_ops" / "include").rglob("*.hpp"):
        assert not re.search(r"#include\s*[<\"](tensorflow|tsl|xla)/", path.read_text()), path


def includes(path: Path) -> Iterator[str]:
    """The files that a C++ file includes by a name in quotes."""
    return (match[1] for match in re.finditer(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(), re.MULTILINE))


def test_the_core_knows_neither_the_static_program_nor_its_own_bindings() -> None:
    native = ROOT / "native_ops"
    headers, core = native / "include", native / "src"
    for path in headers.rglob("*.hpp"):
        assert all(name.startswith("tmflow/") for name in includes(path)), path
        assert all((headers / name).is_file() for name in includes(path)), path
    for path in core.rglob("*.?*"):
        part = path.relative_to(core).parts[0]
        around = [native / "runner", *(core / name for name in ("python", "tensorflow") if name != part)]
        for name in includes(path):
            file = next(((of / name).resolve() for of in (headers, path.parent, native) if (of / name).is_file()), None)
            assert file or (part == "tensorflow" and name.startswith("tensorflow/")), f"{path} includes {name}"
            assert not any(file and file.is_relative_to(folder) for folder in around), f"{path} includes {name}"


def locked(name: str = "requirements") -> dict[str, set[str]]:
    versions: dict[str, set[str]] = {}
    for line in (ROOT / "envs" / f"{name}.txt").read_text().splitlines():
        if match := re.match(r"([a-z0-9._-]+)==([^ ;\\]+)", line):
            versions.setdefault(match[1], set()).add(match[2])
    return versions


@pytest.mark.parametrize("name", ["requirements", "portal"])
def test_a_lock_holds_hashes_and_no_address(name: str) -> None:
    text = (ROOT / "envs" / f"{name}.txt").read_text()
    assert "--hash=sha256:" in text
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links", text)


def test_the_smaller_lock_has_the_versions_of_the_whole_one() -> None:
    whole = locked()
    assert all(versions <= whole[package] for package, versions in locked("portal").items())


def test_lock_covers_everything_that_is_asked_for() -> None:
    names = locked()
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = pyproject["project"]
    wanted = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    wanted = [line for line in wanted if not line.startswith("tmflow[")] + (
        ROOT / "envs" / "requirements.in"
    ).read_text().splitlines()
    for line in wanted:
        if match := re.match(r"([A-Za-z0-9._-]+)", line):
            assert match[1].lower() in names, line


def test_conda_file_agrees_with_the_lock() -> None:
    text = (ROOT / "envs" / "conda.yaml").read_text()
    assert text == conda_file(), "run `make lock`, or only `.venv/bin/python envs/make_conda.py`"
    conda = yaml.safe_load(text)
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    plain = [entry for entry in conda["dependencies"] if isinstance(entry, str)]
    (pip,) = [entry["pip"] for entry in conda["dependencies"] if isinstance(entry, dict)]
    assert f"python{pyproject['project']['requires-python']}" in plain
    # Snakemake uses a copy of the file in another folder, so it must not refer to other files.
    assert all(re.match(r"[A-Za-z0-9._-]+(\[\w+\])?==\S+( ; .+)?$", pin) for pin in pip)
    asked_for = re.findall(r"^[A-Za-z0-9._-]+", (ROOT / "envs" / "requirements.in").read_text(), re.MULTILINE)
    assert {re.split(r"[\[=]", pin)[0] for pin in pip} == set(asked_for)
    # Nothing that the lock pins may also come from conda, in conda's version.
    assert not set(locked()) & {re.split(r"[<>=]", entry)[0] for entry in plain if entry != "pip"} - {"python"}


def test_a_command_begins_at_once() -> None:
    """Every step of the study is a command: modules that take a second to import are imported only where needed."""
    heavy = ("altair", "pandas", "scipy", "sqlalchemy", "tensorflow")
    loaded = f"import sys, tmflow, tmflow.cli; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_no_two_tests_share_a_file_name() -> None:
    """The folders of tests are no packages: pytest takes two files of one name for one module, and stops."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py")
    assert [name for name, count in names.items() if count > 1] == []
