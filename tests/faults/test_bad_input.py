"""Wrong input: exit code 2, one sentence with the fault and the allowed values, no traceback, nothing lost."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TINY, Checkout, Tmflow
from tests.support.sample_runs import sample_runs
from tmflow.runfile import record

pytestmark = pytest.mark.slow

# Root can write any file unless this capability is removed.
WITHOUT_ROOT_S_RIGHTS = ("setpriv", "--bounding-set=-dac_override") if os.geteuid() == 0 else ()


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The message of a failing command: one sentence on stderr, exit code 2."""
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("tmflow: ")
    assert lines[0].endswith(".")
    return lines[0]


def _set_revision(path: Path, revision: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _make_newer(path: Path) -> None:
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 2'))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory, checkout_at: type[Checkout]) -> Checkout:
    return checkout_at(tmp_path_factory.mktemp("bad") / "checkout", TINY)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--threads", "0"), "threads is 0, but should be greater than or equal to 1"),
        (("--batch", "-3"), "batch is -3, but should be greater than or equal to 1"),
        (("--matrix", "785"), "matrix is 785, but should be less than or equal to 784"),
        (("--strategy", "lock", "--budget", "5"), "budget belongs to htm, htm_if_fits, not to lock"),
        (("--strategy", "htm", "--budget", "-1"), "budget is -1, but should be greater than or equal to 0"),
        (("--strategy", "htm", "--provider", "tsx"), "provider is 'tsx', but should be 'rtm', 'power' or 'emulated'"),
        (("--iterations", "3", "--threads", "4"), "iterations 3 is fewer than threads 4"),
        (("--strategy", "tf_lok"), "strategy in tmflow train: 'tf_lok' (did you mean 'tf_lock'?); valid: adaptive, "),
        (
            ("--model", "mnist_depe"),
            "model: unknown model 'mnist_depe' (did you mean 'mnist_deep'?); valid: alexnet, googlenet, matrix_",
        ),
        (("--driver", "natve"), "driver is 'natve', but should be 'session', 'native' or 'cluster'"),
        (("--driver", "native", "--step-call", "run"), "step_call run belongs to driver session, not to native"),
        (
            ("--driver", "native", "--model", "mnist_deep"),
            "driver native does not train mnist_deep; it trains matrix_factoris",
        ),
        (("--pinning", "cores"), "pinning cores belongs to driver native; driver session allows none"),
        (
            ("--driver", "cluster", "--threads", "2", "--optimiser", "momentum"),
            "optimiser momentum belongs to drivers native and session; driver cluster allows sgd",
        ),
        (
            ("--driver", "native", "--strategy", "atomic", "--optimiser", "adam"),
            "optimiser adam does not go with strategy atomic, which allows sgd",
        ),
        (("--hidden", "16"), "hidden 16 belongs to model mnist_mlp, mnist_sigmoid, not to mnist_softmax"),
        (("--model", "mnist_mlp", "--hidden", "0"), "hidden is 0, but should be greater than or equal to 1"),
        (("--reading", "careful"), "reading is 'careful', but should be 'plain' or 'consistent'"),
        (("--measures", "all"), "measures is 'all', but should be 'usual' or 'full'"),
        (("--lr", "0"), "learning_rate is 0.0, but should be greater than 0"),
        (("--rounds", "0", "--dataset", "digits"), "rounds is 0, but should be from 1 to 1000"),
        (("--dataset", "mnits"), "unknown dataset 'mnits' (did you mean 'mnist'?); valid: auto, digits, mnist"),
        (("--model", "mnist_deep", "--matrix", "100"), "matrix 100 does not fit mnist_deep"),
    ],
)
def test_train(tmflow_here: Tmflow, arguments: tuple[str, ...], says: str) -> None:
    assert says in sentence(tmflow_here("train", *arguments))


