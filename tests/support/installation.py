"""A wheel of this checkout, in new environments with packages of the environment of the tests; without a network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

from tmflow.base.paths import project_root

SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "src", "native_ops")


def copy_sources(folder: Path) -> Path:
    """What a distribution is made from, in a folder that its build may fill."""
    folder.mkdir()
    for name in SOURCES:
        source = project_root() / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
        else:
            shutil.copy(source, folder)
    return folder


def make_wheel(sources: Path, folder: Path) -> Path:
    """Build the wheel of `sources` (a folder or an sdist), as `pip install` does."""
    quiet = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", "wheel", *quiet, "--wheel-dir", folder, sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


class Installation:
    """A virtual environment with the wheel and some packages, and a home folder of its own, where programs run."""

    def __init__(self, folder: Path, wheel: Path, packages: Iterable[str]) -> None:
        venv.create(folder / "venv", with_pip=True)
        self.python = folder / "venv" / "bin" / "python"
        self.home = folder / "home"
        self.home.mkdir()
        install = (
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-index",
            "--no-deps",
            "--disable-pip-version-check",
            str(wheel),
        )
        subprocess.run([self.python, *install], check=True)
        self.link(*packages)

    def link(self, *packages: str) -> None:
        """Add packages, and all that they require, from the environment of the tests."""
        (site,) = self.python.parents[1].glob("lib/python*/site-packages")
        for one in _with_requirements(packages):
            _link(one, site)

    def rename(self, package: str, name: str) -> None:
        """Give a package that is linked another name, as another build of the same sources has."""
        (site,) = self.python.parents[1].glob("lib/python*/site-packages")
        (linked,) = site.glob(f"{package.replace('-', '_')}-*.dist-info")
        renamed = site / linked.name.replace(package.replace("-", "_"), name.replace("-", "_"))
        shutil.copytree(linked, renamed)
        linked.unlink()
        metadata = renamed / "METADATA"
        text = metadata.read_text(encoding="utf-8")
        metadata.write_text(re.sub(r"(?m)^Name: .*$", f"Name: {name}", text, count=1), encoding="utf-8")

    def run(self, *arguments: str | Path, **variables: str | Path | None) -> subprocess.CompletedProcess[str]:
        """Run Python with these arguments, outside any checkout; None removes a variable of the environment."""
        with self.start(*arguments, **variables) as process:
            output, errors = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def start(self, *arguments: str | Path, **variables: str | Path | None) -> subprocess.Popen[str]:
        """Start Python with these arguments, as `run`."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("TMFLOW_", "PYTHON"))}
        changed = {"HOME": self.home, "XDG_CACHE_HOME": None, "CCACHE_DIR": _ccache_dir(), **variables}
        environment = {name: str(value) for name, value in (ours | changed).items() if value is not None}
        return subprocess.Popen(
            [self.python, *arguments],
            cwd=self.home,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def _ccache_dir() -> Path:
    """Where ccache keeps what it has compiled for this user: the home folder of an installation is empty."""
    return Path(os.environ.get("CCACHE_DIR") or Path.home() / ".cache" / "ccache")


def _with_requirements(names: Iterable[str]) -> Iterator[Distribution]:
    """The installed distributions of these names and of all that they require."""
    waiting, seen = list(names), set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:  # for another system
            continue
        yield found
        for line in found.requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)


def _link(found: Distribution, site: Path) -> None:
    """Link the modules of a distribution and its metadata into `site`, and its programs beside Python."""
    for file in found.files or ():
        source, top = Path(str(found.locate_file(file))), file.parts[0]
        if file.parts[:4] == ("..", "..", "..", "bin"):
            target = site.parents[2] / "bin" / source.name
        elif top in {"..", "__pycache__"} or top.endswith(".pth"):
            continue
        else:
            source, target = Path(str(found.locate_file(top))), site / top
        if not target.exists():
            target.symlink_to(source.resolve())
