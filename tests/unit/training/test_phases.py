"""The phases of a step, from a trace made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tmflow.training.cluster.phases import phases_of, traffic_of

SERVER, WORKER = "/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:1/device:CPU:0"


def node(name: str, label: str, scheduled: int, start: int, end: int, received: int = 0) -> Any:
    """A record of TensorFlow's trace, in microseconds."""
    return SimpleNamespace(
        node_name=name, timeline_label=label, scheduled_micros=scheduled, all_start_micros=start,
        op_start_rel_micros=0, op_end_rel_micros=end - start, output=[tensor(received)],
    )  # fmt: skip


def tensor(size: int) -> Any:
    allocated = SimpleNamespace(requested_bytes=size)
    return SimpleNamespace(tensor_description=SimpleNamespace(allocation_description=allocated))


def trace(**of: list[Any]) -> Any:
    devices = {"server": SERVER, "worker": WORKER}
    return SimpleNamespace(
        dev_stats=[SimpleNamespace(device=devices[name], node_stats=nodes) for name, nodes in of.items()]
    )


def test_the_phases_of_a_step_make_up_the_step() -> None:
    phases = phases_of(
        trace(
            server=[
                node("_SOURCE", "_SOURCE = NoOp()", 1000, 1000, 1001),
                node("RecvTensor", "[40B] gradient", 0, 1500, 1600),
                node("update", "update = TmflowApplyGradientDescent(W)", 1590, 1620, 1650),
            ],
            worker=[
                node("RecvTensor", "[40B] W", 0, 1100, 1200),
                node("MatMul", "MatMul = MatMul(x, W)", 1190, 1200, 1500),
            ],
        )
    )
    us = {name: round(1e6 * seconds) for name, seconds in phases.items()}
    assert us == {"apply": 30, "compute": 300, "send": 100, "receive": 100, "queue": 20, "other": 100}
    assert sum(us.values()) == 650


def test_time_in_which_a_worker_computes_and_receives_is_compute() -> None:
    phases = phases_of(trace(worker=[node("RecvTensor", "", 0, 0, 100), node("add", "add = Add()", 50, 50, 150)]))
    assert phases["compute"] == pytest.approx(100e-6)
    assert phases["receive"] == pytest.approx(50e-6)


def test_a_synchronous_worker_waits_for_its_token_in_the_queue() -> None:
    phases = phases_of(trace(server=[node("d", "d = QueueDequeueV2()", 10, 10, 90), node("x", "x = Const()", 0, 0, 5)]))
    assert phases["queue"] == pytest.approx(80e-6)
    assert phases["other"] == pytest.approx(10e-6)


def test_the_traffic_of_a_step_is_counted_where_it_is_received() -> None:
    traffic = traffic_of(
        trace(
            server=[node("RecvTensor", "[40B] gradient", 0, 0, 1, received=40), node("x", "x = Const()", 0, 0, 5, 8)],
            worker=[node("RecvTensor", "[40B] W", 0, 0, 1, received=40), node("RecvTensor", "[0B] ^W", 0, 0, 1)],
        )
    )
    assert traffic == {"send": (1, 40), "receive": (2, 40)}
