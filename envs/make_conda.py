"""Write envs/conda.yaml: the packages of requirements.in, in the versions of requirements.txt. `make lock` calls it.

The file refers to no other file, because Snakemake copies it to another folder.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ENVS = Path(__file__).resolve().parent

HEAD = """\
# For users of conda. Written by `make lock`: change requirements.in and make_conda.py, not this file.
#   conda env create -f envs/conda.yaml && conda activate tmflow && pip install --no-deps -e .
name: tmflow
channels:
  - conda-forge
  - nodefaults
dependencies:
  - python{requires_python}
  - pip
  - cxx-compiler
  - eigen=3.4
  - git
  - make
  - pip:
"""


def conda_file() -> str:
    """The complete text of the file."""
    project = tomllib.loads((ENVS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = "".join(f'      - "{pin}"\n' for pin in pinned())
    return HEAD.format(requires_python=project["requires-python"]) + pins


def pinned() -> Iterator[str]:
    """Each requirement of requirements.in with its versions and conditions in the lock; a package may have several."""
    locked = re.findall(r"^([\w.-]+)==(\S+)(?: ; (.*?))? \\$", _read("requirements.txt"), re.MULTILINE)
    for name, extras in dict.fromkeys(re.findall(r"^([\w.-]+)(\[.*?\])?", _read("requirements.in"), re.MULTILINE)):
        versions = [(version, condition) for package, version, condition in locked if package == name]
        if not versions:
            raise SystemExit(f"envs/requirements.txt has no {name}: run `make lock`.")
        for version, condition in versions:
            yield f"{name}{extras}=={version}" + (f" ; {condition}" if condition else "")


def _read(name: str) -> str:
    return (ENVS / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    (ENVS / "conda.yaml").write_text(conda_file(), encoding="utf-8")
