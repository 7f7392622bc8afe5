"""The TensorFlow operations in a real session, on reference and resource variables."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from graphs import KINDS, in_threads, initialise, session_of, tf, tf1, value_of
from variants import KEEPING, STRATEGIES

from tmflow.base.errors import BadInput
from tmflow.native import loader, ops, registry
from tmflow.native.registry import resolve

pytestmark = pytest.mark.usefixtures("runs_here")

OURS = [(kind, strategy) for kind in KINDS for strategy in STRATEGIES]
EVERY = [*OURS, ("ref", "tf_lock"), ("ref", "tf_nolock"), ("resource", "tf_lock")]
TENSORS = [
    *((dtype, shape) for dtype in (np.float32, np.float64) for shape in [(), (0,), (1,), (784, 10)]),
    (np.float32, (3_000_017,)),
]
LONG = 1_000_000  # elements: updates of this size overlap unless they are synchronised
LONG_LOOP = 50_000  # the same for strategies that are slow per element


@pytest.mark.parametrize(("kind", "strategy"), EVERY)
@pytest.mark.parametrize(("dtype", "shape"), TENSORS)
def test_updates_are_what_numpy_computes(kind: str, strategy: str, dtype: Any, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(1)
    value, delta = random.normal(size=(2, *shape)).astype(dtype)
    with session_of(value, kind, strategy, alpha=0.3) as (graph, session):
        for _ in range(2):
            session.run(graph.apply, {graph.worker: 0, graph.delta: delta})
            value = value - dtype(0.3) * delta
        result = graph.value(session)
    if not strategy.startswith("tf_"):
        np.testing.assert_array_equal(result, value)
    else:  # TensorFlow's kernel may fuse multiplication and subtraction
        np.testing.assert_allclose(result, value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", ["lock", "tf_lock"])
def test_four_threads_under_a_lock_lose_nothing(kind: str, strategy: str) -> None:
    with session_of(np.zeros(LONG, np.float32), kind, strategy, workers=4, alpha=-1) as (graph, session):
        in_threads(graph, session, workers=4, steps=100, delta=np.ones(LONG, np.float32))
        assert np.unique(graph.value(session)).tolist() == [400]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", KEEPING)
@pytest.mark.parametrize("elements", [1, LONG_LOOP])
def test_four_threads_lose_no_update_that_is_guaranteed(kind: str, strategy: str, elements: int) -> None:
    with session_of(np.zeros(elements, np.float32), kind, strategy, workers=4, alpha=-1) as (graph, session):
        in_threads(graph, session, workers=4, steps=40, delta=np.ones(elements, np.float32))
        assert np.unique(graph.value(session)).tolist() == [160]
        assert [row["updates"] for row in graph.tracker.stats(session).counters] == [40] * 4


@pytest.mark.parametrize(("kind", "strategy"), OURS)
def test_several_variables_of_a_step_are_updated_and_counted_apart(kind: str, strategy: str) -> None:
    """Variables of both types, one of them empty, one of one element; two workers whose steps update them all."""
    initial = [np.ones(shape, dtype) for shape in [(784, 10), (10,), (1,), (), (0,)] for dtype in ("f4", "f8")]
    with tf.Graph().as_default(), tf1.Session() as session:
        variables = [tf1.Variable(value, use_resource=KINDS[kind]) for value in initial]
        tracker = ops.Tracker(2, [f"v{index}" for index in range(len(variables))])
        worker = tf1.placeholder(tf.int32, [])
        arguments: dict[str, Any] = {"strategy": resolve(strategy), "tracker": tracker, "worker": worker}
        updates = [
            ops.apply_gradient_descent(variable, -0.5, tf.ones_like(variable) * (2 * i), **arguments, index=i)
            for i, variable in enumerate(variables)
        ]
        step = tf.group(*updates)
        for i, variable in enumerate(variables):
            initialise(session, variable, strategy, tracker, i)
        call = session.make_callable(step, [worker])
        steps = {0: 30, 1: 20}
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda own: [call(np.int32(own)) for _ in range(steps[own])], steps))
        results = [value_of(session, variable, strategy, tracker, i) for i, variable in enumerate(variables)]
        for i, (value, result) in enumerate(zip(initial, results, strict=True)):
            assert (result.dtype, result.shape) == (value.dtype, value.shape)
            assert (result <= 1 + 50 * i).all()
            assert strategy not in KEEPING or (result == 1 + 50 * i).all()
        counted = {(row["worker"], row["variable"]): row["updates"] for row in tracker.stats(session).counters}
        assert counted == {(own, f"v{i}"): n for own, n in steps.items() for i in range(len(initial))}


@pytest.mark.parametrize("kind", KINDS)
def test_lock_takes_the_mutex_that_tensorflow_takes(kind: str) -> None:
    """Our locked update and TensorFlow's, concurrently on one variable: they lose nothing only with the same mutex."""
    with session_of(np.zeros(LONG, np.float32), kind, "lock", alpha=-1) as (graph, session):
        if kind == "ref":
            stock = tf.raw_ops.ApplyGradientDescent(
                var=graph.variable.op.outputs[0], alpha=-1.0, delta=graph.delta, use_locking=True
            ).op
        else:
            stock = tf.raw_ops.ResourceApplyGradientDescent(
                var=graph.variable.handle, alpha=-1.0, delta=graph.delta, use_locking=True
            )
        ours, theirs = (session.make_callable(op, [graph.worker, graph.delta]) for op in (graph.apply, stock))
        delta = np.ones(LONG, np.float32)
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(call, np.int32(0), delta) for _ in range(200) for call in (ours, theirs)]:
                done.result()
        assert np.unique(graph.value(session)).tolist() == [400]


