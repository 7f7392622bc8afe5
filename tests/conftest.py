"""What every test may use: the command line as a user calls it, and a checkout of its own for a study."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml

from tmflow.base.paths import project_root
from tmflow.native.loader import library_dir

# An example that starts threads takes as long as the machine lets it; `make test-deep` asks for the second.
hypothesis.settings.register_profile("default", hypothesis.settings(deadline=None))
hypothesis.settings.register_profile("deep", hypothesis.settings(deadline=None, max_examples=1000))

ROOT = project_root()
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The builds of the C++, which take minutes, begin first: at the end one process would be left with them."""
    items.sort(key=lambda item: item.path.name != "test_cpp.py")


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """What the tests start can be interrupted; a shell's background has SIGINT ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def common(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of one call of pytest share, each of which has the fixtures of a session anew."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if hasattr(request.config, "workerinput") else base


@pytest.fixture(scope="session", autouse=True)
def locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The locks of timed work are this process's own: no number that a test looks at is a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMFLOW_LOCK_DIR", str(tmp_path_factory.mktemp("locks")))
        yield


MAIN = sys.modules["__main__"]


@pytest.fixture(autouse=True)
def main_module() -> None:
    """A page that was tested is left as the main module by Streamlit, and a process that is spawned would run it."""
    sys.modules["__main__"] = MAIN


@pytest.fixture(scope="session")
def tmflow() -> Tmflow:
    """Call the command line in a process of its own: `tmflow("train", "--threads", "0", TMFLOW_ROOT=...)`."""

    def call(
        *arguments: str | Path, prefix: tuple[str, ...] = (), **variables: str | Path | None
    ) -> subprocess.CompletedProcess[str]:
        command = [*prefix, sys.executable, "-m", "tmflow", *map(str, arguments)]
        return subprocess.run(
            command, env=environment(**variables), capture_output=True, text=True, check=False, timeout=600
        )

    return call


class Checkout:
    """A checkout with a small config.yaml of its own, which uses the native libraries that are built already."""

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
        """The locks are its own too: a study of somebody else's is no reason for a test to be refused the machine."""
        nowhere = dict.fromkeys(("TMFLOW_RESULTS_DIR", "TMFLOW_DB_URL", "TMFLOW_NATIVE_DIR"))
        return {"TMFLOW_ROOT": self.root, "TMFLOW_LOCK_DIR": self.root, **nowhere}

    def configure(self, config: dict[str, Any]) -> None:
        (self.root / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


@pytest.fixture(scope="session")
def checkout_at() -> type[Checkout]:
    return Checkout
