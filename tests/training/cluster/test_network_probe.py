"""The probe of the network between the chief and the servers, over real connections of the loopback interface."""

from __future__ import annotations

import socket
import time

import psutil
import pytest

from tmflow.training.cluster import network
from tmflow.training.cluster.network import PROBE_S, answer_one_probe, probe


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer may take long: next to other tests, a thread may get no processor for seconds."""
    monkeypatch.setattr(network, "ANSWER_S", 60.0)


@pytest.mark.usefixtures("patient")
def test_round_trips_and_bandwidth_of_each_server_are_measured() -> None:
    places = [answer_one_probe("127.0.0.1", wait_s=60) for _ in range(2)]
    began = time.monotonic()
    links = probe(places)
    took_s = time.monotonic() - began
    assert took_s >= PROBE_S / 2  # the bandwidth takes its whole share, round trips may take less
    assert links is not None
    assert [(link["server"], link["interface"]) for link in links] == [(0, "loopback"), (1, "loopback")]
    for link in links:
        assert 0 < link["rtt_us"] < 1e6 * took_s
        assert link["bandwidth_mb_s"] > 0


@pytest.mark.usefixtures("patient")
def test_a_port_answers_once() -> None:
    place = answer_one_probe("127.0.0.1", wait_s=60)
    assert probe([place]) is not None
    assert probe([place]) is None
    assert place[1] not in {one.laddr.port for one in psutil.Process().net_connections() if one.status == "LISTEN"}


def test_the_network_to_a_server_that_does_not_answer_is_unknown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert probe([answer_one_probe("127.0.0.1", wait_s=10), silent.getsockname()]) is None
