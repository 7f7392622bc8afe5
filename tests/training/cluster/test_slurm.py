"""The addresses of a cluster from the variables of a Slurm job step, and a real Slurm of one node."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support import one_node_slurm
from tmflow.base.errors import BadInput
from tmflow.training.cluster.mailbox import Name
from tmflow.training.cluster.slurm import expand, expand_here, from_slurm, tasks_per_node

STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_NTASKS": "4",
    "SLURM_PROCID": "2",
    "SLURM_JOB_NODELIST": "node[01-02]",
    "SLURM_TASKS_PER_NODE": "2(x2)",
}


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ("one", ["one"]),
        ("one,two", ["one", "two"]),
        ("node[01-03,7],other", ["node01", "node02", "node03", "node7", "other"]),
        ("a-[9-11],c[1]", ["a-9", "a-10", "a-11", "c1"]),
    ],
)
def test_names_of_nodes_are_written_out(nodes: str, names: list[str]) -> None:
    assert expand_here(nodes) == names


@pytest.mark.parametrize("nodes", ["rack[1-2]node[1-2]", "node[", "node[x]", "node[1]b"])
def test_another_form_is_refused(nodes: str) -> None:
    with pytest.raises(BadInput, match="in no form"):
        expand_here(nodes)


def test_tasks_of_nodes_are_written_out() -> None:
    assert tasks_per_node("2(x3),1") == [2, 2, 2, 1]
    with pytest.raises(BadInput, match="in no form"):
        tasks_per_node("two")


@pytest.fixture
def without_scontrol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


@pytest.mark.usefixtures("without_scontrol")
def test_the_first_tasks_are_servers_and_each_has_a_port() -> None:
    ports = [20_028 + rank for rank in range(4)]
    addresses, name = from_slurm(STEP, servers=1)
    assert name == Name("worker", 1)
    assert addresses.ps == [f"node01:{ports[0]}"]
    assert addresses.worker == [f"node01:{ports[1]}", f"node02:{ports[2]}", f"node02:{ports[3]}"]
    assert from_slurm({**STEP, "SLURM_PROCID": "1"}, servers=2)[1] == Name("ps", 1)


@pytest.mark.usefixtures("without_scontrol")
def test_the_variables_of_the_step_come_before_those_of_its_job() -> None:
    step = {**STEP, "SLURM_STEP_NODELIST": "node02", "SLURM_STEP_TASKS_PER_NODE": "4"}
    addresses, _ = from_slurm(step, servers=1)
    assert {address.partition(":")[0] for address in [*addresses.ps, *addresses.worker]} == {"node02"}


@pytest.mark.usefixtures("without_scontrol")
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"SLURM_NTASKS": ""}, "SLURM_NTASKS is not set"),
        ({"SLURM_PROCID": "x"}, "SLURM_PROCID is 'x', but should be a number"),
        ({"SLURM_PROCID": "4"}, "should be below SLURM_NTASKS"),
        ({"SLURM_NTASKS": "1"}, "no worker is left"),
        ({"SLURM_TASKS_PER_NODE": "2"}, "contradict each other"),
        ({"SLURMD_NODENAME": "node01"}, "start srun with --distribution=block"),
    ],
)
def test_what_is_no_step_of_slurm_is_refused(changes: Mapping[str, str], expected: str) -> None:
    with pytest.raises(BadInput, match=expected):
        from_slurm({**STEP, **changes}, servers=1)


@pytest.mark.slow
@pytest.mark.skipif(one_node_slurm.why_not() is not None, reason=one_node_slurm.why_not() or "")
def test_a_real_slurm_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with one_node_slurm.running(tmp_path) as environment:
        monkeypatch.setenv("SLURM_CONF", environment["SLURM_CONF"])
        for nodes in ("one", "node[01-03,7],other", "a-[9-11],c[1]"):
            assert expand(nodes) == expand_here(nodes)
        options = ("--dataset", "digits", "--batch", "5", "--iterations", "40", "--test-images", "50")
        task = [sys.executable, "-m", "tmflow", "cluster", "task", "--from-slurm", *options]
        done = subprocess.run(
            ["srun", "--ntasks=3", "--label", *task],
            env=environment, capture_output=True, text=True, check=False, timeout=180,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (result,) = done.stdout.splitlines()
    assert result.startswith("1: round 1: ")  # worker 0 is the second task
    assert "0: tmflow: server 0 listens on localhost:" in done.stderr
    assert [line for line in done.stderr.splitlines() if line.endswith("tmflow: done.")] != []
