"""The file with the addresses of a cluster's tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tmflow.base.errors import BadInput
from tmflow.training.cluster.addresses import is_loopback, load_addresses, on_this_machine


def test_every_task_has_an_address(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("ps: ['host-a:2222']\nworker: ['host-b:2222', '[::1]:2223']\n")
    addresses = load_addresses(file)
    assert (addresses.of("ps", 0), addresses.of("worker", 1)) == ("host-a:2222", "[::1]:2223")
    with pytest.raises(BadInput, match="the cluster has no worker 2: its indices are 0 to 1"):
        addresses.of("worker", 2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ps: []\nworker: ['a:1']", "ps"),
        ("ps: ['a:1']\nworker: []", "worker"),
        ("ps: ['a:1']", "worker"),
        ("ps: ['a:1']\nworker: ['a:1']", "worker 0 has the address of ps 0, a:1"),
        ("ps: ['a:0']\nworker: ['b:1']", "'a:0' is no address: write host:port, with a port from 1 to 65535"),
        ("ps: ['a:65536']\nworker: ['b:1']", "'a:65536' is no address"),
        ("ps: ['a b:1']\nworker: ['b:1']", "'a b:1' is no address"),
        ("ps: ['a']\nworker: ['b:1']", "'a' is no address"),
        ("ps: ['a:1']\nworker: ['b:1']\nchief: ['c:1']", "chief"),
    ],
)
def test_what_is_wrong_with_the_addresses_is_said(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    with pytest.raises(BadInput) as error:
        load_addresses(file)
    assert says in str(error.value)
    assert "cluster.yaml" in str(error.value)


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1:1", True), ("localhost:1", True), ("[::1]:1", True), ("node1:1", False), ("[fe80::1]:1", False)],
)
def test_loopback_addresses_are_told_by_their_text(address: str, expected: bool) -> None:
    assert is_loopback(address) == expected


def test_tasks_of_this_machine_listen_on_loopback_only() -> None:
    addresses = on_this_machine(2, 3)
    every = [*addresses.ps, *addresses.worker]
    assert len(set(every)) == 5
    assert all(address.startswith("127.0.0.1:") for address in every)
