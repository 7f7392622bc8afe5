"""`tmflow cluster task`: a cluster whose tasks are started one by one, by real processes that all end."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT, Tmflow, environment
from tests.support.cluster_tasks import LIMIT_S, OPTIONS, Begin, ended, tasks, wait_for
from tests.support.transports import OURS, require_transport
from tmflow.native.loader import loopback_only
from tmflow.runfile import record
from tmflow.training.cluster import checkpoint
from tmflow.training.cluster.addresses import Addresses, on_this_machine


@pytest.fixture
def addresses() -> Addresses:
    return on_this_machine(1, 2)


@pytest.fixture
def begin(addresses: Addresses, tmp_path: Path) -> Iterator[Begin]:
    with tasks(addresses, tmp_path) as begin:
        yield begin


@pytest.mark.slow
def test_three_commands_train_together_and_end(begin: Begin, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    server, second = begin("ps", 0), begin("worker", 1)
    chief = begin("worker", 0, "--json", "--save-file", str(file))
    code, output, told = ended(chief)
    assert code == 0, told
    assert any("waiting for" in sentence and "worker 1" in sentence for sentence in told)
    assert any(sentence.startswith("tmflow: worker 0 listens on 127.0.0.1:") for sentence in told)
    assert not any("every interface" in sentence for sentence in told)
    for process in (server, second):
        code, nothing, told = ended(process)
        assert (code, nothing, told[-1]) == (0, "", "tmflow: done.")
    (run,) = record.read(file)
    assert json.loads(output)["uid"] == run.uid
    assert (run.spec.driver, run.spec.threads, run.spec.servers) == ("cluster", 2, 1)
    places = [(process.role, process.index, process.host) for process in run.processes]
    assert places == [(*place, "host 1") for place in (("server", 0), ("worker", 0), ("worker", 1))]
    assert sum(process.steps or 0 for process in run.processes) == 40
    assert sum(row.steps for row in run.staleness) == 40
    (link,) = run.environment["network"]
    assert (link["server"], link["interface"]) == (0, "loopback")
    assert run.environment["kernel"]
    assert run.experiment.definition["hosts"] == {
        "server": ["host 1"],
        "worker": ["host 1"] * 2,
    }


@pytest.mark.slow
@pytest.mark.parametrize("transport", OURS)
def test_tasks_call_each_other_by_the_transport_that_is_asked_for(begin: Begin, tmp_path: Path, transport: str) -> None:
    file, asked = tmp_path / "run.jsonl", ("--transport", require_transport(transport))
    others = begin("ps", 0, *asked), begin("worker", 1, *asked)
    code, _, told = ended(begin("worker", 0, *asked, "--save-file", str(file)))
    assert code == 0, told
    assert [ended(process)[0] for process in others] == [0, 0]
    (run,) = record.read(file)
    assert run.spec.transport == transport


@pytest.mark.deep
def test_a_worker_that_comes_5_s_late_is_waited_for(begin: Begin) -> None:
    server, chief = begin("ps", 0), begin("worker", 0, "--mode", "sync")
    wait_for(chief, "waiting for worker 1.")
    seen = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):  # nobody begins without it
        chief.wait(5)
    late = begin("worker", 1, "--mode", "sync")
    code, output, told = ended(chief)
    assert (code, output[:9]) == (0, "round 1: "), told
    assert time.monotonic() - seen > 5
    assert [ended(process)[0] for process in (server, late)] == [0, 0]


@pytest.mark.slow
def test_a_worker_that_never_comes_is_named_and_all_end(begin: Begin) -> None:
    processes = [begin("ps", 0, "--wait", "20"), begin("worker", 0, "--wait", "10")]
    for process in processes:
        code, output, told = ended(process)
        assert (code, output) == (1, "")
        assert told[-1] == "tmflow: worker 1 did not come within 10 s"


@pytest.mark.deep
def test_a_server_that_never_comes_is_named(begin: Begin) -> None:
    for process in [begin("worker", index, "--wait", "5") for index in (0, 1)]:
        code, output, told = ended(process)
        assert (code, output, told[-1]) == (1, "", "tmflow: server 0 did not come within 5 s")


CHIEF_ENDED = "tmflow: worker 0 has ended before the training was done."


@pytest.mark.deep
def test_a_chief_that_is_killed_ends_all(begin: Begin) -> None:
    server, chief = begin("ps", 0), begin("worker", 0, "--iterations", "200000")
    other = begin("worker", 1, "--iterations", "200000")
    wait_for(server, "server 0 serves")
    wait_for(other, "training.")
    chief.kill()
    chief.communicate()
    for process in (server, other):
        code, _, told = ended(process)
        assert (code, told[-1]) == (1, CHIEF_ENDED), told


@pytest.mark.deep
def test_a_chief_that_is_killed_before_all_have_come_is_named(begin: Begin) -> None:
    server, chief = begin("ps", 0), begin("worker", 0)
    wait_for(server, "worker 0 is up")
    chief.kill()
    chief.communicate()
    code, _, told = ended(server)
    assert (code, told[-1]) == (1, CHIEF_ENDED), told


@pytest.mark.deep
def test_a_server_that_is_interrupted_ends_all(begin: Begin) -> None:
    server, chief = begin("ps", 0), begin("worker", 0, "--iterations", "200000")
    other = begin("worker", 1, "--iterations", "200000")
    wait_for(other, "training.")
    server.send_signal(signal.SIGINT)
    assert server.wait(LIMIT_S) == -signal.SIGINT
    assert [ended(process)[0] for process in (chief, other)] == [1, 1]


@pytest.mark.deep
def test_the_same_commands_continue_from_the_last_checkpoint(begin: Begin, tmp_path: Path) -> None:
    file = tmp_path / "softmax.checkpoint"
    long = ("--iterations", "6000", "--learning-rate", "0.1")
    saving = ("--checkpoint", str(file), "--checkpoint-every", "600", "--json")
    server, chief = begin("ps", 0, *long), begin("worker", 0, *long, *saving)
    other, deadline = begin("worker", 1, *long), time.monotonic() + LIMIT_S
    while not file.exists():
        assert time.monotonic() < deadline, "no checkpoint appears"
        time.sleep(0.01)
    server.kill()
    server.communicate()
    assert [ended(process)[0] for process in (chief, other)] == [1, 1]
    step = checkpoint.read(file).progress.step
    assert 0 < step < 6000
    server, chief, other = begin("ps", 0, *long), begin("worker", 0, *long, *saving), begin("worker", 1, *long)
    code, output, told = ended(chief)
    assert code == 0, told
    assert f"tmflow: continuing from {file}: {step} of 6000 steps are done." in told
    run = json.loads(output)
    assert run["resumed"]
    assert sum(row["steps"] for row in run["staleness"]) == 6000
    assert sum(row["updates"] for row in run["counters"]) == 2 * 6000
    assert [ended(process)[0] for process in (server, other)] == [0, 0]


@pytest.mark.slow
def test_tasks_with_other_versions_are_refused_everywhere(begin: Begin, tmp_path: Path) -> None:
    package = tmp_path / "other" / "tmflow"
    shutil.copytree(ROOT / "src" / "tmflow", package, ignore=shutil.ignore_patterns("__pycache__"))
    version = package / "_version.py"
    version.write_text(version.read_text().replace("0.1.0", "0.0.9"))
    processes = [begin("ps", 0), begin("worker", 0), begin("worker", 1, PYTHONPATH=package.parent, TMFLOW_ROOT=ROOT)]
    for process in processes:
        code, output, told = ended(process)
        assert (code, output) == (2, ""), told
        expected = "tmflow: worker 1 has tmflow 0.0.9, and worker 0 has 0.1.0: install the same on every host."
        assert told[-1] == expected


@pytest.mark.slow
def test_workers_with_other_options_are_refused_everywhere(begin: Begin) -> None:
    processes = [begin("ps", 0), begin("worker", 0), begin("worker", 1, "--learning-rate", "0.25")]
    for process in processes:
        code, output, told = ended(process)
        assert (code, output) == (2, ""), told
        assert told[-1].startswith("tmflow: worker 1 has learning_rate 0.25, and worker 0 has 0.5: ")


REFUSAL = """\
import os
import sys
from pathlib import Path

