"""Build the copy and run the tests that must fail because of a mutation."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import psutil
import pytest

from tests.mutants.mutation import CPP_FOLDER, Catcher, Mutation
from tests.mutants.working_copy import WorkingCopy

BIN = Path(sys.prefix) / "bin"
NATIVE, NATIVE_TESTS = "TMFLOW_NATIVE_DIR", "tests/native/"
BUILD_LIBRARIES = """
import sys
from tmflow.native.build import build
from tmflow.native.loader import library_dir
build(library_dir().parent / "cmake", library_dir(), sys.stdout)
"""


class End(Enum):
    """How the build and the tests ended."""

    PASSED = "passed"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    CRASHED = "crashed"  # a signal ended the process of the tests
    SKIPPED = "skipped"  # all tests that ran did
    NOT_BUILT = "does not compile"
    NOT_RUN = "did not run"  # no such test, or none could be loaded


@dataclass(frozen=True)
class Outcome:
    end: End
    seconds: float = 0
    output: str = ""
    code: int = 0


class Catching:
    """Runs tests in a working copy. `libraries` is the folder of the native libraries of the checkout."""

    def __init__(self, copy: WorkingCopy, libraries: Path) -> None:
        self._copy = copy
        self._libraries = libraries
        self._build = copy.folder / "cpp"
        self._report = copy.folder / "pytest.xml"
        self._variables = _environment(copy)

    def outcome(self, mutation: Mutation, timeout: float | None = None) -> Outcome:
        """The outcome of the mutation's tests in the current copy."""
        if not mutation.is_cpp:
            problem = self._problem_of_python(self._copy.tree / mutation.file)
            return Outcome(End.NOT_BUILT, 0, problem) if problem else self._pytest(mutation, timeout)
        if mutation.caught_by.ctest is not None:
            return self._ctest(mutation.caught_by, timeout)
        built = self._called([sys.executable, "-c", BUILD_LIBRARIES], None)
        return self._pytest(mutation, timeout) if built.end is End.PASSED else Outcome(End.NOT_BUILT, 0, built.output)

    @staticmethod
    def _problem_of_python(file: Path) -> str:
        if file.suffix == ".py":
            try:
                compile(file.read_bytes(), file, "exec")
            except SyntaxError as error:
                return str(error)
        return ""

    def _pytest(self, mutation: Mutation, timeout: float | None) -> Outcome:
        self._report.unlink(missing_ok=True)
        options = ["-q", "-x", "-p", "no:cacheprovider", f"--junitxml={self._report}"]
        tests = mutation.caught_by.pytest or []
        # The tests of the native code build their libraries; the others can use those of the checkout.
        lent = {} if mutation.is_cpp or any(NATIVE_TESTS in test for test in tests) else {NATIVE: str(self._libraries)}
        outcome = self._called([sys.executable, "-m", "pytest", *options, *tests], timeout, **lent)
        if outcome.end is End.FAILED and outcome.code < 0:
            return replace(outcome, end=End.CRASHED)
        if outcome.end is End.FAILED and outcome.code != pytest.ExitCode.TESTS_FAILED:
            return replace(outcome, end=End.NOT_RUN)
        if outcome.end is End.PASSED and self._all_skipped():
            return replace(outcome, end=End.SKIPPED)
        return outcome

    def _all_skipped(self) -> bool:
        return all(case.find("skipped") is not None for case in ET.parse(self._report).iter("testcase"))

    def _ctest(self, catcher: Catcher, timeout: float | None) -> Outcome:
        assert catcher.target is not None
        assert catcher.ctest is not None
        built = self._built(catcher.target)
        if built.end is not End.PASSED:
            return Outcome(End.NOT_BUILT, 0, built.output)
        ctest: list[str | Path] = [BIN / "ctest", "--test-dir", self._build, "--build-config", "deep"]
        listed = subprocess.run([*ctest, "--show-only=json-v1"], check=True, capture_output=True, text=True)
        tests = [test for test in json.loads(listed.stdout)["tests"] if "command" in test]
        of_target = [test for test in tests if any(Path(word).name == catcher.target for word in test["command"])]
        if any(re.fullmatch(catcher.ctest, test["name"]) for test in of_target):
            only = ["--output-on-failure", "--tests-regex", f"^({catcher.ctest})$"]
            return self._called([*ctest, *only], timeout)
        programs = {word for test in of_target for word in test["command"] if Path(word).name == catcher.target}
        if len(programs) != 1:
            return Outcome(End.NOT_RUN, 0, f"no test of CTest runs {catcher.target}")
        return self._googletest(programs.pop(), catcher.ctest, timeout)

    def _googletest(self, program: str, pattern: str, timeout: float | None) -> Outcome:
        listed = subprocess.run([program, "--gtest_list_tests"], check=True, capture_output=True, text=True).stdout
        names = [name for name in googletests(listed) if re.fullmatch(pattern, name)]
        if not names:
            return Outcome(End.NOT_RUN, 0, f"{program} has no test {pattern}")
        command = [program, f"--gtest_filter={':'.join(names)}", "--gtest_also_run_disabled_tests"]
        outcome = self._called(command, timeout)
        if outcome.end is End.PASSED and "[  PASSED  ] 0 tests." in outcome.output:
            return replace(outcome, end=End.SKIPPED)
        return outcome

    def _built(self, target: str) -> Outcome:
        on = ("TMFLOW_BUILD_TESTS=ON", "TMFLOW_BUILD_PYTHON=OFF", "TMFLOW_BUILD_TENSORFLOW=OFF")
        options = [f"-D{option}" for option in (*on, f"CMAKE_MAKE_PROGRAM={BIN / 'ninja'}")]
        source = self._copy.tree / CPP_FOLDER
        configured = self._called([BIN / "cmake", "-S", source, "-B", self._build, "-G", "Ninja", *options], None)
        if configured.end is not End.PASSED:
            return configured
        return self._called([BIN / "cmake", "--build", self._build, "--target", target], None)

    def _called(self, command: Sequence[str | Path], timeout: float | None, **variables: str) -> Outcome:
        """Run a command in the copy and return how it ended. On an early exit, all processes that it started are
        killed.
        """
        start = time.monotonic()
        with subprocess.Popen(
            command,
            cwd=self._copy.tree,
            env={**self._variables, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                return Outcome(End.TIMED_OUT, time.monotonic() - start)
            finally:
                if process.poll() is None:
                    _kill(process)
        end = End.FAILED if process.returncode else End.PASSED
        return Outcome(end, time.monotonic() - start, output, process.returncode)


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill a process and all that it has started, in any process group: ninja gives each compiler a separate one."""
    started = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    for child in started:
        with suppress(psutil.NoSuchProcess):
            child.kill()


def _environment(copy: WorkingCopy) -> dict[str, str]:
    """This process's environment, except that the copy is the checkout and no bytecode of old content remains."""
    own = ("TMFLOW_ROOT", "TMFLOW_RESULTS_DIR", "TMFLOW_DB_URL", "TMFLOW_NATIVE_DIR")
    variables = {name: value for name, value in os.environ.items() if name not in own}
    variables["PYTHONPATH"] = os.pathsep.join([str(copy.tree / "src"), str(copy.tree)])
    variables["PYTHONDONTWRITEBYTECODE"] = "1"
    variables.setdefault("TMFLOW_DATA_DIR", str(copy.root / "data"))
    if shutil.which("ccache"):
        variables.setdefault("CMAKE_CXX_COMPILER_LAUNCHER", "ccache")
    return variables


def googletests(listed: str) -> list[str]:
    """The full names of the tests that `--gtest_list_tests` lists."""
    suite, names = "", []
    for line in listed.splitlines():
        name = line.partition("#")[0].rstrip()
        if name.startswith("  "):
            names.append(suite + name.strip())
        elif name.endswith("."):
            suite = name
    return names
