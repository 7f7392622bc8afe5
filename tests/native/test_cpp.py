"""The C++ tests, plain and under the sanitizers."""

from __future__ import annotations

import sys
from pathlib import Path

import cpp
import proof_table
import pytest


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_cpp_tests_pass(builds: cpp.Builds) -> None:
    cpp.run_tests(builds.built("here"), "--exclude-regex", "^explore$")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_small_programs_are_explored_as_the_docs_say(builds: cpp.Builds) -> None:
    output = cpp.run_tests(builds.built("here", "explore_tests"), "--tests-regex", "^explore$", "--verbose")
    explored = proof_table.rows(proof_table.programs(output.splitlines()))
    assert explored
    assert explored == [row for row in proof_table.documented_rows() if not proof_table.is_deep(row)]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_regions_over_tensorflow_variables(tmp_path: Path) -> None:
    cpp.build(tmp_path, "tensorflow_tests", TMFLOW_BUILD_TENSORFLOW="ON", Python_EXECUTABLE=sys.executable)
    cpp.run_tests(tmp_path, "--tests-regex", "^tensorflow$")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("sanitizer", ["thread", "address"])
def test_cpp_tests_pass_under_a_sanitizer(sanitizer: str, builds: cpp.Builds) -> None:
    cpp.run_tests(builds.sanitised(sanitizer), "--exclude-regex", "^relaxed$")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_what_is_read_is_ordered_after_its_updates(builds: cpp.Builds) -> None:
    cpp.run_tests(builds.sanitised("thread", "relaxed_tests"), "--tests-regex", "^relaxed$")


@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_larger_programs_are_explored_too(builds: cpp.Builds) -> None:
    cpp.run_tests(
        builds.built("here", "explore_tests"), "--build-config", "deep", "--tests-regex", "^explore_deep$", timeout=1500
    )
