"""The probe, on this machine and on emulated ones: complete documents, from the command line and from Python."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path

import pytest

from tests.conftest import Tmflow
from tmflow.native import loader, registry
from tmflow.platform.facts import platform_facts, platform_sha256
from tmflow.platform.profiles import load_profile
from tmflow.probe import document


@pytest.fixture(scope="module")
def here() -> document.Probe:
    """The probe of this machine, while Python continues."""
    done: list[document.Probe] = []
    probing = threading.Thread(target=lambda: done.append(document.probe(10)))
    probing.start()
    meanwhile = 0
    while probing.is_alive():
        meanwhile += 1
    assert meanwhile > 10_000, "the interpreter lock was held"
    return done[0]


def test_this_machine_is_probed(here: document.Probe) -> None:
    assert here.evidence == "measured"
    assert here.platform_sha256 == platform_sha256(platform_facts())
    assert here.seconds > 0
    assert here.machine.processors == len(os.sched_getaffinity(0))


def test_a_larger_update_takes_longer_but_less_for_each_element(here: document.Probe) -> None:
    assert here.limits.update_ns is not None
    assert [row.elements for row in here.limits.update_ns] == [10, 1280, 7850, 100_352, 3_211_264]
    times = [row.ns for row in here.limits.update_ns]
    assert times == sorted(times)
    assert times[0] < 100  # a call and a few additions
    assert times[0] / 10 > times[1] / 1280


def test_what_moves_memory_is_within_what_machines_do(here: document.Probe) -> None:
    assert here.machine.memory_bandwidth is not None
    assert here.machine.lock_handoff is not None
    # Other programs may make anything slower, by any factor.
    assert all(0 < row.read_gb_per_s < 10_000 for row in here.machine.memory_bandwidth.rows)
    for lock in (here.machine.lock_handoff.mutex, here.machine.lock_handoff.spin):
        assert lock.alone_ns > 1
        assert lock.handoff_ns is None or lock.handoff_ns > lock.alone_ns
    if here.machine.line_transfer is not None:
        assert all(pair.ns > 1 for pair in here.machine.line_transfer.pairs)


def test_transactions_are_found_as_the_trial_finds_them(here: document.Probe) -> None:
    tm, found = registry.tm_probe(), here.transactions
    assert tm is not None
    assert found.reported == tm["reported"]
    assert found.commits == (tm["committed"] > 0)
    if not found.commits:
        assert found.capacity is None
        assert found.why["capacity"]
        return
    assert found.capacity is not None
    assert found.conflicts is not None
    assert found.costs is not None
    if found.provider == "rtm":  # written lines must stay in the first-level cache
        facts, capacity = platform_facts(), found.capacity
        assert capacity.line_bytes == facts["cacheline_bytes"]
        assert capacity.sets == facts["l1d_bytes"] // facts["l1d_ways"] // facts["cacheline_bytes"]
        assert capacity.ways is not None
        assert abs(capacity.ways - facts["l1d_ways"]) <= 1
    if found.conflicts.pairs:
        assert found.conflicts.readers_abort_writers
        assert not found.conflicts.readers_abort_readers
    assert found.costs.empty_ns is not None
    assert 1 < found.costs.empty_ns < 1000


@pytest.fixture
def probe(tmflow: Tmflow) -> Tmflow:
    """`tmflow probe` with the library built here, wherever its results go."""
    built = loader.library_dir()

    def call(*arguments: str | Path, **variables: str | Path | None) -> subprocess.CompletedProcess[str]:
        return tmflow("probe", *arguments, TMFLOW_NATIVE_DIR=built, **variables)

    return call


def test_an_emulated_machine_is_probed_in_its_place(probe: Tmflow, tmp_path: Path) -> None:
    done = probe("--emulate", "ibm-power8-s822", "--seconds", "8", "--json", TMFLOW_RESULTS_DIR=tmp_path)
    assert done.returncode == 0, done.stderr
    found = document.parse(done.stdout, "the output")
    assert (found.evidence, found.emulates) == ("emulated", load_profile("ibm-power8-s822").machine_text())
    assert found.platform_sha256 is None
    assert found.transactions.capacity is not None
    assert (found.transactions.capacity.shape, found.transactions.capacity.ways) == ("entries", 64)
    assert found.transactions.costs is None
    assert found.limits.update_ns is None
    assert not (tmp_path / "probe.json").exists(), "it says nothing about this machine"


def test_it_is_kept_and_makes_a_profile(probe: Tmflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Snakefile").touch()
    (tmp_path / "data" / "platforms").mkdir(parents=True)
    monkeypatch.setenv("TMFLOW_ROOT", str(tmp_path))
    results = tmp_path / "results"
    done = probe("--seconds", "10", "--profile", "this-machine", TMFLOW_RESULTS_DIR=results)
    found = document.parse((results / "probe.json").read_text(), "probe.json")
    assert json.loads((results / "probe.json").read_text()) == found.as_dict()
    if not found.transactions.commits:
        assert done.returncode == 2
        assert "no profile can be made of this machine: its capacity is not known" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    profile = load_profile("this-machine")
    assert profile.provider == found.transactions.provider
    again = probe("--profile", "this-machine", TMFLOW_RESULTS_DIR=results)
    assert again.returncode == 2
    assert "data/platforms/this-machine.yaml exists" in again.stderr
