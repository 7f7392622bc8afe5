"""Concurrent steps under an executor, to run under a sanitizer in a separate process:

    python concurrent_steps.py EXECUTOR...

Threads run one graph at once: kernels that are worth another thread, a loop, a queue, and a node that fails in some
steps. Then the two servers of a cluster over the transport df run another one. Prints one line for each, and ends with
an AssertionError if a result is wrong.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

from tmflow import runtime
from tmflow.training.cluster.addresses import on_this_machine

tf1 = tf.compat.v1
THREADS, STEPS, CHAINS = 4, 60, 6
FAILS = 10  # each thread's steps of this multiple fail


def graph() -> tuple[Any, Any]:
    """The number of a step, which fails if it is 0, and the sum of what the graph computes from it."""
    number = tf1.placeholder(tf.float32, [])
    with tf.control_dependencies([tf1.Assert(number > 0, [number])]):
        matrix = tf.ones([64, 64]) * number
    products = [tf.reduce_sum(tf.matmul(matrix + i, tf.ones([64, 64]))) for i in range(CHAINS)]
    _, looped = tf1.while_loop(lambda i, _: i < 5, lambda i, x: (i + 1, x + number), [0, 0.0])
    queue = tf1.FIFOQueue(100, tf.float32, [[]])
    with tf.control_dependencies([queue.enqueue(number + 1)]):
        other = queue.dequeue()  # of any step at work: it only has to be positive
    with tf.control_dependencies([tf1.Assert(other > 0, [other])]):
        return number, tf.add_n(products) + looped


def expected(number: float) -> float:
    return sum(64.0**3 * (number + i) for i in range(CHAINS)) + 5 * number


def run_at_once(target: str, config: Any) -> None:
    """Raises AssertionError if a step has a wrong result, or ends without its error."""
    number, total = graph()
    with tf1.Session(target, config=config) as session:
        call = session.make_callable(total, [number])

        def work(_: int) -> None:
            for step in range(1, STEPS + 1):
                if step % FAILS == 0:
                    try:
                        call(np.float32(0))
                        raise AssertionError("a step that should fail did not")
                    except tf.errors.InvalidArgumentError:
                        continue
                np.testing.assert_allclose(call(np.float32(step)), expected(step), rtol=1e-5)

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(THREADS)))


def main(executors: list[str]) -> None:
    tf1.disable_eager_execution()
    tf1.disable_control_flow_v2()
    for name in executors:
        with tf.Graph().as_default():
            run_at_once("", runtime.session_config(name))
        print(f"{name}: {runtime.counts(name).steps} steps", flush=True)
    addresses = on_this_machine(1, 1)
    cluster = tf.train.ClusterSpec({"ps": addresses.ps, "worker": addresses.worker})
    servers = [
        tf1.train.Server(cluster, job_name=job, task_index=0, protocol=runtime.protocol("df"))
        for job in ("ps", "worker")
    ]
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        run_at_once(servers[1].target, runtime.session_config(executors[0]))
    print("df: right", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
