"""What goes wrong before an executor runs is said in one sentence."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.executors import require_executor
from tmflow import runtime
from tmflow.base.errors import BadInput, Unsupported
from tmflow.native import loader
from tmflow.runtime import executors
from tmflow.runtime.executors import OPTIONAL, SCHEDULERS

tf = pytest.importorskip("tensorflow")


def enter(name: str) -> None:
    with runtime.executor(name):
        pass


@pytest.mark.parametrize("use", [runtime.session_config, runtime.executor_type, enter])
def test_an_unknown_executor(use: Callable[[str], object]) -> None:
    with pytest.raises(BadInput) as refused:
        use("std_pol")
    assert str(refused.value) == (
        "unknown executor 'std_pol' (did you mean 'std_pool'?); "
        "valid: hpx, hpx_dataflow, std_pool, tbb, tensorflow, tf_pool."
    )


def test_the_library_has_the_executors_that_python_knows() -> None:
    assert [name for name in SCHEDULERS if name in runtime.built()] == list(runtime.built())
    assert set(SCHEDULERS) - set(runtime.built()) <= set(OPTIONAL)


def test_what_is_not_built_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "built", lambda: ("tf_pool", "std_pool"))
    with pytest.raises(Unsupported) as refused:
        runtime.session_config("tbb")
    assert str(refused.value) == (
        "executor tbb is not built: it needs oneTBB (Debian: `apt install libtbb-dev`), then run `make build`."
    )


# A new process, because a thread has the settings of the thread that started it.
DENORMAL = """
import sys
import tensorflow as tf
from tmflow import runtime

tf.compat.v1.disable_eager_execution()
with tf.compat.v1.Session(config=runtime.session_config(sys.argv[1])) as session:
    small = tf.compat.v1.placeholder(tf.float32, [4])
    print(session.run(small * small, {small: [1e-20] * 4}).tolist())
"""


@pytest.mark.parametrize("name", SCHEDULERS)
def test_denormal_numbers_are_zero_as_under_tensorflow_s_executor(name: str) -> None:
    require_executor(name)
    done = subprocess.run([sys.executable, "-c", DENORMAL, name], capture_output=True, text=True, check=True)
    assert done.stdout == f"{[0.0] * 4}\n"


def test_counts_are_of_executors_of_the_library() -> None:
    with pytest.raises(BadInput, match="unknown executor 'tensorflow'"):
        runtime.counts("tensorflow")


def test_tensorflow_needs_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMFLOW_NATIVE_DIR", str(tmp_path))
    assert runtime.executor_type("tensorflow") == ""
    with pytest.raises(BadInput, match=r"the native library is not built in .*: run `make build`"):
        runtime.executor_type("std_pool")


def test_another_version_of_tensorflow_is_refused(
    libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(libraries / loader.RUNTIME_LIBRARY, tmp_path)
    monkeypatch.setenv("TMFLOW_NATIVE_DIR", str(tmp_path))
    version = tf.__version__
    monkeypatch.setattr(tf, "__version__", "2.99.0")
    with pytest.raises(BadInput) as refused:
        runtime.session_config("tf_pool")
    assert str(refused.value) == (
        f"the executors and transports were built for TensorFlow {version}, and this is TensorFlow 2.99.0: "
        "run `make build`."
    )