from tmflow.training.cluster.addresses import load_addresses
from tmflow.training.cluster.mailbox import FIRST_SERVER, Mailbox, Name
from tmflow.training.cluster.member import ARRIVED, WORDS
from tmflow.training.cluster.task import start_server

index = int(sys.argv[1])
server = start_server(load_addresses(Path("cluster.yaml")), "worker", index, "grpc")
mail = Mailbox(server.target, Name("worker", index))
assert mail.take(FIRST_SERVER, ARRIVED, 100)["name"] == ["ps", 0]
for words in ({"arrived": True}, {"differ": "worker 1 is not wanted"}):
    mail.put(FIRST_SERVER, WORDS, words, 100)
os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("index", [0, 1])
def test_a_refusal_arrives_although_the_chief_answers_no_more(begin: Begin, tmp_path: Path, index: int) -> None:
    """The chief refuses and ends at once; or it never answered, and worker 1 says its words."""
    server = begin("ps", 0)
    command = [sys.executable, "-c", REFUSAL, str(index)]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=LIMIT_S, env=loopback_only(environment()))
    code, output, told = ended(server)
    assert (code, output, told[-1]) == (2, "", "tmflow: worker 1 is not wanted."), told


def refusal(tmflow_here: Tmflow, file: Path, *options: str) -> str:
    """The one sentence with which a task refuses to start."""
    done = tmflow_here("cluster", "task", "--spec", file, *OPTIONS, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    return done.stderr.removeprefix("tmflow: ")


def test_a_port_that_is_taken_is_named(tmflow_here: Tmflow, tmp_path: Path, addresses: Addresses) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(addresses.model_dump()))
    host, _, port = addresses.ps[0].rpartition(":")
    with socket.socket() as holder:
        holder.bind((host, int(port)))
        holder.listen()
        sentence = refusal(tmflow_here, file, "--job", "ps", "--index", "0")
    assert sentence == f"server 0 cannot listen on {addresses.ps[0]}: Address already in use.\n"


