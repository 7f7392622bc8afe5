"""HPX in the process of TensorFlow: its settings, and a process that has an HPX already."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cpp
import pytest

from tests.conftest import environment
from tmflow import runtime
from tmflow.base.paths import project_root

pytest.importorskip("tensorflow")

pytestmark = pytest.mark.skipif("hpx" not in runtime.built(), reason="it is built without HPX (`make hpx`)")

STEP = """
import ctypes
import sys
import tensorflow as tf
from tmflow import runtime

if len(sys.argv) > 2:
    assert ctypes.CDLL(sys.argv[2]).start_another_hpx()
tf.compat.v1.disable_eager_execution()
with tf.compat.v1.Session(config=runtime.session_config(sys.argv[1])) as session:
    try:
        print(session.run(tf.compat.v1.placeholder_with_default(2, []) + 3))
    except tf.errors.FailedPreconditionError as error:
        print(error.message.splitlines()[-1])  # after "Graph execution error:"
"""

ANOTHER = """
#include <hpx/hpx_start.hpp>

extern "C" bool start_another_hpx() {
  static char name[] = "another";
  static char* arguments[] = {name, nullptr};
  hpx::init_params parameters;
  parameters.cfg = {"hpx.os_threads!=1", "hpx.handle_signals!=0", "hpx.bind!=none"};
  return hpx::start(nullptr, 1, arguments, parameters);
}
"""

CMAKE = """
cmake_minimum_required(VERSION 3.25)
project(another CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(HPX REQUIRED PATHS "{installed}")
add_library(another MODULE another.cc)
target_link_libraries(another PRIVATE HPX::hpx)
"""


def step(*arguments: str | Path, **variables: str) -> str:
    """What a process prints that runs a step under an executor, after it has started the HPX of another library."""
    command = [sys.executable, "-c", STEP, *arguments]
    done = subprocess.run(
        command, env=environment(**variables), capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.rstrip("\n")


@pytest.mark.parametrize("executor", ["hpx", "hpx_dataflow"])
@pytest.mark.parametrize("stack", ["nostack", "small", "huge"])
def test_a_step_with_each_stack(executor: str, stack: str) -> None:
    assert step(executor, TMFLOW_HPX_STACK=stack) == "5"


def test_a_stack_that_does_not_exist() -> None:
    said = step("hpx", TMFLOW_HPX_STACK="hug")
    assert said == "TMFLOW_HPX_STACK is 'hug'; valid: nostack, small, medium, large, huge"


def test_settings_reach_hpx() -> None:
    """A scheduler that HPX does not have makes its start fail; two settings are two."""
    said = step("hpx", TMFLOW_HPX_SETTINGS="hpx.max_idle_loop_count!=5;hpx.scheduler!=nowhere")
    assert said == "HPX did not start"


@pytest.mark.deep  # compiling HPX's headers takes half a minute
def test_the_hpx_of_another_library(tmp_path: Path) -> None:
    (tmp_path / "another.cc").write_text(ANOTHER)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE.format(installed=project_root() / ".hpx"))
    options = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={cpp.BIN / 'ninja'}", "-DCMAKE_BUILD_TYPE=Release"]
    cpp.called(cpp.BIN / "cmake", "-S", tmp_path, "-B", tmp_path / "build", *options)
    cpp.called(cpp.BIN / "cmake", "--build", tmp_path / "build")
    said = step("hpx", tmp_path / "build/libanother.so")
    assert said == "this process has an HPX runtime of another library, and HPX permits one"
