"""envs/hpx.sh: what it refuses, and that it builds once."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT, environment


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "envs").mkdir()
    shutil.copy(ROOT / "envs/hpx.sh", tmp_path / "envs")
    return tmp_path


def call(checkout: Path, **variables: str | Path | None) -> subprocess.CompletedProcess[str]:
    command = ["bash", checkout / "envs/hpx.sh"]
    return subprocess.run(command, env=environment(**variables), capture_output=True, text=True, check=False)


@pytest.mark.parametrize("release", [None, "1.10.0"])
def test_a_folder_without_the_source_of_the_release(checkout: Path, release: str | None) -> None:
    source = checkout / "hpx source"
    if release is not None:
        source.mkdir()
        names = zip(("MAJOR", "MINOR", "SUBMINOR"), release.split("."), strict=True)
        (source / "CMakeLists.txt").write_text("".join(f"set(HPX_VERSION_{name} {part})\n" for name, part in names))
    done = call(checkout, TMFLOW_HPX_SOURCE=source)
    message = f"tmflow hpx: TMFLOW_HPX_SOURCE={source} must be a folder with the source of HPX 1.11.0.\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)
    assert not (checkout / ".hpx").exists()


def test_a_source_that_cannot_be_cloned(checkout: Path) -> None:
    """Git is told that every address begins with that of a folder that does not exist."""
    done = call(
        checkout,
        TMFLOW_HPX_SOURCE=None,
        GIT_CONFIG_COUNT="1",
        GIT_CONFIG_KEY_0=f"url.{checkout / 'nowhere'}/.insteadOf",
        GIT_CONFIG_VALUE_0="https://",
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tmflow hpx: HPX 1.11.0 could not be cloned (fatal: ")
    assert done.stderr.endswith("give a folder with its source as TMFLOW_HPX_SOURCE.\n")
    assert done.stderr.count("\n") == 1


def test_what_is_built_is_kept(checkout: Path) -> None:
    (checkout / ".hpx").mkdir()
    (checkout / ".hpx/tmflow-release").write_text("1.11.0\n")
    done = call(checkout, TMFLOW_HPX_SOURCE=None)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("tmflow hpx: HPX 1.11.0 is in .hpx/ already")