@pytest.mark.parametrize("kind", KINDS)
def test_nolock_never_gains_an_update(kind: str) -> None:
    with session_of(np.zeros(7850, np.float32), kind, "nolock", workers=4, alpha=-1) as (graph, session):
        in_threads(graph, session, workers=4, steps=250, delta=np.ones(7850, np.float32))
        result = graph.value(session)
    assert result.min() >= 250
    assert result.max() <= 1000


@pytest.mark.parametrize(("kind", "strategy"), OURS)
def test_updates_are_in_place(kind: str, strategy: str) -> None:
    """A second update does not move the memory: a view of the first one sees it."""
    if registry.require(strategy).keeps_elsewhere:
        pytest.skip(f"{strategy} updates copies of its own: it guarantees nothing about reads of the memory")
    with session_of(np.zeros(8, np.float32), kind, strategy) as (graph, session):
        feeds = {graph.worker: 0, graph.delta: np.ones(8, np.float32)}
        session.run(graph.apply, feeds)
        with tf.control_dependencies(None):
            view = ops.view(graph.variable)
            with tf.control_dependencies([view]):
                apply = ops.apply_gradient_descent(
                    graph.variable, 1, graph.delta, strategy=resolve(strategy), tracker=graph.tracker, worker=0, index=0
                )
            with tf.control_dependencies([apply]):
                seen_later = view + 0
        assert session.run(seen_later, feeds).tolist() == [-2] * 8


@pytest.mark.parametrize(("kind", "strategy"), OURS)
def test_the_constant_that_a_variable_was_assigned_from_stays_as_it_is(kind: str, strategy: str) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        constant = tf.constant(np.arange(1000, dtype=np.float32))
        variable = tf1.Variable(constant, use_resource=kind == "resource")
        tracker = ops.Tracker(1, ["w"])
        apply = ops.apply_gradient_descent(
            variable, 1.0, tf.ones([1000]), strategy=resolve(strategy), tracker=tracker, worker=0, index=0
        )
        for updates in (1, 3):  # the second time, the variable already has separate memory
            initialise(session, variable, strategy, tracker)
            for _ in range(updates):
                session.run(apply)
            np.testing.assert_array_equal(value_of(session, variable, strategy, tracker), np.arange(1000) - updates)
            np.testing.assert_array_equal(session.run(constant), np.arange(1000))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_operations_on_one_resource_variable_share_its_memory(strategy: str) -> None:
    with session_of(np.zeros(8, np.float32), "resource", strategy) as (graph, session):
        second = ops.apply_gradient_descent(
            graph.variable, 10, graph.delta, strategy=resolve(strategy), tracker=graph.tracker, worker=0, index=0
        )
        for apply in (graph.apply, second, graph.apply, second):
            session.run(apply, {graph.worker: 0, graph.delta: np.ones(8, np.float32)})
        assert graph.value(session).tolist() == [-22] * 8


