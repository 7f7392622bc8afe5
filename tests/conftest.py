"""Fixtures for all tests: the command line as a user calls it, and separate checkouts for studies."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import pytest_timeout
import yaml

from tmflow import cli
from tmflow.base.paths import project_root
from tmflow.native.loader import library_dir
from tmflow.runtime import HPX_ADDRESS

# Examples that start threads have no deadline; `make test-deep` uses the second profile.
hypothesis.settings.register_profile("default", hypothesis.settings(deadline=None))
hypothesis.settings.register_profile("deep", hypothesis.settings(deadline=None, max_examples=1000))

# A process has one HPX. That of the tests may start with an executor, and its transport needs it with a network.
os.environ.setdefault(HPX_ADDRESS, "127.0.0.1")

ROOT = project_root()
# Tests that start processes, servers and browsers, and wait for them.
OF_PROCESSES = ("faults", "portal", "training", "workflow")
# A second run, once what disturbed the first one may be over. Not after a timeout: what hangs, hangs again.
AGAIN = pytest.mark.flaky(reruns=1, reruns_delay=20, rerun_except=re.escape("Failed: Timeout (>"))
FOREIGN = re.compile(r"[\[-](ppc64le|aarch64)[\]-]")  # in the name of a test
COPIED = ("Snakefile", "workflow", "profiles", "envs", "native_ops", "pyproject.toml")

TINY: dict[str, Any] = {
    "dataset": "digits",
    "seed": 7,
    "rounds": 2,
    "quick": {"rounds": 1},
    "defaults": {"learning_rate": 0.5, "strategy": ["tf_lock", "nolock"], "threads": [1, 2], "test_images": 50},
    "experiments": {
        "tiny": {"question": "Does it run?", "factors": {"model": "mnist_softmax", "batch": 5, "iterations": 40}}
    },
}

Tmflow = Callable[..., subprocess.CompletedProcess[str]]


def environment(**changes: str | Path | None) -> dict[str, str]:
    """This process's environment with variables set, or removed where None."""
    merged = {**os.environ, "PYTHONUNBUFFERED": "1"}
    for name, value in changes.items():
        merged.pop(name, None)
        if value is not None:
            merged[name] = str(value)
    return merged


def pytest_addoption(parser: pytest.Parser) -> None:
    what = "run every Nth of the selected tests, from the Kth"
    parser.addoption("--share", metavar="K/N", type=read_share, default="1/1", help=what)


def of_share(items: list[Any], share: tuple[int, int]) -> list[Any]:
    """The items that belong to a share; the shares of one number together have each item once.

    All tests of a foreign machine are in one share, because the build for it takes longer than they do.
    """
    which, shares = share
    machines = [FOREIGN.search(str(getattr(item, "name", item))) for item in items]
    chosen = [item for item, machine in zip(items, machines, strict=True) if machine is None][which - 1 :: shares]
    for number, name in enumerate(("ppc64le", "aarch64")):
        if number % shares == which - 1:
            chosen += [item for item, machine in zip(items, machines, strict=True) if machine and machine[1] == name]
    return chosen


def read_share(text: str) -> tuple[int, int]:
    """The two numbers of a share of the tests, such as "1/3". Raises ArgumentTypeError if it is none."""
    match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if match is None or int(match[1]) > int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no share: give one from 1/3 to 3/3, for example")
    return int(match[1]), int(match[2])


