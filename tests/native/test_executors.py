"""Each executor runs what TensorFlow's runs: control flow, variables, errors, cancellation, statistics, threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import psutil
import pytest

from tests.support.executors import require_executor
from tmflow import runtime
from tmflow.runtime.executors import SCHEDULERS

tf = pytest.importorskip("tensorflow")
tf1 = tf.compat.v1

pytestmark = pytest.mark.timeout(120, func_only=True)  # not the build of the libraries


@pytest.fixture(params=SCHEDULERS)
def name(request: pytest.FixtureRequest) -> str:
    return require_executor(request.param)


@pytest.fixture
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


def session(name: str, **options: Any) -> Any:
    return tf1.Session(config=runtime.session_config(name, tf1.ConfigProto(**options)))


def results(fetches: Any, feeds: Any = None, initialise: bool = False) -> dict[str, Any]:
    """The values of the fetches under every executor."""
    values = {}
    for name in (runtime.TENSORFLOW, *runtime.built()):
        with session(name) as of_name:
            if initialise:
                of_name.run(tf1.global_variables_initializer())
            values[name] = of_name.run(fetches, feeds)
    return values


def wait_until(is_so: Callable[[], bool]) -> None:
    """Return once it is so; the time limit of the tests ends the wait if it never is."""
    while not is_so():
        time.sleep(0.001)


def assert_all_equal(values: dict[str, Any]) -> None:
    for name in runtime.built():
        tf.nest.map_structure(np.testing.assert_array_equal, values[name], values["tensorflow"])


class TestItIsReallyUsed:
    @pytest.mark.usefixtures("graph")
    def test_by_a_session(self, name: str) -> None:
        before = runtime.counts(name)
        total = tf.constant(2) + tf1.placeholder_with_default(3, [])
        with session(name) as of_name:
            assert [of_name.run(total) for _ in range(4)] == [5] * 4
        done = [after - start for after, start in zip(runtime.counts(name), before, strict=True)]
        assert done[0] >= 1
        assert done[1] >= 4
        assert done[2] >= 4 * 2
        assert done[3] >= 4

    def test_by_a_function_while_it_is_chosen(self, name: str) -> None:
        double = tf.function(lambda x: x * 2)
        assert double(tf.constant(2)).numpy() == 4
        before = runtime.counts(name).steps
        with runtime.executor(name):
            assert double(tf.constant(3)).numpy() == 6
            assert runtime.counts(name).steps == before + 1
            with runtime.executor("tensorflow"):
                assert double(tf.constant(4)).numpy() == 8
            assert runtime.counts(name).steps == before + 1
        assert double(tf.constant(5)).numpy() == 10
        assert runtime.counts(name).steps == before + 1

    def test_not_by_other_threads(self, name: str) -> None:
        triple = tf.function(lambda x: x * 3)
        before = runtime.counts(name).steps
        with runtime.executor(name), ThreadPoolExecutor(1) as pool:
            assert pool.submit(triple, tf.constant(2)).result().numpy() == 6
        assert runtime.counts(name).steps == before

    def test_a_config_keeps_its_other_options(self, name: str) -> None:
        given = tf1.ConfigProto(inter_op_parallelism_threads=3)
        config = runtime.session_config(name, given)
        assert config.inter_op_parallelism_threads == 3
        assert config.experimental.executor_type == f"TMFLOW_{name.upper()}"
        assert given.experimental.executor_type == ""


@pytest.mark.usefixtures("graph")
class TestControlFlow:
    @pytest.fixture(params=["v1", "v2"])
    def version(self, request: pytest.FixtureRequest) -> Iterator[str]:
        toggle = {"v1": tf1.disable_control_flow_v2, "v2": tf1.enable_control_flow_v2}
        was_v2 = tf1.control_flow_v2_enabled()
        toggle[request.param]()
        yield str(request.param)
        toggle["v2" if was_v2 else "v1"]()

    @pytest.mark.usefixtures("version")
    def test_loops_in_loops(self) -> None:
        start = tf1.placeholder_with_default(np.float32(1), [])

        def inner(total: Any, row: Any) -> Any:
            return tf1.while_loop(lambda i, _: i < row, lambda i, x: (i + 1, x * 1.5 + 1), [tf.constant(0), total])[1]

        outer = tf1.while_loop(lambda i, _: i < 7, lambda i, x: (i + 1, inner(x, i)), [tf.constant(0), start])
        assert_all_equal(results(outer))

    @pytest.mark.usefixtures("version")
    def test_gradients_of_a_loop(self) -> None:
        x = tf1.placeholder_with_default(np.linspace(0.1, 1, 8, dtype=np.float32), [8])
        _, y = tf1.while_loop(lambda i, _: i < 20, lambda i, y: (i + 1, tf.sin(y) + x), [tf.constant(0), x])
        assert_all_equal(results([y, *tf.gradients(y, x)]))

    @pytest.mark.usefixtures("version")
    def test_both_branches_of_a_condition(self) -> None:
        positive = tf1.placeholder(tf.bool, [])
        x = tf1.placeholder_with_default(np.float32(3), [])
        branch = tf1.cond(positive, lambda: x * 2, lambda: tf.cond(x > 2, lambda: x - 1, lambda: x))
        assert_all_equal(results(branch, {positive: True}))
        assert_all_equal(results(branch, {positive: False}))

    def test_a_dead_branch_across_devices(self, name: str) -> None:
        """A dead value must reach the other device, which waits for it."""
        tf1.disable_control_flow_v2()
        positive = tf1.placeholder(tf.bool, [])
        with tf.device("/cpu:1"):
            branch = tf1.cond(positive, lambda: tf.constant(1), lambda: tf.constant(2))
        with session(name, device_count={"CPU": 2}) as of_name:
            assert of_name.run(branch, {positive: True}) == 1
            assert of_name.run(branch, {positive: False}) == 2


@pytest.mark.usefixtures("graph")
class TestVariables:
    @pytest.mark.parametrize("kind", ["ref", "resource"])
    def test_assignments_and_reads(self, kind: str) -> None:
        variable = tf1.Variable(tf.ones([3, 2]), use_resource=kind == "resource")
        with tf.control_dependencies([tf1.assign_add(variable, tf.ones([3, 2]))]):
            read = variable.read_value()
        with tf.control_dependencies([read]):
            scatter = tf1.scatter_sub(variable, [1], [[2.0, 3.0]])
        with tf.control_dependencies([scatter]):
            read_again = variable.read_value()
        assert_all_equal(results([read, read_again], initialise=True))

    @pytest.mark.parametrize("kind", ["ref", "resource"])
    def test_a_variable_without_value_is_an_error(self, name: str, kind: str) -> None:
        variable = tf1.Variable(tf.ones([2]), use_resource=kind == "resource", name="weights")
        with session(name) as of_name:
            with pytest.raises(tf.errors.FailedPreconditionError, match=r"(?s)weights"):
                of_name.run(variable.read_value())
            assert not of_name.run(tf1.is_variable_initialized(variable))
            of_name.run(variable.initializer)
            assert of_name.run(variable).tolist() == [1, 1]

    def test_updates_under_the_mutex_are_never_lost(self, name: str) -> None:
        variable = tf1.Variable(np.int64(0), use_resource=False)
        update = tf1.assign_add(variable, 1, use_locking=True).op
        with session(name) as of_name:
            of_name.run(variable.initializer)
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda _: of_name.run(update), range(400)))
            assert of_name.run(variable) == 400


@pytest.mark.usefixtures("graph")
class TestErrors:
    def test_the_error_of_an_assertion(self, name: str) -> None:
        x = tf1.placeholder(tf.int32, [])
        with tf.control_dependencies([tf1.assert_less(x, 3, message="too large")]):
            y = tf.identity(x)
        with session(name) as of_name:
            assert of_name.run(y, {x: 2}) == 2
            with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
                of_name.run(y, {x: 3})
            assert of_name.run(y, {x: 1}) == 1

    def test_the_first_error_wins_and_ends_what_waits(self, name: str) -> None:
        queue = tf1.FIFOQueue(1, tf.int32)
        fails = tf1.assert_equal(tf1.placeholder_with_default(1, []), 2, message="the cause")
        with session(name) as of_name, pytest.raises(tf.errors.InvalidArgumentError, match="the cause"):
            of_name.run([queue.dequeue(), fails])

    def test_an_error_in_a_loop(self, name: str) -> None:
        def body(i: Any) -> Any:
            with tf.control_dependencies([tf.debugging.Assert(i < 5, [i])]):
                return i + 1

        with session(name) as of_name, pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
            of_name.run(tf1.while_loop(lambda i: i < 10, body, [tf.constant(0)]))

    def test_an_error_of_python(self, name: str) -> None:
        def fail() -> None:
            raise ValueError("of Python")

        with session(name) as of_name, pytest.raises(tf.errors.InvalidArgumentError, match="of Python"):
            of_name.run(tf1.py_func(fail, [], tf.int32))


@pytest.mark.usefixtures("graph")
class TestCancellation:
    def test_a_time_limit(self, name: str) -> None:
        queue = tf1.FIFOQueue(1, tf.int32)
        options = tf1.RunOptions(timeout_in_ms=100)
        with session(name) as of_name:
            with pytest.raises(tf.errors.DeadlineExceededError):
                of_name.run(queue.dequeue(), options=options)
            of_name.run(queue.enqueue(3))
            assert of_name.run(queue.dequeue()) == 3  # without a limit: a busy machine may take longer

    def test_closing_the_session_ends_a_step_that_waits(self, name: str) -> None:
        dequeue = tf1.FIFOQueue(1, tf.int32).dequeue()
        of_name = session(name)
        with ThreadPoolExecutor(1) as pool:
            before = runtime.counts(name).nodes
            step = pool.submit(of_name.run, dequeue)
            wait_until(lambda: runtime.counts(name).nodes >= before + 2)  # the queue and what waits for it
            of_name.close()
            assert isinstance(step.exception(30), tf.errors.CancelledError)

    def test_closing_the_session_ends_an_endless_loop(self, name: str) -> None:
        loop = tf1.while_loop(lambda i: i >= 0, lambda i: i * 0, [tf1.placeholder_with_default(1, [])])
        of_name = session(name)
        with ThreadPoolExecutor(1) as pool:
            before = runtime.counts(name).steps
            step = pool.submit(of_name.run, loop)
            wait_until(lambda: runtime.counts(name).steps > before)
            of_name.close()
            assert isinstance(step.exception(30), tf.errors.CancelledError)

    def test_the_coordinator_stops_queue_runners(self, name: str) -> None:
        queue = tf1.FIFOQueue(4, tf.int32, [[]])
        numbers = tf1.Variable(0, use_resource=False)
        runner = tf1.train.QueueRunner(queue, [queue.enqueue(tf1.assign_add(numbers, 1))] * 2)
        first = queue.dequeue()
        with session(name) as of_name:
            of_name.run(numbers.initializer)
            coordinator = tf1.train.Coordinator()
            threads = runner.create_threads(of_name, coordinator, start=True)
            assert len([of_name.run(first) for _ in range(20)]) == 20
            coordinator.request_stop()
            coordinator.join(threads, stop_grace_period_secs=30)


@pytest.mark.usefixtures("graph")
class TestOperations:
    def test_python_functions(self) -> None:
        x = tf1.placeholder_with_default(np.arange(4, dtype=np.float32), [4])
        assert_all_equal(results(tf1.py_func(lambda of: of * 2, [x], tf.float32) + 1))

    def test_queues(self, name: str) -> None:
        queue = tf1.FIFOQueue(8, [tf.int32], [[]])
        many = queue.enqueue_many([tf1.placeholder_with_default([1, 2, 3], [3])])
        with session(name) as of_name:
            of_name.run(many)
            assert of_name.run(queue.dequeue_many(3)).tolist() == [1, 2, 3]

    def test_a_dataset(self) -> None:
        dataset = tf.data.Dataset.range(20).map(lambda x: x * x, num_parallel_calls=2).batch(4).prefetch(2)
        rows = tf1.data.make_one_shot_iterator(dataset).get_next()
        for name in runtime.built():
            with session(name) as of_name:
                assert of_name.run(rows).tolist() == [0, 1, 4, 9]

    def test_the_step_can_use_the_threads_of_the_caller(self, name: str) -> None:
        x = tf1.placeholder_with_default(np.ones([64, 64], np.float32), [64, 64])
        options = tf1.RunOptions(inter_op_thread_pool=-1)
        with session(name) as of_name:
            assert of_name.run(tf.reduce_sum(x @ x), options=options) == 64**3

    def test_the_statistics_of_a_step_have_its_nodes(self, name: str) -> None:
        x = tf1.placeholder(tf.float32, [4, 4])
        product = tf.matmul(x, x, name="the_product")
        total = tf.reduce_sum(product, name="the_total")
        options, metadata = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE), tf1.RunMetadata()
        with session(name) as of_name:
            of_name.run(total, {x: np.ones([4, 4])}, options=options, run_metadata=metadata)
        nodes = {node.node_name: node for device in metadata.step_stats.dev_stats for node in device.node_stats}
        assert {"the_product", "the_total"} <= set(nodes)
        node = nodes["the_product"]
        assert node.all_end_rel_nanos >= node.op_end_rel_nanos >= node.op_start_rel_nanos >= 0
        assert node.all_start_nanos >= node.scheduled_nanos > 0
        assert node.output[0].tensor_description.shape.dim[0].size == 4
        assert node.memory
        from tensorflow.python.client.timeline import Timeline

        assert "the_product" in Timeline(metadata.step_stats).generate_chrome_trace_format()


class TestFunctions:
    def test_a_loop_and_a_condition(self, name: str) -> None:
        @tf.function
        def collatz(n: Any) -> Any:
            steps = tf.constant(0)
            while n > 1:
                n = n // 2 if n % 2 == 0 else 3 * n + 1
                steps += 1
            return steps

        with runtime.executor(name):
            assert collatz(tf.constant(27)).numpy() == 111

    def test_a_function_that_python_calls_within_a_graph(self, name: str) -> None:
        """Each level holds a thread until the next has ended, and there are more levels than threads."""

        @tf.function
        def below(depth: Any) -> Any:
            return tf.py_function(call, [depth - 1], tf.int32) + 1

        def call(depth: Any) -> Any:
            with runtime.executor(name):
                return below(depth) if depth > 0 else tf.constant(0)

        if name != "std_pool":
            pytest.skip("its pool has a thread for each processor, and would wait for ever")
        assert call(tf.constant(12)).numpy() == 12

    def test_keras_trains(self, name: str) -> None:
        x, y = np.random.default_rng(1).normal(size=(64, 5)).astype(np.float32), np.arange(64) % 3
        losses = {}
        for executor in ("tensorflow", name):
            tf.keras.utils.set_random_seed(3)
            model = tf.keras.Sequential([tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(3)])
            model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            before = runtime.counts(name).steps
            with runtime.executor(executor):
                history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False)
            losses[executor] = history.history["loss"]
            assert (runtime.counts(name).steps > before) == (executor == name)
        assert losses[name] == losses["tensorflow"]


LONG = (10_000, 100)  # steps of each thread, and how many there are for each that fails


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize(
    ("steps", "per_failure"), [(150, 5), pytest.param(*LONG, marks=[pytest.mark.deep, pytest.mark.timeout(900)])]
)
def test_many_threads_of_which_some_fail(name: str, steps: int, per_failure: int) -> None:
    x = tf1.placeholder(tf.float32, [8, 8])
    fails = tf1.placeholder(tf.bool, [])
    products = [x]
    for _ in range(12):
        products.append(tf.matmul(products[-1], x) / 8)
    with tf.control_dependencies([tf.debugging.Assert(~fails, ["as asked"])]):
        wide = tf.add_n([tf.identity(product) for product in products])
    loop = tf1.while_loop(lambda i, _: i < 5, lambda i, w: (i + 1, w + x), [tf.constant(0), wide])[1]
    ones = np.ones([8, 8], np.float32)
    failures = []
    with session(name) as of_name:
        step = of_name.make_callable(loop, [x, fails])

        def work(first: int) -> None:
            for i in range(first, first + steps):
                try:
                    assert step(ones, i % per_failure == 0)[0, 0] == 18
                except tf.errors.InvalidArgumentError:
                    failures.append(i)

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))  # memory that is kept for later steps is there afterwards
            before = psutil.Process().memory_info().rss
            list(pool.map(work, range(6)))
    assert len(failures) == 2 * 6 * steps // per_failure
    assert threading.active_count() < 50
    assert psutil.Process().memory_info().rss - before < 32 << 20
