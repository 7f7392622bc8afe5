"""The network between the chief and the servers: a short probe over a TCP connection, before any training.

Each server answers one connection. The chief sends single bytes, which come back, and then as much as it can, of which
only the end is answered. All times are by the chief's clock, so no clocks are compared.
"""

from __future__ import annotations

import socket
import statistics
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psutil

PROBE_S = 0.6  # for all servers together: half for round trips, half for the bandwidth
ANSWER_S = 1.0  # for any single answer
ROUND_TRIPS = 200  # at most
CHUNK = bytes(1 << 18)
IN_FLIGHT = 1 << 18  # bytes that wait in the sender, so that a slow network ends the probe in time
BEGIN_SENDING = b"s"
LOOPBACK = "loopback"

Link = dict[str, Any]  # server, interface, rtt_us, bandwidth_mb_s
Place = tuple[str, int]  # a host and a port


def answer_one_probe(host: str, wait_s: float) -> Place:
    """Answer the first connection to a free port of a host of this machine, in a thread; return where.

    The port is closed after that connection, or if none comes within the limit.
    """
    family, kind, protocol, _, place = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    listener.bind(place)
    listener.listen(1)
    listener.settimeout(wait_s)
    threading.Thread(target=_answer, args=(listener,), daemon=True).start()
    return host, listener.getsockname()[1]


def _answer(listener: socket.socket) -> None:
    with suppress(OSError), listener:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(ANSWER_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (byte := connection.recv(1)) not in (b"", BEGIN_SENDING):
                connection.sendall(byte)
            while connection.recv(len(CHUNK)):
                pass
            connection.sendall(BEGIN_SENDING)


def probe(places: Sequence[Place]) -> list[Link] | None:
    """The median round trip in us and the bandwidth in MB/s to each server, given where it answers.

    None if a server does not answer, for example because a firewall lets only its own port through.
    """
    try:
        return [{"server": index, **_probe(place, PROBE_S / len(places))} for index, place in enumerate(places)]
    except OSError:
        return None


def _probe(place: Place, limit_s: float) -> Link:
    with socket.create_connection(place, ANSWER_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, IN_FLIGHT)
        return {
            "interface": _interface(connection),
            "rtt_us": round(1e6 * _round_trip_s(connection, limit_s / 2), 1),
            "bandwidth_mb_s": round(1e-6 * _bytes_per_s(connection, limit_s / 2), 1),
        }


def _round_trip_s(connection: socket.socket, limit_s: float) -> float:
    times, deadline = list[float](), time.perf_counter() + limit_s
    while not times or (len(times) < ROUND_TRIPS and time.perf_counter() < deadline):
        began = time.perf_counter()
        connection.sendall(b".")
        if not connection.recv(1):
            raise ConnectionError("the server has closed the connection")
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _bytes_per_s(connection: socket.socket, limit_s: float) -> float:
    connection.sendall(BEGIN_SENDING)
    sent, began = 0, time.perf_counter()
    while time.perf_counter() < began + limit_s:
        sent += connection.send(CHUNK)
    connection.shutdown(socket.SHUT_WR)
    if not connection.recv(1):  # the server has everything
        raise ConnectionError("the server has closed the connection")
    return sent / (time.perf_counter() - began)


def _interface(connection: socket.socket) -> str:
    """The interface of this end, by its address. A host reaches itself by the loopback interface."""
    here, there = connection.getsockname()[0], connection.getpeername()[0]
    if here == there:
        return LOOPBACK
    interfaces: dict[str, list[Any]] = psutil.net_if_addrs()
    names = (name for name, ends in interfaces.items() if here in (end.address for end in ends))
    return next(names, "unknown")