@pytest.hookimpl(trylast=True)  # after -m and -k have selected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose a share, and run slow tests first, so that short ones are last; the tests of a module stay together.

    A test of several processes gets a second run if it fails, and is listed: on two processors that other tests use,
    too, one in thousands fails by chance. The tests of the compiled core get none: they look for rare faults.
    """
    share = config.getoption("--share")
    chosen = {id(item) for item in of_share(items, share)}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in chosen])
    items[:] = of_share(items, share)
    for item in items:
        if item.path.relative_to(ROOT / "tests").parts[0] in OF_PROCESSES:
            item.add_marker(AGAIN)
    slow = {item.path for item in items if any(item.get_closest_marker(name) for name in ("slow", "deep"))}
    items.sort(key=lambda item: (item.path.name != "test_cpp.py", item.path not in slow))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give a second run its own time limit: pytest-timeout has one for all runs together, and a failure ends that."""
    if getattr(item, "execution_count", 1) > 1:
        settings = pytest_timeout._get_item_settings(item)
        if settings.timeout:
            item.config.hook.pytest_timeout_set_timer(item=item, settings=settings)


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Make child processes interruptible: background jobs of a shell ignore SIGINT, and children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def common(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder shared by all processes of one call of pytest, each of which has separate session fixtures."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if hasattr(request.config, "workerinput") else base


@pytest.fixture(scope="session", autouse=True)
def locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Separate locks of timed work for this process: no test examines a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMFLOW_LOCK_DIR", str(tmp_path_factory.mktemp("locks")))
        yield


MAIN = sys.modules["__main__"]


@pytest.fixture(autouse=True)
def main_module() -> None:
    """Streamlit leaves a tested page as the main module, which a spawned process would run."""
    sys.modules["__main__"] = MAIN


@pytest.fixture(scope="session")
def tmflow() -> Tmflow:
    """Call the command line in a separate process: `tmflow("train", "--threads", "0", TMFLOW_ROOT=...)`."""

    def call(
        *arguments: str | Path,
        prefix: tuple[str, ...] = (),
        python: str | Path = sys.executable,
        **variables: str | Path | None,
    ) -> subprocess.CompletedProcess[str]:
        command = [*prefix, str(python), "-m", "tmflow", *map(str, arguments)]
        return subprocess.run(
            command, env=environment(**variables), capture_output=True, text=True, check=False, timeout=600
        )

    return call


@pytest.fixture
def tmflow_here(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Tmflow:
    """The same in this process, without the two seconds of a start, for commands that end in this process."""

    def call(*arguments: str | Path, **variables: str | Path | None) -> subprocess.CompletedProcess[str]:
        assert not {"prefix", "python"} & set(variables), "these start a process: use the fixture tmflow"
        words = ["tmflow", *map(str, arguments)]
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        capfd.readouterr()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", words)
            for name, value in variables.items():
                if value is None:
                    patch.delenv(name, raising=False)
                else:
                    patch.setenv(name, str(value))
            try:
                with pytest.raises(SystemExit) as ended:
                    cli.main()
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)
        return subprocess.CompletedProcess(words, int(ended.value.code or 0), *capfd.readouterr())

    return call


class Checkout:
    """A checkout with a small config.yaml, which uses the native libraries that are already built."""

    def __init__(self, root: Path, config: dict[str, Any]) -> None:
        self.root = root
        root.mkdir()
        for name in COPIED:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy2)(source, root / name)
        shutil.copytree(ROOT / "data", root / "data", ignore=shutil.ignore_patterns("mnist"))
        shutil.copytree(library_dir().parent, root / "results" / "build", ignore=shutil.ignore_patterns("cmake"))
        (root / "results" / "build" / "variants.json").touch()
        self.configure(config)

    @property
    def results(self) -> Path:
        return self.root / "results"

    @property
    def variables(self) -> dict[str, Path | None]:
        """The locks are separate, too, so that another study does not block the tests."""
        nowhere = dict.fromkeys(("TMFLOW_RESULTS_DIR", "TMFLOW_DB_URL", "TMFLOW_NATIVE_DIR"))
        return {"TMFLOW_ROOT": self.root, "TMFLOW_LOCK_DIR": self.root, **nowhere}

    @property
    def python(self) -> Path:
        """This environment's Python by a path in the checkout, and next to it a `tmflow` that it runs.

        Builds use it, so that for ccache all paths are those of the checkout under test.
        """
        this, own = Path(sys.prefix), self.root / ".venv"
        if not own.exists():
            (own / "bin").mkdir(parents=True)
            shutil.copy(this / "pyvenv.cfg", own)
            (own / "lib").symlink_to(this / "lib")
            for tool in (this / "bin").iterdir():
                (own / "bin" / tool.name).symlink_to(tool)
            (own / "bin" / "tmflow").unlink()
            script = (this / "bin" / "tmflow").read_text().replace(str(this), str(own))
            (own / "bin" / "tmflow").write_text(script)
            (own / "bin" / "tmflow").chmod(0o755)
        return own / "bin" / "python"

    def configure(self, config: dict[str, Any]) -> None:
        (self.root / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


@pytest.fixture(scope="session")
def checkout_at() -> type[Checkout]:
    return Checkout
