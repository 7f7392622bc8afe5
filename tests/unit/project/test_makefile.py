"""The Makefile: what it removes, and what it keeps."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
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


@pytest.mark.parametrize(
    ("hours", "code", "says"),
    [
        ("x", 2, "--hours is 'x', but should be a valid number"),
        ("0", 2, "--hours is 0, but must be a number of hours above 0"),
        ("-1", 2, "--hours is -1, but must be a number of hours above 0"),
        (None, 0, "study run --scale full \n"),
        ("8", 0, 'study run --scale full --hours "8"\n'),
    ],
)
def test_the_hours_of_a_study_are_passed_only_if_given(hours: str | None, code: int, says: str) -> None:
    """Wrong ones are refused by the command itself, before anything starts; for the others the recipe is only shown."""
    given = [] if hours is None else [f"HOURS={hours}"]
    only_show = [] if code else ["--just-print"]
    environment = {name: value for name, value in os.environ.items() if name != "HOURS"}
    tools = f"BIN={Path(sys.executable).parent}"
    line = ["make", *only_show, "--old-file=setup", tools, "study", *given]
    done = subprocess.run(line, cwd=project_root(), env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert says in done.stdout + done.stderr


class TestSetUp:
    """envs/bootstrap.sh with an existing .venv: never replaced by a smaller one, and messages describe each step."""

    @pytest.fixture
    def checkout(self, tmp_path: Path) -> Path:
        shutil.copytree(project_root() / "envs", tmp_path / "envs")
        shutil.copy(project_root() / "pyproject.toml", tmp_path)
        return tmp_path

    def environment(self, checkout: Path, stamp: str, *packages: str) -> Path:
        """A stand-in for a .venv with these packages, as far as the set-up checks it."""
        for name in ("bin", *(f"lib/python3.11/site-packages/{package}" for package in packages)):
            (checkout / ".venv" / name).mkdir(parents=True)
        (checkout / ".venv" / "bin" / "tmflow").touch(mode=0o755)
        (checkout / ".venv" / "tmflow-set-up").write_text(f"{stamp}\n")
        return checkout / ".venv"

    def function(self, checkout: Path, name: str, group: str) -> str:
        """The output of a function of the set-up, after its other messages; nothing is installed."""
        script = checkout / "envs" / "bootstrap.sh"
        functions = script.read_text(encoding="utf-8").partition("\nfind_python\n")[0]
        command = ["bash", "-c", f'{functions}\nPYTHON=$(base_of "{sys.executable}"); {name}', script, group]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def test_an_environment_with_everything_is_used_for_less(self, checkout: Path) -> None:
        complete = self.environment(checkout, self.function(checkout, "wanted", "build").strip(), "tensorflow")
        script, variables = checkout / "envs" / "bootstrap.sh", {**os.environ, "PYTHON": sys.executable}
        done = subprocess.run([script, "portal"], env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert re.fullmatch(r"tmflow set-up: .* all that portal needs, so it stays whole; .*\n", done.stdout)
        assert (complete / "lib/python3.11/site-packages/tensorflow").is_dir()

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


@pytest.mark.slow
class TestLockedPackages:
    """How envs/bootstrap.sh installs a lock: uv comes from pip's index, the other package from a folder."""

    @pytest.fixture
    def checkout(self, tmp_path: Path) -> Path:
        shutil.copytree(project_root() / "envs", tmp_path / "envs")
        wheel = tmp_path / "wheels" / "tmflow_example-1.0-py3-none-any.whl"
        wheel.parent.mkdir()
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("tmflow_example.py", "ANSWER = 42\n")
            archive.writestr("tmflow_example-1.0.dist-info/METADATA", "Name: tmflow-example\nVersion: 1.0\n")
            archive.writestr("tmflow_example-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            archive.writestr("tmflow_example-1.0.dist-info/RECORD", "")
        lock = (project_root() / "envs" / "requirements.txt").read_text(encoding="utf-8")
        (uv,) = re.findall(r"^uv==.*(?:\n    --hash.*)+\n", lock, re.MULTILINE)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        (tmp_path / "envs" / "requirements.txt").write_text(
            f"tmflow-example==1.0 \\\n    --hash=sha256:{digest}\n{uv}", encoding="utf-8"
        )
        venv.create(tmp_path / ".venv", with_pip=True)
        return tmp_path

    def install(self, checkout: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        script = (checkout / "envs" / "bootstrap.sh").read_text(encoding="utf-8").partition("\nfind_python\n")[0]
        wheels = " ".join(filter(None, [os.environ.get("PIP_FIND_LINKS", ""), str(checkout / "wheels")]))
        return subprocess.run(
            ["bash", "-c", f"{script}\ninstall_lock", checkout / "envs" / "bootstrap.sh", "build"],
            env={**os.environ, "PIP_FIND_LINKS": wheels, **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    def installer(self, checkout: Path) -> str:
        (record,) = (checkout / ".venv").glob("lib/python*/site-packages/tmflow_example-1.0.dist-info/INSTALLER")
        return record.read_text(encoding="utf-8").strip()

    def test_uv_installs_from_where_pip_looks(self, checkout: Path) -> None:
        done = self.install(checkout)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert self.installer(checkout) == "uv"

    def test_pip_installs_what_uv_cannot_and_says_so(self, checkout: Path) -> None:
        done = self.install(checkout, UV_PYTHON_PREFERENCE="no such preference")
        assert done.returncode == 0, done.stderr
        assert "uv could not install the dependencies (see above); pip tries" in done.stdout
        assert self.installer(checkout) == "pip"

    def test_another_file_than_the_locked_one_is_refused(self, checkout: Path) -> None:
        with zipfile.ZipFile(checkout / "wheels" / "tmflow_example-1.0-py3-none-any.whl", "a") as archive:
            archive.writestr("tmflow_changed.py", "ANSWER = 0\n")
        done = self.install(checkout)
        assert done.returncode != 0
        assert "tmflow-example" in done.stderr
        assert not list((checkout / ".venv").glob("lib/python*/site-packages/tmflow_*.py"))
