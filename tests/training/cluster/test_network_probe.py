"""The probe of the network between the chief and the servers, over real connections of the loopback interface."""

from __future__ import annotations

import socket
import time

import psutil

from tmflow.training.cluster.network import PROBE_S, answer_one_probe, probe


def test_round_trips_and_bandwidth_of_each_server_are_measured_within_a_second() -> None:
    places = [answer_one_probe("127.0.0.1", wait_s=10) for _ in range(2)]
    began = time.monotonic()
    links = probe(places)
    assert time.monotonic() - began >= PROBE_S / 2  # the bandwidth takes its whole share, round trips may take less
    assert links is not None
    assert [(link["server"], link["interface"]) for link in links] == [(0, "loopback"), (1, "loopback")]
    for link in links:
        assert 0 < link["rtt_us"] < 1e6 * PROBE_S
        assert link["bandwidth_mb_s"] > 0


def test_a_port_answers_once() -> None:
    place = answer_one_probe("127.0.0.1", wait_s=10)
    assert probe([place]) is not None
    assert probe([place]) is None
    assert place[1] not in {one.laddr.port for one in psutil.Process().net_connections() if one.status == "LISTEN"}


def test_the_network_to_a_server_that_does_not_answer_is_unknown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert probe([answer_one_probe("127.0.0.1", wait_s=10), silent.getsockname()]) is None