@pytest.mark.parametrize(
    ("document", "options", "expected"),
    [
        ({"ps": ["192.0.2.1:2222"], "worker": ["127.0.0.1:2223"]}, (), "cannot listen on 192.0.2.1:2222"),
        ({"ps": ["127.0.0.1:2222"], "worker": ["127.0.0.1:2222"]}, (), "has the address of ps 0"),
        ({"ps": ["127.0.0.1:2222"], "worker": []}, (), "worker"),
        ({"ps": ["127.0.0.1"], "worker": ["127.0.0.1:2222"]}, (), "'127.0.0.1' is no address"),
        ({"ps": ["127.0.0.1:2222"], "worker": ["127.0.0.1:2223"]}, ("--index", "1"), "the cluster has no ps 1"),
        ({"ps": ["127.0.0.1:2222"], "worker": ["127.0.0.1:2223"]}, ("--threads", "3"), "--threads is 3, but"),
        ({"ps": ["127.0.0.1:2222"], "worker": ["127.0.0.1:2223"]}, ("--servers", "2"), "--servers is 2, but"),
        ({"ps": ["127.0.0.1:2222"], "worker": ["127.0.0.1:2223"]}, ("--driver", "native"), "--driver is native, but"),
        ({"ps": ["127.0.0.1:2222"], "worker": ["127.0.0.1:2223"]}, ("--wait", "0"), "--wait is 0, but"),
        ({"ps": ["127.0.0.1:2222"], "worker": ["127.0.0.1:2223"]}, ("--from-slurm",), "leave out --job"),
    ],
)
def test_what_cannot_work_is_refused_at_once(
    tmflow_here: Tmflow, tmp_path: Path, document: dict[str, Any], options: tuple[str, ...], expected: str
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(document))
    index = () if "--index" in options else ("--index", "0")
    assert expected in refusal(tmflow_here, file, "--job", "ps", *index, *options)


def test_a_host_that_does_not_resolve_is_named_within_the_limit(tmflow_here: Tmflow, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump({"ps": ["no-such.invalid:2222"], "worker": ["127.0.0.1:2223"]}))
    done = tmflow_here("cluster", "task", "--spec", file, *OPTIONS, "--job", "ps", "--index", "0", "--wait", "1")
    assert (done.returncode, done.stdout) == (2, "")
    waiting, refused = done.stderr.splitlines()
    assert waiting == "tmflow: waiting for the name of the host of server 0, no-such.invalid, to resolve."
    assert refused.startswith("tmflow: the host of server 0, no-such.invalid, does not resolve: ")


def test_a_file_that_is_missing_is_named(tmflow_here: Tmflow, tmp_path: Path) -> None:
    sentence = refusal(tmflow_here, tmp_path / "none.yaml", "--job", "ps", "--index", "0")
    assert "none.yaml cannot be read: No such file or directory." in sentence


def test_a_strategy_that_needs_a_process_of_its_own_says_which(
    tmflow_here: Tmflow, tmp_path: Path, addresses: Addresses
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(addresses.model_dump()))
    done = tmflow_here(
        "cluster", "task", "--job", "worker", "--index", "1", "--spec", file, *OPTIONS, "--strategy", "tle"
    )
    assert done.returncode == 2
    assert "strategy 'tle' needs a process of its own environment: start it with GLIBC_TUNABLES=" in done.stderr
