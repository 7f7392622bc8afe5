"""Start and stop a server many times: `python -m tests.training.cluster.start_and_stop TRANSPORT`.

Exits with an error if the process keeps threads, ports or much memory of servers that have stopped. It keeps a little,
because TensorFlow's Python never deletes a server: a file, and its devices.
"""

from __future__ import annotations

import os
import sys
import threading

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import psutil
import tensorflow as tf

from tmflow.training.cluster.addresses import on_this_machine
from tmflow.training.cluster.task import start_server

WARM_UP, CYCLES = 10, 100
KEPT_PORTS = {"hpx": 1}  # of HPX's runtime, which stays until the process ends
MOST_KEPT = 2 << 20  # bytes of a server; it is about 1.1 million, and 42 million with gRPC


def cycle(transport: str) -> None:
    """Start a server, run a step on it, and stop it."""
    tf1 = tf.compat.v1
    server = start_server(on_this_machine(1, 1).first_workers(1), "ps", 0, transport)
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        doubled = tf.constant([1.0, 2.0]) * 2
        config = tf1.ConfigProto(device_filters=["/job:ps"])
        with tf1.Session(server.target, config=config) as session:
            assert list(session.run(doubled)) == [2.0, 4.0]
    del server


def main(transport: str) -> None:
    process = psutil.Process()

    def held() -> tuple[int, int, int]:
        return process.num_threads(), process.num_fds(), process.memory_info().rss

    for _ in range(WARM_UP):
        cycle(transport)
    threads, files, memory = held()
    for _ in range(CYCLES):
        cycle(transport)
    after = held()
    print(f"threads {threads} to {after[0]}, files {files} to {after[1]}, memory {memory} to {after[2]}")
    assert after[0] <= threads + 2
    assert after[1] <= files + CYCLES
    assert after[2] <= memory + CYCLES * MOST_KEPT
    assert len(process.net_connections()) == KEPT_PORTS.get(transport, 0)
    assert threading.active_count() == 1


if __name__ == "__main__":
    main(sys.argv[1])
