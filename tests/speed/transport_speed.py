"""Measure transports on this machine: `python -m tests.speed.transport_speed REPORT.md`.

A step of a session fetches a tensor from another process over the loopback interface, and keeps it there. Transports
alternate, in another order each round, and ratios are paired within rounds. Not a test, because it needs a quiet
machine for some minutes.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from textwrap import wrap
from typing import Any

import numpy as np

from tests.speed.step_times import Step, measure
from tests.support import command_line
from tests.support.server_processes import ServerProcess
from tests.support.transports import OURS
from tmflow import runtime
from tmflow.analysis.stats import ratio_interval
from tmflow.base.clock import utc_now
from tmflow.base.files import write_text
from tmflow.base.text import interval
from tmflow.benchmark.text import state
from tmflow.platform.facts import display_name, platform_facts
from tmflow.runfile.record import MachineState
from tmflow.runner import machine_load
from tmflow.training.cluster.addresses import on_this_machine
from tmflow.training.cluster.task import start_server

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

ROUNDS = 11
LINE = 120
SECONDS = 0.3  # of one transport with one size in a round
SIZES = {"4 B": 4, "4 kB": 4 << 10, "64 kB": 64 << 10, "1 MB": 1 << 20, "4 MB": 4 << 20, "64 MB": 64 << 20}
COPY = "copy"  # of the same bytes within this process: the least that a transfer can take


@contextmanager
def connected(transport: str) -> Iterator[str]:
    """The target of a worker in this process whose server is another process."""
    addresses = on_this_machine(1, 1)
    process = ServerProcess(transport, addresses, "ps", 0)
    try:
        process.target()
        server = start_server(addresses, "worker", 0, transport)
        yield server.target
    finally:
        process.end()


def fetching(target: str, n_bytes: int) -> Callable[[], Any]:
    """A step that fetches a tensor of this size from the server."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            held = tf1.Variable(tf.ones([n_bytes // 4]), name=f"held_{n_bytes}", use_resource=False)
        with tf.device("/job:worker/task:0"):
            fetched = tf.group(tf.identity(held))
        # Without the optimiser, which would move the identity to the variable.
        config = tf1.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        session = tf1.Session(target, config=config)
        session.run(tf1.global_variables_initializer())
    return lambda: session.run(fetched)


def copying(n_bytes: int) -> Callable[[], Any]:
    """A copy of as many bytes into memory that is in use."""
    source, place = np.ones(n_bytes, np.uint8), np.zeros(n_bytes, np.uint8)
    return lambda: np.copyto(place, source)


def steps_of(targets: Mapping[str, str]) -> dict[str, dict[str, Step]]:
    """A step of each transport with each size, and the copy of as many bytes."""
    return {
        size: {COPY: copying(n_bytes), **{name: fetching(target, n_bytes) for name, target in targets.items()}}
        for size, n_bytes in SIZES.items()
    }


def report() -> Iterator[str]:
    """The lines of the report."""
    before = machine_load.sample()
    ours = [name for name in OURS if name in runtime.built_transports()]
    with ExitStack() as stack:
        targets = {name: stack.enter_context(connected(name)) for name in (runtime.GRPC, *ours)}
        times = measure(steps_of(targets), ROUNDS, SECONDS)
    meanwhile = MachineState(**machine_load.between(before, machine_load.sample()))
    yield "# How fast transports are"
    yield ""
    yield from wrap(
        f"{display_name(platform_facts())}; {utc_now()[:10]}. Written by `python -m tests.speed.transport_speed`. "
        f"Median time over {ROUNDS} rounds, in which the transports alternate, of a step that fetches a variable from "
        "a server on the same machine. So each step also has TensorFlow's call that begins it on the server. The ratio "
        "is that of times in the same round, with its 95 % interval; a copy is one of as many bytes within a process.",
        LINE,
    )
    yield ""
    yield from table(times, ours)
    yield ""
    yield f"Meanwhile {state(meanwhile)}; at the end the load average over 5 minutes was {os.getloadavg()[1]:.1f}."


def table(times: Mapping[str, Mapping[str, Sequence[float]]], ours: Sequence[str]) -> Iterator[str]:
    """The time of each size: of gRPC, of each of ours with its ratio to gRPC and to a copy."""
    heads = [f"{name}, ms | {name} / {runtime.GRPC} | {name} / copy" for name in ours]
    yield f"| size | {runtime.GRPC}, ms | copy, ms | {' | '.join(heads)} |"
    yield f"|---|{'--:|' * (2 + 3 * len(ours))}"
    for size, of_size in times.items():
        cells = [f"{1e3 * statistics.median(of_size[name]):.3g}" for name in (runtime.GRPC, COPY)]
        for name in ours:
            cells.append(f"{1e3 * statistics.median(of_size[name]):.3g}")
            for other in (runtime.GRPC, COPY):
                ratio = ratio_interval(of_size[name], of_size[other])
                cells.append(interval(ratio.estimate, ratio.low, ratio.high))
        yield f"| {size} | {' | '.join(cells)} |"


if __name__ == "__main__":
    parser = command_line.parser()
    parser.add_argument("report", type=command_line.report, help="the Markdown file to write")
    asked = parser.parse_args()
    write_text(asked.report, "\n".join(report()) + "\n")