@pytest.mark.parametrize(("kind", "strategy"), OURS)
def test_an_uninitialised_variable_is_named(kind: str, strategy: str) -> None:
    with tf.Graph().as_default():
        variable = tf1.Variable(np.zeros(3, np.float32), use_resource=kind == "resource", name="weights")
        tracker = ops.Tracker(1, ["w"])
        apply = ops.apply_gradient_descent(
            variable, 1.0, tf.zeros([3]), strategy=resolve(strategy), tracker=tracker, worker=0, index=0
        )
        with (
            tf1.Session() as session,
            pytest.raises(tf.errors.FailedPreconditionError, match=r"uninit|not init") as caught,
        ):
            session.run(apply)
        assert "weights" in caught.value.message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [[4], [3, 1], []])
def test_a_delta_of_another_shape_fails_when_the_graph_is_built(kind: str, shape: list[int]) -> None:
    with tf.Graph().as_default():
        variable = tf1.Variable(np.zeros(3, np.float32), use_resource=kind == "resource")
        tracker = ops.Tracker(1, ["w"])
        arguments: dict[str, Any] = {"strategy": resolve("lock"), "tracker": tracker, "worker": 0, "index": 0}
        with pytest.raises(ValueError, match=r"Shapes must be equal rank|Dimension 0 in both shapes must be equal"):
            ops.apply_gradient_descent(variable, 1.0, tf.zeros(shape), **arguments)


@pytest.mark.parametrize(("kind", "strategy"), OURS)
def test_a_delta_whose_shape_turns_out_wrong_changes_nothing(kind: str, strategy: str) -> None:
    with session_of(np.ones(3, np.float32), kind, strategy) as (graph, session):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"shape \[3\] and delta has shape \[4\]"):
            session.run(graph.step, {graph.worker: 0, graph.delta: np.ones(4, np.float32)})
        assert graph.value(session).tolist() == [1, 1, 1]
        counters, _, staleness, *_ = graph.tracker.stats(session)
        assert [row["updates"] for row in counters] == [0]
        assert staleness == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_out_of_range_changes_nothing(kind: str) -> None:
    with session_of(np.ones(3, np.float32), kind, "lock", workers=2) as (graph, session):
        for worker in (2, -2):  # -1 is any worker
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"worker {worker} is out of range: there are 2"):
                session.run(graph.apply, {graph.worker: worker, graph.delta: np.ones(3, np.float32)})
        assert graph.value(session).tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", ["tmflow_apply_gradient_descent", "tmflow_resource_apply_gradient_descent"])
def test_an_unknown_strategy_fails_at_graph_construction_with_the_valid_ones(name: str) -> None:
    with tf.Graph().as_default():
        variable = tf1.Variable(np.zeros(3, np.float32), use_resource="resource" in name)
        tracker = ops.Tracker(1, ["w"])
        target = variable.op.outputs[0]
        with pytest.raises(ValueError, match=r"'lok' not in: .*\"lock\", .*\"nolock\""):
            getattr(loader.ops(), name)(target, 1.0, tf.zeros([3]), tracker.handle, 0, strategy="lok", variable=0)


def test_helpers_answer_a_misspelled_strategy_with_all_of_them() -> None:
    with pytest.raises(BadInput, match=r"unknown strategy 'lok' .*valid: .*lock, .*nolock, .*tf_lock, tf_nolock"):
        resolve("lok")


def test_the_stock_unlocked_update_is_refused_on_resource_variables() -> None:
    refused = pytest.raises(BadInput, match=r"'tf_nolock' needs reference variables .* no unlocked baseline")
    with refused, session_of(np.zeros(3, np.float32), "resource", "tf_nolock"):
        pass


def test_two_variables_under_one_number_are_refused() -> None:
    with session_of(np.zeros(3, np.float32), "ref", "lock") as (graph, session):
        other = tf1.Variable(np.zeros(3, np.float32), use_resource=False)
        apply = ops.apply_gradient_descent(
            other, 1.0, tf.zeros([3]), strategy=resolve("lock"), tracker=graph.tracker, worker=0, index=0
        )
        session.run(other.initializer)
        session.run(graph.apply, {graph.worker: 0, graph.delta: np.ones(3, np.float32)})
        with pytest.raises(tf.errors.InvalidArgumentError, match="counts another variable under this number"):
            session.run(apply)
