"""Elision by glibc: only if reading back a mutex confirms it, with the tunables in force in the loader."""

from __future__ import annotations

import re

import pytest
from own_process import call

from tmflow.base.errors import Unsupported
from tmflow.base.processes import Worker
from tmflow.native import availability, registry
from tmflow.spec.process_env import elision_tunables, process_environment

SETTINGS = ["default", "custom"]


@pytest.fixture(autouse=True)
def can_run() -> None:
    if reason := registry.require("tle").why_not:
        pytest.skip(reason)


@pytest.mark.parametrize("tunables", SETTINGS)
def test_the_state_is_read_back(tunables: str) -> None:
    found = call("state", "tle", {"tunables": tunables})
    assert found["why_not"] is None
    assert elision_tunables(tunables).items() <= found["tunables"].items()


@pytest.mark.parametrize("tunables", SETTINGS)
def test_one_thread_is_the_plain_loop_and_four_lose_nothing(tunables: str) -> None:
    assert call("one_thread", "tle", {"tunables": tunables})["same"]
    report = call("four_threads", "tle", {"tunables": tunables})
    for audit in report["audits"]:
        assert (audit["lost"], audit["doubled"], audit["corrupt_elements"]) == (0, 0, 0)
    assert report["values"] == [400]
    for row in report["counters"]:
        assert row["commits"] + row["fallbacks"] == 100
        assert row["attempts"] is None, "glibc does not tell them"
        assert row["aborts"] == {}


@pytest.mark.parametrize(
    ("setting", "environment", "says"),
    [
        ("default", {}, "process elides none"),
        ("default", {"glibc.elision.enable": 2}, "process elides none"),
        ("default", {**elision_tunables("default"), "glibc.cpu.hwcaps": "-RTM"}, "process elides none"),
        ("default", {"glibc.elision.enabled": 1}, "process elides none"),
        ("default", elision_tunables("custom"), "the tunable glibc.elision.skip_lock_busy is 0 in this process, not 3"),
        (
            "custom",
            {**elision_tunables("custom"), "glibc.elision.skip_lock_busy": -1},
            "the tunable glibc.elision.skip_lock_busy is 3 in this process, not 0",
        ),
        (
            "custom",
            {**elision_tunables("custom"), "glibc.elision.tries": "five"},
            "the tunable glibc.elision.tries is [03] in this process, not 5",  # no number: read as 0, or ignored
        ),
    ],
)
def test_a_tunable_that_glibc_ignores_is_never_taken_for_elision(
    setting: str, environment: dict[str, object], says: str
) -> None:
    assigned = ":".join(f"{name}={value}" for name, value in environment.items())
    found = call("state", "tle", {"tunables": setting}, {"GLIBC_TUNABLES": assigned})
    assert re.search(says, found["why_not"]), found


def test_what_a_process_sets_later_changes_nothing() -> None:
    found = call("state_after_setting_variables", "tle", {}, environment={})
    assert "process elides none" in found["why_not"]
    other = process_environment("tle", {"tunables": "custom"})
    found = call("state_after_setting_variables", "tle", {"tunables": "default"}, environment=other)
    assert "the tunable glibc.elision.skip_lock_busy is 0 in this process, not 3" in found["why_not"]


@pytest.mark.parametrize("strategy", ["lock", "lock_pthread", "htm", "stm"])
def test_where_mutexes_are_elided_nothing_else_runs_under_its_own_name(strategy: str) -> None:
    found = call("state", strategy, {}, process_environment("tle", {}))
    assert "glibc elides every mutex of this process" in found["why_not"]


def test_nor_does_the_benchmark_s_own_mutex() -> None:
    request = {"strategy": "mutex_loop", "parameters": [], "values": {}}
    for environment, says in (({}, None), (process_environment("tle", {}), "glibc elides every mutex")):
        worker = Worker(environment)
        try:
            why_not = worker.ask(request, 60)["why_not"]
        finally:
            worker.close()
        assert why_not == says or says in why_not


def test_this_process_is_none() -> None:
    with pytest.raises(Unsupported, match="strategy 'tle' cannot run here: tle needs a process whose mutexes glibc"):
        availability.require(registry.resolve("tle"))
    availability.require(registry.resolve("lock"))


@pytest.mark.slow
@pytest.mark.parametrize("tunables", SETTINGS)
def test_operations_on_both_kinds_of_variables(tunables: str) -> None:
    report = call("session", "tle", {"tunables": tunables})
    assert set(report) == {"ref float32", "ref float64", "resource float32", "resource float64"}
    for found in report.values():
        assert found["values"] == [100]
        assert found["aborts"] == []
        for row in found["counters"]:
            assert row["attempts"] is None
            assert row["commits"] + row["fallbacks"] == 50
