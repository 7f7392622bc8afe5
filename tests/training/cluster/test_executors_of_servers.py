"""Executors on the tasks of a cluster: each task runs its part of a graph under the executor of the session."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support.executors import require_executor
from tests.support.transports import OURS, require_transport
from tests.training.test_cluster import run, updates
from tmflow import runtime
from tmflow.training.cluster.addresses import on_this_machine
from tmflow.training.cluster.driver import POOL
from tmflow.training.cluster.task import start_server

tf1 = tf.compat.v1
pytestmark = pytest.mark.slow
PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"
STEPS = 20


@pytest.fixture(scope="module", params=OURS)
def target(request: pytest.FixtureRequest) -> Iterator[str]:
    """Of a server and a worker in this process, so that the counts of its executors are those of both tasks."""
    transport, addresses = require_transport(request.param), on_this_machine(1, 1)
    servers = [start_server(addresses, job, 0, transport) for job in ("ps", "worker")]
    yield str(servers[1].target)
    del servers  # which stops them


@pytest.fixture(params=runtime.names()[1:])
def name(request: pytest.FixtureRequest) -> str:
    return require_executor(request.param)


def losses_and_weights(target: str, executor: str) -> tuple[Any, Any]:
    """Of a training on random images, with the weights on the server."""
    generator = np.random.default_rng(1)
    images, labels = generator.normal(size=(64, 784)).astype(np.float32), generator.integers(0, 10, 64)
    with tf.Graph().as_default(), tf1.container(f"of{executor.replace('_', '')}"):
        with tf.device(PS):
            weights = tf1.Variable(np.zeros((784, 10), np.float32), use_resource=False)
        with tf.device(WORKER):
            logits = tf.constant(images) @ weights
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
            (gradient,) = tf.gradients(loss, [weights])
        with tf.device(PS):
            step = tf1.assign_sub(weights, 0.1 * gradient)
        with tf1.Session(target, config=runtime.session_config(executor)) as session:
            session.run(weights.initializer)
            losses = [session.run([loss, step.op])[0] for _ in range(STEPS)]
            return np.array(losses), session.run(weights)


def test_every_task_runs_its_part_under_the_executor(target: str, name: str) -> None:
    before = runtime.counts(name)
    losses, weights = losses_and_weights(target, name)
    after = runtime.counts(name)
    assert after.executors >= before.executors + 2  # the worker's part of the graph of a step, and the server's
    assert after.steps >= before.steps + 2 * STEPS
    for ours, theirs in zip((losses, weights), losses_and_weights(target, runtime.TENSORFLOW), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert runtime.counts(name) == after  # a session that does not ask for it has TensorFlow's


def test_what_a_kernel_keeps_is_kept_between_the_graphs_of_a_session(target: str, name: str) -> None:
    """Kernels with a state belong to the session: the same random operation and queue in two graphs of it."""
    with tf.Graph().as_default(), tf.device(PS):
        tf1.set_random_seed(3)
        queue = tf1.FIFOQueue(10, tf.float32, [[]])
        number = tf.random.uniform([])
        put, taken = queue.enqueue(number), queue.dequeue()
        values = []
        for executor in (name, runtime.TENSORFLOW):
            with tf1.Session(target, config=runtime.session_config(executor)) as session:
                first = session.run(number)
                session.run(put)
                values.append([first, session.run(taken), session.run(number), session.run(queue.size())])
        assert values[0] == values[1]
        assert len(set(values[0][:3])) == 3


def test_loops_conditions_and_errors(target: str, name: str) -> None:
    tf1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default():
            limit = tf1.placeholder(tf.int32, [])
            with tf.device(PS):
                total = tf1.while_loop(lambda i, _: i < limit, lambda i, x: (i + 1, x + i), [0, 0])[1]
            with tf.device(WORKER), tf.control_dependencies([tf1.assert_less(limit, 50, message="too many")]):
                chosen = tf1.cond(total > 10, lambda: total * 2, lambda: -total)
            with tf1.Session(target, config=runtime.session_config(name)) as session:
                assert [session.run(chosen, {limit: n}) for n in (3, 10)] == [-3, 90]
                with pytest.raises(tf.errors.InvalidArgumentError, match="too many"):
                    session.run(chosen, {limit: 50})
                assert session.run(chosen, {limit: 10}) == 90
    finally:
        tf1.enable_control_flow_v2()


def test_steps_at_the_same_time_while_sessions_come_and_go(target: str, name: str) -> None:
    def train(number: int) -> int:
        with tf.Graph().as_default(), tf1.container(f"{name.replace('_', '')}{number}"), tf.device(PS):
            counter = tf1.Variable(np.int64(0), use_resource=False)
            add = tf1.assign_add(counter, 1, use_locking=True).op
            with tf.device(WORKER):
                read = tf.identity(counter)
            with tf1.Session(target, config=runtime.session_config(name)) as session:
                session.run(counter.initializer)
                with ThreadPoolExecutor(4) as pool:
                    list(pool.map(lambda _: session.run(add), range(100)))
                return int(session.run(read))

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(train, range(6))) == [100] * 6


def test_an_unknown_executor_is_an_error_and_harms_nothing(target: str) -> None:
    config = tf1.ConfigProto()
    config.experimental.executor_type = "NONE"
    with tf.Graph().as_default(), tf.device(PS):
        two = tf1.placeholder_with_default(1, []) + 1
        with tf1.Session(target, config=config) as session:
            for _ in range(2):
                with pytest.raises(tf.errors.NotFoundError, match=r"No executor factory registered .* NONE"):
                    session.run(two)
        with tf1.Session(target) as session:
            assert session.run(two) == 2


@pytest.mark.deep
def test_a_trial_of_the_driver_has_its_executor_on_every_task(name: str) -> None:
    try:
        ours, theirs = (run(transport="df", executor=executor, threads=1) for executor in (name, runtime.TENSORFLOW))
        assert ours.final_accuracy == theirs.final_accuracy
        assert updates(run(transport="df", executor=name, mode="sync", threads=2)) == {"W": 100, "b": 100}
    finally:
        POOL.close()