@pytest.mark.parametrize("command", [("plan",), ("status",), ("run",)])
def test_misspelt_config(tmflow: Tmflow, checkout: Checkout, command: tuple[str, ...]) -> None:
    broken: dict[str, Any] = deepcopy(TINY)
    broken["experiments"]["tiny"]["factors"]["strategy"] = "nolok"
    checkout.configure(broken)
    said = sentence(tmflow("study", *command, **checkout.variables))
    assert "config.yaml: experiments.tiny" in said
    assert re.search(r"'nolok' \(did you mean 'nolock'\?\); valid: .*\block, .*tf_lock, tf_nolock", said), said


def test_mnist_asked_for_and_not_to_be_had(tmflow: Tmflow, tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (tmp_path / "mnist" / f"{part}-ubyte").write_bytes(b"\0\0\x08\x01")
    said = sentence(tmflow("train", "--dataset", "mnist", TMFLOW_DATA_DIR=tmp_path))
    assert "train-images-idx3-ubyte" in said
    done = tmflow("doctor", TMFLOW_DATA_DIR=tmp_path)
    assert done.returncode == 1, done.stderr
    assert re.search(r"MISS  MNIST .*train-images-idx3-ubyte is truncated", done.stdout), done.stdout


@pytest.mark.parametrize(
    ("save", "says"),
    [
        (".", "is not a file"),
        ("file/runs.jsonl", "cannot be written: "),
        ("x" * 300, "cannot be written: File name too long"),
    ],
)
def test_train_asks_first_whether_it_can_save(tmflow: Tmflow, tmp_path: Path, save: str, says: str) -> None:
    (tmp_path / "file").touch()
    said = sentence(tmflow("train", "--dataset", "digits", "--iterations", "10", "--save-file", tmp_path / save))
    assert f"--save-file {tmp_path / save} {says}" in said
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_portal_says_where_it_cannot_listen(tmflow: Tmflow) -> None:
    said = sentence(tmflow("portal", "--address", "192.0.2.1"))  # reserved for documentation: no host has it
    assert "cannot listen on --address 192.0.2.1 --port 8501: Cannot assign requested address; give an address" in said
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = sentence(tmflow("portal", "--port", str(port)))
    assert f"--address 127.0.0.1 --port {port}: Address already in use; give an address" in said


def test_a_library_that_does_not_load(tmflow: Tmflow, checkout: Checkout, tmp_path: Path) -> None:
    """Commands that do not need it work; the others name what is missing."""
    (tmp_path / "_core.so").write_bytes(b"built for another machine")
    checkout.configure(TINY)
    variables = {**checkout.variables, "TMFLOW_NATIVE_DIR": tmp_path}
    done = tmflow("doctor", **variables)
    assert done.returncode == 0, done.stderr
    assert re.search(r"MISS  strategy lock +the native library .*_core\.so does not load .* `make build`", done.stdout)
    assert tmflow("study", "plan", **variables).returncode == 0


def test_a_study_asks_first_whether_it_can_write(tmflow: Tmflow, checkout: Checkout) -> None:
    checkout.configure(TINY)
    figures, runs = checkout.results / "figures", checkout.results / "runs"
    figures.touch()
    said = sentence(tmflow("study", "run", **checkout.variables))
    assert said == f"tmflow: {figures} is not a folder, but must be one: move it away."
    figures.unlink()
    runs.mkdir(mode=0o555)
    said = sentence(tmflow("study", "run", prefix=WITHOUT_ROOT_S_RIGHTS, **checkout.variables))
    assert said.startswith(f"tmflow: the folder {runs} cannot be written: ")
    runs.rmdir()


class TestDatabase:
    """Every command that opens a database refuses an unusable one and leaves it unchanged."""

    @pytest.fixture
    def good(self, tmp_path: Path, tmflow_here: Tmflow) -> Path:
        record.write(tmp_path / "runs.jsonl", sample_runs())
        path = tmp_path / "study.db"
        assert tmflow_here("ingest", tmp_path / "runs.jsonl", TMFLOW_DB_URL=f"sqlite:///{path}").returncode == 0
        return path

    @pytest.fixture
    def run_file(self, good: Path) -> Path:
        return good.parent / "runs.jsonl"

    @pytest.mark.parametrize(
        ("spoil", "says"),
        [
            (lambda path: path.write_text("this is no database, " * 100), "is not a SQLite database"),
            (lambda path: _set_revision(path, "f00dfeed"), "f00dfeed"),
        ],
    )
    def test_unusable(
        self, tmflow_here: Tmflow, good: Path, run_file: Path, spoil: Callable[[Path], object], says: str
    ) -> None:
        spoil(good)
        before = good.read_bytes()
        url = f"sqlite:///{good}"
        for command in (("ingest", run_file), ("db", "upgrade")):
            assert says in sentence(tmflow_here(*command, TMFLOW_DB_URL=url))
        assert good.read_bytes() == before

    def test_read_only(self, tmflow: Tmflow, good: Path, run_file: Path) -> None:
        record.write(run_file, sample_runs()[:1])
        good.chmod(0o444)
        good.parent.chmod(0o555)
        try:
            done = tmflow("ingest", run_file, TMFLOW_DB_URL=f"sqlite:///{good}", prefix=WITHOUT_ROOT_S_RIGHTS)
            assert "read-only" in sentence(done)
        finally:
            good.parent.chmod(0o755)

    @pytest.mark.parametrize(
        ("spoil", "says"),
        [
            (lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]), "is cut off in line"),
            (_make_newer, "schema version 2 is newer than 1"),
        ],
    )
    def test_bad_run_file(
        self, tmflow_here: Tmflow, good: Path, run_file: Path, spoil: Callable[[Path], object], says: str
    ) -> None:
        spoil(run_file)
        before = good.read_bytes()
        said = sentence(tmflow_here("ingest", run_file, TMFLOW_DB_URL=f"sqlite:///{good}"))
        assert says in said
        assert run_file.name in said
        assert good.read_bytes() == before


