"""The Makefile: what it removes, and what it must not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tmflow.base.paths import project_root

BUILT = ("results/build/lib/_core.so", "build/x", ".ruff_cache/x", "src/tmflow/__pycache__/x.pyc")
KEPT = (
    "results/study.db",
    "results/runs/full/round-001.jsonl",
    "results/report.html",
    ".snakemake/metadata/x",
    "data/mnist/x",
    ".venv/lib/__pycache__/x.pyc",
)


@pytest.mark.parametrize("results", [None, "else where"])
def test_clean_removes_what_was_built_and_keeps_what_was_measured(tmp_path: Path, results: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TMFLOW_RESULTS_DIR"}
    if results:
        environment["TMFLOW_RESULTS_DIR"] = str(tmp_path / results)
    shutil.copy(project_root() / "Makefile", tmp_path)
    built, kept = (
        [tmp_path / name.replace("results", results or "results") for name in names] for names in (BUILT, KEPT)
    )
    for file in built + kept:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    subprocess.run(["make", "clean"], cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert not [file for file in built if file.exists()]
    assert not [file for file in kept if not file.exists()]


class TestSetUp:
    """envs/bootstrap.sh where there is a .venv already: nothing is replaced by less, and what is done is said."""

    @pytest.fixture
    def checkout(self, tmp_path: Path) -> Path:
        shutil.copytree(project_root() / "envs", tmp_path / "envs")
        shutil.copy(project_root() / "pyproject.toml", tmp_path)
        return tmp_path

    def environment(self, checkout: Path, stamp: str, *packages: str) -> Path:
        """A stand-in for a .venv with these packages, as far as the set-up looks at it."""
        for name in ("bin", *(f"lib/python3.11/site-packages/{package}" for package in packages)):
            (checkout / ".venv" / name).mkdir(parents=True)
        (checkout / ".venv" / "bin" / "tmflow").touch(mode=0o755)
        (checkout / ".venv" / "tmflow-set-up").write_text(f"{stamp}\n")
        return checkout / ".venv"

    def function(self, checkout: Path, name: str, group: str) -> str:
        """What a function of the set-up prints, after what was said before it; nothing is installed."""
        script = checkout / "envs" / "bootstrap.sh"
        functions = script.read_text(encoding="utf-8").partition("\nfind_python\n")[0]
        command = ["bash", "-c", f'{functions}\nPYTHON=$(base_of "{sys.executable}"); {name}', script, group]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def test_an_environment_with_everything_is_used_for_less(self, checkout: Path) -> None:
        its = self.environment(checkout, self.function(checkout, "wanted", "build").strip(), "tensorflow")
        script, variables = checkout / "envs" / "bootstrap.sh", {**os.environ, "PYTHON": sys.executable}
        done = subprocess.run([script, "portal"], env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert re.fullmatch(r"tmflow set-up: .* all that portal needs, so it stays whole; .*\n", done.stdout)
        assert (its / "lib/python3.11/site-packages/tensorflow").is_dir()

    def test_an_old_environment_with_everything_is_renewed_with_everything(self, checkout: Path) -> None:
        self.environment(checkout, "of an older lock", "tensorflow")
        said = self.function(checkout, "announce", "portal")
        assert "\ntmflow set-up: renewing .venv with all locked dependencies (" in said

    def test_a_small_environment_is_replaced_by_one_with_everything_which_is_said(self, checkout: Path) -> None:
        assert self.function(checkout, "announce", "portal").startswith(
            "tmflow set-up: creating .venv with what portal"
        )
        self.environment(checkout, "of another lock", "numpy")
        said = self.function(checkout, "announce", "build")
        assert said.startswith(
            "tmflow set-up: replacing .venv, which lacks TensorFlow or is not whole, with all locked"
        )
