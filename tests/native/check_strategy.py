"""Run the tests of one strategy: `make check-strategy S=name`."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native import cpp
from tmflow.base.paths import project_root

STRATEGIES = project_root() / "native_ops" / "cmake" / "strategies.cmake"
UNKNOWN_TO_SANITIZERS = ("itm", "tle")  # the sanitizers know neither libitm nor the elision of glibc
OF_EVERY_STRATEGY = "Registry.*:Reading.*"  # fast tests that cover all strategies
# Programs of the explorer whose name differs from the strategy's: the gate of adaptive; OwnMutex with another mutex.
EXPLORED_AS = {"Adaptive": "Gate", "LockPthread": "Spin", "NoLock": "Nolock"}
NOT_EXPLORED = ("itm", "tle")  # third-party libraries, whose steps the explorer cannot see


def main(arguments: list[str]) -> int:
    listed = re.findall(r"^tmflow_add_strategy\((\w+) (\w+)\)$", STRATEGIES.read_text(encoding="utf-8"), re.MULTILINE)
    structs, name = dict(listed), parse(arguments)
    if name not in structs:
        print(f"tmflow: S is '{name}', and must be a strategy: {', '.join(structs)}.", file=sys.stderr)
        return 2
    failed = [step for step, command in cpp_steps(name, structs[name]).items() if not passes(step, command)]
    print("\n== tests in Python", flush=True)
    if pytest.main(["-q", str(Path(__file__).parent)], plugins=[Only(name)]) != pytest.ExitCode.OK:
        failed.append("tests in Python")
    print(f"\n{name}: {'failed: ' + ', '.join(failed) if failed else 'all tests pass'}.")
    return 1 if failed else 0


def parse(arguments: list[str]) -> str:
    """The strategy on the command line; empty if none."""
    parser = argparse.ArgumentParser(prog="python -m tests.native.check_strategy", description=__doc__)
    parser.add_argument("strategy", nargs="?", default="", help="its name, as in `tmflow doctor`")
    return str(parser.parse_args(arguments).strategy)


def cpp_steps(name: str, struct: str) -> dict[str, list[str | Path]]:
    """Build the C++ tests of the strategy; return the command of each step, by title."""
    builds = cpp.Builds()
    stress = ["--output-on-failure", "--no-tests=error", "--tests-regex", f"^stress_{name}(_.*=|$)"]
    print(f"== building the tests in {cpp.BUILDS}", flush=True)
    plain = builds.built("here", "core_tests", "stress", "explore_tests")
    steps: dict[str, list[str | Path]] = {
        "unit tests": [plain / "tests" / "core_tests", f"--gtest_filter=*{struct}*:{OF_EVERY_STRATEGY}"],
        "stress": [cpp.BIN / "ctest", "--test-dir", plain, *stress],
    }
    if name not in NOT_EXPLORED:
        explore = [
            plain / "tests" / "explore" / "explore_tests",
            f"--gtest_filter=*{EXPLORED_AS.get(struct, struct)}*:-Deep*",
        ]
        require_tests(explore)
        steps["every schedule of small programs"] = explore
    for sanitizer in ("address", "thread") if name not in UNKNOWN_TO_SANITIZERS else ():
        sanitised = builds.sanitised(sanitizer, "stress")
        steps[f"stress under the {sanitizer} sanitizer"] = [cpp.BIN / "ctest", "--test-dir", sanitised, *stress]
    return steps


def require_tests(command: list[str | Path]) -> None:
    """Raise RuntimeError if the filter of a GoogleTest program selects no test, because an empty run proves nothing."""
    listed = subprocess.run([*command, "--gtest_list_tests"], check=True, capture_output=True, text=True)
    if not any(line.startswith("  ") for line in listed.stdout.splitlines()):
        raise RuntimeError(f"{Path(command[0]).name} has no test for {command[1]}")


def passes(step: str, command: list[str | Path]) -> bool:
    print(f"\n== {step}", flush=True)
    return subprocess.run(command, check=False).returncode == 0


class Only:
    """A pytest plugin that keeps only tests with the strategy as a parameter."""

    def __init__(self, strategy: str) -> None:
        self._strategy = strategy

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        kept = [item for item in items if self._concerns(item)]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept

    def _concerns(self, item: pytest.Item) -> bool:
        callspec = getattr(item, "callspec", None)
        values = callspec.params.values() if callspec else ()
        names = [value if isinstance(value, str) else getattr(value, "strategy", None) for value in values]
        return self._strategy in names


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