def test_no_compiler(tmflow: Tmflow, checkout: Checkout, tmp_path: Path) -> None:
    shutil.rmtree(checkout.results / "build", ignore_errors=True)
    checkout.configure(TINY)
    for name in ("git", "bash", "sh"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    said = sentence(tmflow("study", "run", PATH=tmp_path, CXX=None, **checkout.variables))
    assert "compiler" in said
    assert "g++" in said
    done = tmflow("doctor", PATH=tmp_path, CXX=None, **checkout.variables)
    assert done.returncode == 1, done.stderr
    assert "MISS  compiler" in done.stdout


def test_no_tensorflow(tmflow: Tmflow, tmp_path: Path, checkout_at: type[Checkout]) -> None:
    """Doctor and the native commands work without TensorFlow; the others say that they need it."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.metadata as m, importlib.util as u, sys\n"
        "find, version = u.find_spec, m.version\n"
        "def absent(name, *a):\n    return None if name.split('.')[0] == 'tensorflow' else find(name, *a)\n"
        "def unknown(name):\n"
        "    if name.startswith('tensorflow'): raise m.PackageNotFoundError(name)\n"
        "    return version(name)\n"
        "u.find_spec, m.version = absent, unknown\n"
        "sys.modules['tensorflow'] = None\n"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = tmflow("doctor", PYTHONPATH=path)
    assert done.returncode == 1, done.stderr
    assert "session driver cannot run" in done.stdout
    study = checkout_at(tmp_path / "checkout", TINY)
    said = sentence(tmflow("study", "run", PYTHONPATH=path, **study.variables))
    assert "TensorFlow is not installed, and the session driver needs it (tiny)" in said
    native = deepcopy(TINY)
    native["defaults"] |= {"driver": "native", "strategy": ["lock", "nolock"]}
    study.configure(native)
    done = tmflow("study", "run", PYTHONPATH=path, **study.variables)
    assert done.returncode == 0, done.stderr
    assert "8 of 8 trials ok" in done.stdout
    done = tmflow("train", "--dataset", "digits", "--iterations", "10", "--batch", "5", PYTHONPATH=path)
    assert done.returncode == 1
    assert "unsupported" in done.stdout
    assert "TensorFlow" in done.stdout
