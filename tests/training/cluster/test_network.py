"""A cluster over a network that is slow, loses frames, or is cut: a server on one host, two workers on another."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support import two_hosts
from tests.support.cluster_tasks import Begin, ended, tasks, wait_for
from tests.support.two_hosts import HOSTS, Network, network
from tmflow.platform.facts import display_name, platform_sha256
from tmflow.runfile import record
from tmflow.runfile.record import Run
from tmflow.training.cluster.addresses import Addresses

pytestmark = pytest.mark.slow
ADDRESSES = Addresses(ps=[f"{HOSTS[0]}:2222"], worker=[f"{HOSTS[1]}:2222", f"{HOSTS[1]}:2223"])
DELAY_S = 0.02
JOURNEYS = 4  # of a step: its begin, the variables, the gradients, its end
ANSWER_S, MOST_S = 10, 40  # the limit of the tasks, and of the test: questions, last words and ends take time as well


@pytest.fixture(scope="module", autouse=True)
def hosts() -> None:
    if reason := two_hosts.why_not():
        pytest.skip(reason)


def trained(begin: Begin, link: Network, file: Path) -> Run:
    """The run of three tasks that all end well."""
    options = ("--measures", "full")
    server = begin("ps", 0, inside=link.inside(0))
    chief = begin("worker", 0, *options, "--save-file", str(file), inside=link.inside(1))
    second = begin("worker", 1, *options, inside=link.inside(1))
    for process in (chief, server, second):
        code, _, told = ended(process)
        assert code == 0, told
    (run,) = record.read(file)
    return run


def require_exact(run: Run) -> None:
    """Check that each step was counted once, and no update was lost."""
    updates = {name: sum(row.updates for row in run.counters if row.variable == name) for name in ("W", "b")}
    assert updates == {"W": 40, "b": 40}
    assert {row.variable: row.lost for row in run.lost} == {"W": 0, "b": 0}
    assert sum(row.steps for row in run.staleness) == 40


@pytest.mark.deep
def test_a_slow_network_makes_each_step_as_much_slower_and_counts_stay_exact(tmp_path: Path) -> None:
    with network(DELAY_S, loss=0) as link, tasks(ADDRESSES, tmp_path) as begin:
        run = trained(begin, link, tmp_path / "run.jsonl")
    require_exact(run)
    workers = [process for process in run.processes if process.role == "worker"]
    assert [worker.steps for worker in workers] == [20, 20]
    for worker in workers:
        assert worker.loop_s is not None
        assert worker.loop_s >= 20 * JOURNEYS * DELAY_S
    (measured,) = run.environment["network"]
    assert (measured["server"], measured["interface"]) == (0, "eth0")
    assert measured["rtt_us"] >= 2e6 * DELAY_S
    assert measured["bandwidth_mb_s"] > 0


def test_a_run_on_two_hosts_tells_both_platforms(tmp_path: Path) -> None:
    """Its experiment is another one on other platforms, so runs of different hosts are never pooled."""
    with network(delay_s=0, loss=0) as link, tasks(ADDRESSES, tmp_path) as begin:
        run = trained(begin, link, tmp_path / "run.jsonl")
    hosts = {"server": ["host 1"], "worker": ["host 2", "host 2"]}
    both = dict.fromkeys(("host 1", "host 2"), platform_sha256(run.platform))
    assert run.experiment.definition.items() >= {"hosts": hosts, "platforms": both}.items()
    assert run.environment["hosts"] == dict.fromkeys(both, display_name(run.platform))
    assert [process.host for process in run.processes] == ["host 1", "host 2", "host 2"]
    assert run.phases == []  # they would be of several clocks


def test_a_network_that_loses_frames_loses_no_update(tmp_path: Path) -> None:
    with network(delay_s=0, loss=0.02) as link, tasks(ADDRESSES, tmp_path) as begin:
        run = trained(begin, link, tmp_path / "run.jsonl")
        assert link.lost > 0
    require_exact(run)


@pytest.mark.deep
def test_a_network_that_is_cut_ends_all_tasks_within_their_limit(tmp_path: Path) -> None:
    options = ("--iterations", "2000000", "--wait", str(ANSWER_S))
    with network(delay_s=0, loss=0) as link, tasks(ADDRESSES, tmp_path) as begin:
        server = begin("ps", 0, "--wait", str(ANSWER_S), inside=link.inside(0))
        chief, second = (begin("worker", index, *options, inside=link.inside(1)) for index in (0, 1))
        wait_for(second, "training.")
        link.cut()
        seen = time.monotonic()
        ends = [ended(process) for process in (chief, second, server)]
        assert time.monotonic() - seen < MOST_S
    assert [code for code, _, _ in ends] == [1, 1, 1]
    last_words = [told[-1] for _, _, told in ends]
    assert last_words == [
        f"tmflow: server 0 has not answered for {ANSWER_S} s.",
        "tmflow: worker 0 has ended before the training was done.",
        f"tmflow: worker 0 has not answered for {ANSWER_S} s.",
    ]
