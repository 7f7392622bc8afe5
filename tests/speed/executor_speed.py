"""Measure executors on this machine: `python -m tests.speed.executor_speed REPORT.md`.

Executors alternate on the same graphs, in another order each round, so all meet the same moments of the machine. Ratios
are paired within rounds. Not a test, because it needs a quiet machine for some minutes.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np

from tests.speed.step_times import measure
from tests.support import command_line
from tmflow import runtime
from tmflow.analysis.stats import ratio_interval
from tmflow.base.clock import utc_now
from tmflow.base.files import write_text
from tmflow.base.text import interval
from tmflow.benchmark.text import state
from tmflow.platform.facts import display_name, platform_facts
from tmflow.runfile.record import MachineState
from tmflow.runner import machine_load

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

ROUNDS = 9
LINE = 120
BASE = runtime.TENSORFLOW
SECONDS = 0.25  # of one executor on one graph in a round
BATCH = 32


def mlp(tf: Any, hidden: int) -> Any:
    """A step of gradient descent of a network with one hidden layer."""
    generator = np.random.default_rng(1)

    def variable(*shape: int) -> Any:
        return tf.compat.v1.Variable(generator.normal(scale=0.1, size=shape).astype(np.float32), use_resource=True)

    x = tf.compat.v1.placeholder_with_default(generator.normal(size=(BATCH, 784)).astype(np.float32), [BATCH, 784])
    labels = tf.compat.v1.placeholder_with_default(generator.integers(0, 10, BATCH), [BATCH])
    logits = tf.nn.relu(x @ variable(784, hidden)) @ variable(hidden, 10)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.compat.v1.train.GradientDescentOptimizer(0.01).minimize(tf.reduce_mean(loss))


def chains(tf: Any, number: int, length: int, size: int) -> Any:
    """Chains of products of matrices, one product after another in each."""
    start = tf.compat.v1.placeholder_with_default(np.full((size, size), 1 / size, np.float32), [size, size])
    ends = []
    for i in range(number):
        matrix = start * (1 + i / number)
        for _ in range(length):
            matrix = tf.matmul(matrix, start)
        ends.append(matrix)
    return tf.group(ends)


def fan_out(tf: Any, nodes: int) -> Any:
    """One node whose output many cheap nodes need, and one node that waits for them."""
    start = tf.compat.v1.placeholder_with_default(np.float32(1), [])
    return tf.group([start + i for i in range(nodes)])


def loop(tf: Any, iterations: int) -> Any:
    """A loop of TensorFlow 1 over two cheap nodes."""
    limit = tf.compat.v1.placeholder_with_default(iterations, [])
    return tf.compat.v1.while_loop(lambda i, _: i < limit, lambda i, x: (i + 1, x * 0.5), [0, 1.0])


GRAPHS: dict[str, Callable[[Any], Any]] = {
    "MLP step, 32 hidden": lambda tf: mlp(tf, 32),
    "MLP step, 256 hidden": lambda tf: mlp(tf, 256),
    "chain of 10 products 32x32": lambda tf: chains(tf, 1, 10, 32),
    "chain of 1,000 products 8x8": lambda tf: chains(tf, 1, 1000, 8),
    "8 chains of 8 products 256x256": lambda tf: chains(tf, 8, 8, 256),
    "32 chains of 8 products 64x64": lambda tf: chains(tf, 32, 8, 64),
    "fan-out of 10": lambda tf: fan_out(tf, 10),
    "fan-out of 100": lambda tf: fan_out(tf, 100),
    "fan-out of 1,000": lambda tf: fan_out(tf, 1000),
    "fan-out of 10,000": lambda tf: fan_out(tf, 10_000),
    "loop of 1,000 iterations": lambda tf: loop(tf, 1000),
}


def steps_of(make: Callable[[Any], Any]) -> dict[str, Callable[[], Any]]:
    """A step of the graph for each executor. No optimiser may change the graph, and each kernel has one thread."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    tf1.disable_control_flow_v2()
    steps = {}
    with tf.Graph().as_default():
        fetch = make(tf)
        initialise = tf1.global_variables_initializer()
        for name in (BASE, *runtime.built()):
            config = tf1.ConfigProto(intra_op_parallelism_threads=1)
            config.graph_options.rewrite_options.disable_meta_optimizer = True
            config.graph_options.optimizer_options.opt_level = tf1.OptimizerOptions.L0
            session = tf1.Session(config=runtime.session_config(name, config))
            session.run(initialise)
            steps[name] = session.make_callable(fetch)
    return steps


def report() -> Iterator[str]:
    """The lines of the report."""
    before = machine_load.sample()
    times = measure({graph: steps_of(make) for graph, make in GRAPHS.items()}, ROUNDS, SECONDS)
    meanwhile = MachineState(**machine_load.between(before, machine_load.sample()))
    yield "# How fast executors are"
    yield ""
    yield from wrap(
        f"{display_name(platform_facts())}; {utc_now()[:10]}. Written by `python -m tests.speed.executor_speed`. "
        f"Median time of a step over {ROUNDS} rounds, in which the executors alternate. The ratio is to {BASE} in the "
        "same round, with its 95 % interval. Kernels have one thread, and no optimiser changes the graphs.",
        LINE,
    )
    yield ""
    yield from table(times)
    yield ""
    yield f"Meanwhile {state(meanwhile)}; at the end the load average over 5 minutes was {os.getloadavg()[1]:.1f}."


def table(times: Mapping[str, Mapping[str, Sequence[float]]]) -> Iterator[str]:
    """The time per step of each graph: of the base, and of each other executor with its ratio."""
    others = runtime.built()
    yield f"| graph | {BASE}, ms | {' | '.join(f'{name}, ms | ratio' for name in others)} |"
    yield f"|---|--:|{'--:|--:|' * len(others)}"
    for graph, of_graph in times.items():
        cells = [graph, f"{1e3 * statistics.median(of_graph[BASE]):.3f}"]
        for name in others:
            ratio = ratio_interval(of_graph[name], of_graph[BASE])
            cells += [f"{1e3 * statistics.median(of_graph[name]):.3f}", interval(ratio.estimate, ratio.low, ratio.high)]
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    parser = command_line.parser()
    parser.add_argument("report", type=command_line.report, help="the Markdown file to write")
    asked = parser.parse_args()
    write_text(asked.report, "\n".join(report()) + "\n")
