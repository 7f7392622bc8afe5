"""Writes envs/conda.yaml: what requirements.in names, in the versions of requirements.txt. `make lock` calls it.

The file names no other file, because Snakemake uses a copy of it elsewhere.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ENVS = Path(__file__).resolve().parent

HEAD = """\
# For those who use conda. Written by `make lock`: change requirements.in and make_conda.py, not this file.
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
    """The whole text of the file."""
    project = tomllib.loads((ENVS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = "".join(f'      - "{pin}"\n' for pin in pinned())
    return HEAD.format(requires_python=project["requires-python"]) + pins


def pinned() -> Iterator[str]:
    """Each requirement of requirements.in with the versions and conditions of the lock: a name may have several."""
    locked = re.findall(r"^([\w.-]+)==(\S+)(?: ; (.*?))? \\$", _read("requirements.txt"), re.MULTILINE)
    for name, extras in dict.fromkeys(re.findall(r"^([\w.-]+)(\[.*?\])?", _read("requirements.in"), re.MULTILINE)):
        versions = [(version, condition) for its_name, version, condition in locked if its_name == name]
        if not versions:
            raise SystemExit(f"envs/requirements.txt has no {name}: run `make lock`.")
        for version, condition in versions:
            yield f"{name}{extras}=={version}" + (f" ; {condition}" if condition else "")


def _read(name: str) -> str:
    return (ENVS / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    (ENVS / "conda.yaml").write_text(conda_file(), encoding="utf-8")
