"""The C++ tests, plain and with sanitizers."""

from __future__ import annotations

import cpp
import proof_table
import pytest

from tmflow.base.paths import project_root

# The programs of all tests except those with a separate test here. CTest fails if one is missing.
BESIDE_CORE = ("stress", "transport_tests", "std_pool_tests")
PROGRAMS = ("core_tests", *BESIDE_CORE)
OTHERS = "^(explore|relaxed|tensorflow|hpx_.*)$"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_cpp_tests_pass(builds: cpp.Builds) -> None:
    cpp.run_tests(builds.built("here", *PROGRAMS), "--exclude-regex", OTHERS)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_small_programs_are_explored_as_the_docs_say(builds: cpp.Builds) -> None:
    output = cpp.run_tests(builds.built("here", "explore_tests"), "--tests-regex", "^explore$", "--verbose")
    explored = proof_table.rows(proof_table.programs(output.splitlines()))
    assert explored
    assert explored == [row for row in proof_table.documented_rows() if not proof_table.is_deep(row)]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_regions_over_tensorflow_variables(builds: cpp.Builds) -> None:
    cpp.run_tests(builds.built("here", "tensorflow_tests"), "--tests-regex", "^tensorflow$")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not (project_root() / ".hpx").exists(), reason="HPX is not built (`make hpx`)")
def test_calls_by_hpx(builds: cpp.Builds) -> None:
    cpp.run_tests(builds.built("here", "hpx_transport_tests", "hpx_processes_tests"), "--tests-regex", "^hpx_")


@pytest.mark.slow
@pytest.mark.timeout(2400)  # on a machine that other tests load, 1200 s were too few
def test_every_strategy_is_free_of_races_under_stress(builds: cpp.Builds) -> None:
    built = builds.sanitised("thread", *BESIDE_CORE)
    cpp.run_tests(built, "--exclude-regex", OTHERS.replace("explore", "explore|core"), timeout=1800)


@pytest.mark.deep
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("sanitizer", ["thread", "address"])
def test_cpp_tests_pass_under_a_sanitizer(sanitizer: str, builds: cpp.Builds) -> None:
    cpp.run_tests(builds.sanitised(sanitizer, *PROGRAMS), "--exclude-regex", OTHERS, timeout=1800)


@pytest.mark.deep
@pytest.mark.timeout(1200)
def test_what_is_read_is_ordered_after_its_updates(builds: cpp.Builds) -> None:
    cpp.run_tests(builds.sanitised("thread", "relaxed_tests"), "--tests-regex", "^relaxed$")


@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_larger_programs_are_explored_too(builds: cpp.Builds) -> None:
    cpp.run_tests(
        builds.built("here", "explore_tests"), "--build-config", "deep", "--tests-regex", "^explore_deep$", timeout=1500
    )
