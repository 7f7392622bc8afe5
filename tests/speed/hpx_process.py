"""The times of one process with HPX in it, as JSON: `python -m tests.speed.hpx_process`.

The environment has HPX's settings, which hold for a process. `tests.speed.hpx_speed` starts many of these.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.speed.step_times import seconds_per_step
from tests.support import command_line
from tmflow import runtime

SECONDS = 0.4  # for each graph
IDLE_SECONDS = 1.0


def products(tf: Any, chains: int, length: int, size: int) -> Any:
    """Chains of products of matrices."""
    start = tf.compat.v1.placeholder_with_default(np.full((size, size), 1 / size, np.float32), [size, size])
    ends = []
    for _ in range(chains):
        matrix = start
        for _ in range(length):
            matrix = tf.matmul(matrix, start)
        ends.append(matrix)
    return tf.group(ends)


def step_of(executor: str, chains: int, length: int, size: int) -> Callable[[], Any]:
    """A step of such a graph under an executor; no optimiser changes it."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    config = tf1.ConfigProto(intra_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf1.OptimizerOptions.L0
    with tf.Graph().as_default():
        fetch = products(tf, chains, length, size)
        session = tf1.Session(config=runtime.session_config(executor, config))
        return session.make_callable(fetch)  # type: ignore[no-any-return]


def measure(step: Callable[[], Any]) -> float:
    """The time of a step in seconds."""
    steps = max(5, int(SECONDS / seconds_per_step(step, 5)))
    return seconds_per_step(step, steps)


def times() -> dict[str, float]:
    """Seconds per step, and the processor time that HPX uses in a second without work.

    The steps of TensorFlow's executor come before HPX has started, after it, and after it again, so that a machine that
    grows slower shows as a difference between the last two.
    """
    large = step_of(runtime.TENSORFLOW, 8, 8, 256)
    result = {"before": measure(large)}
    small = step_of("hpx", 1, 1000, 8)
    result["small"] = measure(small)
    result["beside"] = measure(large)
    used = time.process_time()
    time.sleep(IDLE_SECONDS)
    result["idle"] = (time.process_time() - used) / IDLE_SECONDS
    result["dataflow"] = measure(step_of("hpx_dataflow", 1, 1000, 8))
    result["parallel"] = measure(step_of("hpx", 32, 8, 64))
    result["small of TensorFlow"] = measure(step_of(runtime.TENSORFLOW, 1, 1000, 8))
    result["parallel of TensorFlow"] = measure(step_of(runtime.TENSORFLOW, 32, 8, 64))
    return result


if __name__ == "__main__":
    command_line.parser().parse_args()
    print(json.dumps(times()))
