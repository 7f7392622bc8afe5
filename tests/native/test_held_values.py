"""A value read from a resource variable does not change while it is in use, and protecting it loses no update."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from graphs import in_threads, session_of, tf, tf1
from variants import KEEPING, STRATEGIES

from tmflow.native import ops, registry
from tmflow.native.registry import resolve

pytestmark = pytest.mark.usefixtures("runs_here")

ELEMENTS = 50_000
ONES = np.ones(ELEMENTS, np.float32)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_variable_that_was_assigned_from_another_one_keeps_its_value(strategy: str) -> None:
    with session_of(np.zeros(8, np.float32), "resource", strategy) as (graph, session):
        best = tf1.Variable(np.zeros(8, np.float32), use_resource=True)
        keep, restore = best.assign(graph.variable), graph.variable.assign(best)
        arguments: dict[str, Any] = {"strategy": resolve(strategy), "tracker": graph.tracker, "index": 0}
        settle, restart = (ops.settle(graph.variable, restart=again, **arguments) for again in (False, True))
        feeds = {graph.worker: 0, graph.delta: np.ones(8, np.float32)}
        session.run(best.initializer)
        session.run(graph.apply, feeds)
        session.run(settle)
        session.run(keep.op)
        for _ in range(3):
            session.run(graph.apply, feeds)
        assert graph.value(session).tolist() == [-4] * 8
        assert session.run(best).tolist() == [-1] * 8
        session.run(restore.op)
        session.run(restart)
        session.run(graph.apply, feeds)
        assert graph.value(session).tolist() == [-2] * 8
        assert session.run(best).tolist() == [-1] * 8


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_value_that_is_still_in_use_is_not_changed(strategy: str) -> None:
    """It is read, the variable is updated, and only then the value is used."""
    with session_of(np.zeros(8, np.float32), "resource", strategy) as (graph, session):
        feeds = {graph.worker: 0, graph.delta: np.ones(8, np.float32)}
        arguments: dict[str, Any] = {"strategy": resolve(strategy), "tracker": graph.tracker, "worker": 0, "index": 0}
        session.run(graph.apply, feeds)
        expected = graph.value(session).copy()
        read = graph.variable.read_value()
        with tf.control_dependencies([read]):
            apply = ops.apply_gradient_descent(graph.variable, 1, graph.delta, **arguments)
        with tf.control_dependencies([apply]):
            used = read + 0
        assert session.run(used, feeds).tolist() == expected.tolist()
        assert graph.value(session).tolist() == [-2] * 8


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if not registry.require(name).keeps_elsewhere])
def test_the_variable_is_copied_once_for_each_value_that_is_held(strategy: str) -> None:
    """No copy is made if no value is in use, or if the variable is only viewed."""
    with session_of(np.zeros(ELEMENTS, np.float32), "resource", strategy) as (graph, session):
        other = tf1.Variable(np.zeros(ELEMENTS, np.float32), use_resource=True)
        keep = other.assign(graph.variable, read_value=False)
        view = ops.view(graph.variable)
        with tf.control_dependencies([view]):
            apply = ops.apply_gradient_descent(
                graph.variable, 1, graph.delta, strategy=resolve(strategy), tracker=graph.tracker, worker=0, index=0
            )
        with tf.control_dependencies([apply]):
            viewed_later = view + 0
        feeds = {graph.worker: 0, graph.delta: ONES}
        session.run(graph.apply, feeds)
        for updates in (2, 3, 4):
            assert np.unique(session.run(viewed_later, feeds)).tolist() == [-updates]  # in place
        session.run(keep)
        assert np.unique(session.run(viewed_later, feeds)).tolist() == [
            -4
        ]  # the view has the memory of the other variable
        for updates in (6, 7):
            assert np.unique(session.run(viewed_later, feeds)).tolist() == [-updates]
        assert np.unique(session.run(other)).tolist() == [-4]
        assert np.unique(session.run(graph.variable)).tolist() == [-7]


@pytest.mark.parametrize("strategy", KEEPING)
def test_copies_that_are_made_meanwhile_lose_no_update(strategy: str) -> None:
    """Four workers update while one keeps assigning the variable to another one."""
    steps = 60
    with session_of(np.zeros(ELEMENTS, np.float32), "resource", strategy, workers=4, alpha=-1) as (graph, session):
        best = tf1.Variable(np.zeros(ELEMENTS, np.float32), use_resource=True)
        session.run(best.initializer)
        keep = session.make_callable(best.assign(graph.variable, read_value=False))
        with ThreadPoolExecutor(1) as pool:
            training = pool.submit(in_threads, graph, session, workers=4, steps=steps, delta=ONES)
            kept = until_done(training.done, keep)
            training.result()
        assert kept > 0
        assert np.unique(graph.value(session)).tolist() == [4 * steps]


def until_done(done: Callable[[], bool], call: Callable[[], object]) -> int:
    """Call as often as possible, at least once; return the number of calls."""
    calls = 0
    while not calls or not done():
        call()
        calls += 1
    return calls


@pytest.mark.parametrize("strategy", ["lock", "spin_then_mutex"])
def test_under_the_variables_mutex_what_is_kept_is_whole_and_stays(strategy: str) -> None:
    with session_of(np.zeros(ELEMENTS, np.float32), "resource", strategy, workers=4, alpha=-1) as (graph, session):
        others = [tf1.Variable(np.zeros(ELEMENTS, np.float32), use_resource=True) for _ in range(10)]
        calls = []
        for other in others:
            with tf.control_dependencies([other.assign(graph.variable, read_value=False)]):
                calls.append(session.make_callable(other.read_value()))
        kept: dict[int, Any] = {}
        with ThreadPoolExecutor(1) as pool:
            training = pool.submit(in_threads, graph, session, workers=4, steps=60, delta=ONES)
            until_done(training.done, lambda: kept.update({len(kept) % 10: calls[len(kept) % 10]()}))
            training.result()
        for number, value in kept.items():
            np.testing.assert_array_equal(session.run(others[number]), value)
            assert len(np.unique(value)) == 1


def test_a_variable_that_is_read_sparsely_is_updated_in_place() -> None:
    """From then on TensorFlow shares its memory with nobody, so no copy is needed: a view sees the update."""
    with session_of(np.zeros((1000, 8), np.float32), "resource", "striped") as (graph, session):
        feeds = {graph.worker: 0, graph.delta: np.ones((1000, 8), np.float32)}
        add = tf.raw_ops.ResourceScatterAdd(
            resource=graph.variable.handle, indices=[3, 5], updates=np.ones((2, 8), np.float32)
        )
        view = ops.view(graph.variable)
        with tf.control_dependencies([view]):
            apply = ops.apply_gradient_descent(
                graph.variable, 1, graph.delta, strategy=resolve("striped"), tracker=graph.tracker, worker=0, index=0
            )
        with tf.control_dependencies([apply]):
            viewed_later = view[4, 0] + 0
        session.run(add)
        session.run(graph.apply, feeds)
        held = session.run(graph.variable)
        for updates in (2, 3, 4):
            assert session.run(viewed_later, feeds) == -updates
            session.run(add)
        assert session.run(graph.variable)[3:5, 0].tolist() == [0, -4]
        assert held[3:5, 0].tolist() == [0, -1]


def test_a_view_is_no_memory_that_a_kernel_may_reuse() -> None:
    with session_of(np.ones(ELEMENTS, np.float32), "resource", "lock") as (graph, session):
        session.run(graph.apply, {graph.worker: 0, graph.delta: ONES})
        view = ops.view(graph.variable)
        for computed in (view + 1, tf.nn.relu(tf.reshape(view, [-1, 8])[:8] + 3), tf.exp(tf.identity(view))):
            session.run(computed)
        assert np.unique(session.run(graph.variable)).tolist() == [0]


def test_a_view_is_not_reused_while_another_variable_holds_its_memory() -> None:
    """The update moves the variable to a copy, so the view is the last user of the memory."""
    with session_of(np.zeros(ELEMENTS, np.float32), "resource", "lock") as (graph, session):
        feeds = {graph.worker: 0, graph.delta: ONES}
        arguments: dict[str, Any] = {"strategy": resolve("lock"), "tracker": graph.tracker, "worker": 0, "index": 0}
        best = tf1.Variable(np.zeros(ELEMENTS, np.float32), use_resource=True)
        session.run(best.initializer)
        session.run(graph.apply, feeds)
        view = ops.view(graph.variable)
        with tf.control_dependencies([view]):
            keep = best.assign(graph.variable)
        with tf.control_dependencies([keep.op]):
            apply = ops.apply_gradient_descent(graph.variable, 1, graph.delta, **arguments)
        with tf.control_dependencies([apply]):
            used = view + 1
        assert np.unique(session.run(used, feeds)).tolist() == [0]
        assert np.unique(session.run(best)).tolist() == [-1]
        assert np.unique(graph.value(session)).tolist() == [-2]


def test_a_view_of_another_type_or_before_the_first_value_is_refused() -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(np.ones(3, np.float64), use_resource=True)
        view = ops.view(variable)
        with pytest.raises(tf.errors.FailedPreconditionError, match="not init"):
            session.run(view)
        session.run(variable.initializer)
        assert session.run(view).tolist() == [1] * 3
        wrong = ops.loader.ops().tmflow_resource_view(variable.handle, T=tf.float32)
        with pytest.raises(tf.errors.InvalidArgumentError, match="must have the same type"):
            session.run(wrong)
