"""Transports: what they carry is what was sent, and what goes wrong on one side is an error on the other, in time."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import psutil
import pytest
import tensorflow as tf

from tests.support.server_processes import ServerProcess, servers
from tests.support.transports import OURS, require_transport
from tmflow import runtime
from tmflow.base.errors import BadInput, Unsupported
from tmflow.training.cluster.addresses import Addresses, on_this_machine
from tmflow.training.cluster.task import start_server

tf1 = tf.compat.v1
pytestmark = pytest.mark.slow
PATIENCE_S = 60.0
STEPS = 20
PS, WORKER, OTHER_WORKER = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"


@pytest.fixture(scope="module", params=OURS)
def transport(request: pytest.FixtureRequest) -> str:
    return runtime.protocol(require_transport(request.param))


@pytest.fixture(scope="module")
def targets(transport: str) -> Iterator[list[str]]:
    """A server and two workers, as processes; this process has no server."""
    with servers(transport, on_this_machine(1, 2)) as processes:
        yield [process.target() for process in processes]


def run(target: str, make: Callable[[], Any], feeds: Callable[[], dict[Any, Any]] = dict, **options: Any) -> Any:
    """Run what `make` makes in a graph of its own; variables are initialised first."""
    with tf.Graph().as_default(), tf1.container(f"of{time.monotonic_ns()}"):
        fetched = make()
        config = tf1.ConfigProto(**options)
        config.graph_options.rewrite_options.disable_meta_optimizer = True  # it would compute constants beforehand
        with tf1.Session(target, config=config) as session:
            session.run(tf1.global_variables_initializer())
            return session.run(fetched, feeds())


def moved(value: Any) -> Any:
    """The value, from one process to another and back to this one."""
    with tf.device(PS):
        sent = tf.identity(value)
    with tf.device(WORKER):
        return tf.identity(sent)


def test_the_slides_example_of_two_processes(targets: list[str]) -> None:
    def make() -> Any:
        with tf.device(PS):
            x = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        with tf.device(WORKER):
            y = tf.constant([[7.0, 8.0, 9.0], [10.0, 11.0, 12.0]])
            return tf.reduce_sum(x * y)

    assert [run(target, make) for target in targets] == [217.0] * 3


def test_each_task_is_a_device_of_the_session(targets: list[str]) -> None:
    with tf1.Session(targets[1], graph=tf.Graph()) as session:
        names = {device.name for device in session.list_devices()}
    assert names == {f"/job:{task}/device:CPU:0" for task in ("ps/replica:0/task:0", "worker/replica:0/task:0",
                                                              "worker/replica:0/task:1")}  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        np.float32(3), np.zeros((0, 4), np.float32), np.arange(6).reshape(2, 3), np.array([True, False]),
        np.array([1 + 2j], np.complex128), np.array(["text", "", "Ü"], object), np.arange(5, dtype=np.uint8),
        np.random.default_rng(1).normal(size=(17, 3)), np.full((1000, 1000), 7, np.float32),
        np.array([1.5, -2], np.float16),
    ],
    ids=lambda value: f"{value.dtype}{list(value.shape)}",
)  # fmt: skip
def test_a_tensor_arrives_as_it_was_sent(targets: list[str], value: Any) -> None:
    arrived = run(targets[0], lambda: moved(tf.constant(value)))
    expected = value if value.dtype != object else np.array([text.encode() for text in value], object)
    np.testing.assert_array_equal(arrived, expected)
    assert arrived.dtype == expected.dtype


def test_types_without_a_numpy_type_arrive_too(targets: list[str]) -> None:
    def make() -> Any:
        eighths = moved(tf.cast([1.0, 0.125], tf.bfloat16))
        quantised = moved(tf.bitcast(tf.constant([-1, 3], tf.int8), tf.qint8))
        return tf.cast(eighths, tf.float32), tf.cast(tf.bitcast(quantised, tf.int8), tf.int32)

    eighths, quantised = run(targets[0], make)
    assert (list(eighths), list(quantised)) == ([1.0, 0.125], [-1, 3])


def test_large_tensors_arrive_from_several_places_at_once(targets: list[str]) -> None:
    size = 16 << 20  # 64 MB

    def make() -> Any:
        ends = []
        for number in range(4):
            with tf.device(PS if number % 2 else OTHER_WORKER):
                sent = tf.random.stateless_uniform([size], [number, 1])
                total = tf.reduce_sum(tf.cast(sent, tf.float64))
            with tf.device(WORKER):
                ends += [total - tf.reduce_sum(tf.cast(tf.identity(sent), tf.float64))]
        return ends

    assert run(targets[1], make) == [0.0] * 4


def test_what_is_fed_arrives(targets: list[str]) -> None:
    def make() -> Any:
        with tf.device(WORKER):
            fed = tf1.placeholder(tf.float32, [None], "fed")
            return fed * 2

    values = np.arange(1_000_000, dtype=np.float32)
    doubled = run(targets[0], make, lambda: {"fed:0": values})
    np.testing.assert_array_equal(doubled, values * 2)


def test_a_prepared_call(targets: list[str]) -> None:
    from tensorflow.core.protobuf import config_pb2

    with tf.Graph().as_default():
        with tf.device(WORKER):
            fed = tf1.placeholder(tf.float32, [None], "fed")
        doubled = moved(fed) * 2
        with tf1.Session(targets[0]) as session:
            options = config_pb2.CallableOptions(feed=[fed.name], fetch=[doubled.name])
            call = session._make_callable_from_options(options)
            for factor in (1, 2):
                (result,) = call(np.arange(5, dtype=np.float32) * factor)
                np.testing.assert_array_equal(result, np.arange(5) * 2 * factor)


def softmax_losses(target: str) -> Any:
    """The losses and final weights of a training on random images, with the weights on the server."""
    with tf.Graph().as_default():
        generator = np.random.default_rng(1)
        images, labels = generator.normal(size=(64, 784)).astype(np.float32), generator.integers(0, 10, 64)
        device = tf1.train.replica_device_setter(ps_device=PS, worker_device=WORKER, ps_tasks=1) if target else None
        with tf1.device(device):
            weights = tf1.get_variable("weights", [784, 10], initializer=tf1.zeros_initializer())
            logits = tf.constant(images) @ weights
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
            step = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf1.Session(target) as session:
            session.run(tf1.global_variables_initializer())
            losses = [session.run([loss, step])[0] for _ in range(STEPS)]
            return np.array(losses), session.run(weights)


def test_a_training_is_that_of_one_process_bit_for_bit(targets: list[str]) -> None:
    for ours, local in zip(softmax_losses(targets[1]), softmax_losses(""), strict=True):
        np.testing.assert_array_equal(ours, local)


def test_an_error_of_another_process_is_one_here(targets: list[str]) -> None:
    def make() -> Any:
        with tf.device(PS):
            return tf1.debugging.Assert(tf1.placeholder_with_default(False, []), ["no such luck"])

    with pytest.raises(tf.errors.InvalidArgumentError, match="no such luck"):
        run(targets[1], make)
    assert run(targets[1], lambda: moved(1.0)) == 1.0  # the servers are unharmed


def waiting() -> Any:
    """An operation on the server that waits for ever."""
    with tf.device(PS):
        return tf1.FIFOQueue(1, tf.float32).dequeue()


def test_a_step_that_takes_too_long_ends_at_its_time_limit(targets: list[str]) -> None:
    began = time.monotonic()
    with pytest.raises(tf.errors.DeadlineExceededError):
        run(targets[1], waiting, operation_timeout_in_ms=500)
    assert time.monotonic() - began < PATIENCE_S / 2


def test_a_step_that_ends_at_its_time_limit_leaves_nothing_behind(targets: list[str]) -> None:
    """A dequeue that went on waiting on the server would take the element that is put into the queue afterwards."""
    with tf.Graph().as_default(), tf.device(PS):
        queue = tf1.FIFOQueue(2, tf.float32, shapes=[[]], shared_name="left_behind")
        take, put, size = queue.dequeue(), queue.enqueue(1.0), queue.size()
        with tf1.Session(targets[1]) as session:
            assert session.run(size) == 0
            with pytest.raises(tf.errors.DeadlineExceededError):
                session.run(take, options=tf1.RunOptions(timeout_in_ms=500))
            session.run(put)
            session.run(put)
            assert session.run(size) == 2


def test_a_session_waits_for_a_task_that_comes_later(transport: str) -> None:
    addresses = on_this_machine(1, 1)
    worker = ServerProcess(transport, addresses, "worker", 0)
    target = worker.target()
    with ThreadPoolExecutor(1) as pool:
        moving = pool.submit(run, target, lambda: moved(5.0))
        with pytest.raises(TimeoutError):
            moving.result(1)
        server = ServerProcess(transport, addresses, "ps", 0)
        assert moving.result(PATIENCE_S) == 5.0
    for process in (worker, server):
        process.end()


def test_a_loop_over_two_processes(targets: list[str]) -> None:
    def make() -> Any:
        def body(i: Any, total: Any) -> Any:
            with tf.device(WORKER):
                return i + 1, total + tf.cast(i, tf.float32)

        with tf.device(PS):
            return tf1.while_loop(lambda i, _: i < 50, body, [0, 0.0])

    tf1.disable_control_flow_v2()
    try:
        assert list(run(targets[0], make)) == [50, 1225.0]
    finally:
        tf1.enable_control_flow_v2()


def test_the_sum_of_a_collective_operation(transport: str) -> None:
    """Tasks agree on the group, and fetch parts of each other's tensors (RecvBuf)."""
    runtime.protocol(transport)
    config = tf1.ConfigProto()
    config.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
    cluster = tf1.train.ClusterSpec({"worker": on_this_machine(1, 2).worker})
    of_workers = [
        tf1.train.Server(cluster, job_name="worker", task_index=index, protocol=transport, config=config)
        for index in range(2)
    ]

    def total(index: int) -> Any:
        with tf.Graph().as_default(), tf.device(f"/job:worker/task:{index}"):
            reduced = tf.raw_ops.CollectiveReduce(
                input=tf.range(10_000.0) * (index + 1), group_size=2, group_key=1, instance_key=1, merge_op="Add",
                final_op="Id", subdiv_offsets=[0],
            )  # fmt: skip
            options = tf1.RunOptions(timeout_in_ms=int(1000 * PATIENCE_S))
            options.experimental.collective_graph_key = 1
            with tf1.Session(of_workers[index].target, config=config) as session:
                return session.run(reduced, options=options)

    with ThreadPoolExecutor(2) as pool:
        for reduced in pool.map(total, range(2)):
            np.testing.assert_array_equal(reduced, 3 * np.arange(10_000, dtype=np.float32))


def test_a_step_whose_server_is_killed_ends_with_an_error(transport: str) -> None:
    addresses = on_this_machine(1, 1)
    with servers(transport, addresses) as (server, worker):
        server.target()
        with tf.Graph().as_default():
            fetched = waiting()
            with tf1.Session(worker.target()) as session:
                with pytest.raises(tf.errors.DeadlineExceededError):
                    session.run(fetched, options=tf1.RunOptions(timeout_in_ms=500))  # so the graph is there
                killer = subprocess.Popen(["sh", "-c", f"sleep 1; kill -9 {server.process.pid}"])
                with pytest.raises((tf.errors.UnavailableError, tf.errors.AbortedError)):
                    session.run(fetched)
                killer.wait()


def test_a_server_that_comes_back_is_found_again(transport: str) -> None:
    addresses = on_this_machine(1, 1)
    with servers(transport, addresses) as (server, worker):
        server.target()
        target = worker.target()
        assert run(target, lambda: moved(1.0)) == 1.0
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        again = ServerProcess(transport, addresses, "ps", 0)
        again.target()
        assert run(target, lambda: moved(2.0)) == 2.0
        again.end()


def test_a_session_does_not_use_a_server_that_was_stopped(transport: str) -> None:
    """A session in the process of a server calls it directly: as long as it serves."""
    addresses = on_this_machine(1, 1)

    def incarnation(target: str) -> int:
        config = tf1.ConfigProto(device_filters=["/job:ps"])  # so it waits for no worker
        with tf.Graph().as_default(), tf.device(PS), tf1.Session(target, config=config) as session:
            session.run(tf.constant(1.0))
            return int(session.list_devices()[0].incarnation)

    server = start_server(addresses, "ps", 0, transport)
    target = server.target
    first = incarnation(target)
    assert incarnation(target) == first
    del server  # TensorFlow stops it
    with servers(transport, addresses) as processes:
        assert processes[0].target() == target
        assert incarnation(target) != first


def test_servers_of_one_process_start_and_stop_again_and_again(transport: str) -> None:
    """In a process of its own, which must neither hang nor grow nor keep a port or a thread."""
    command = [sys.executable, "-m", "tests.training.cluster.start_and_stop", transport]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_strangers_do_no_harm(targets: list[str]) -> None:
    host, port = targets[0].partition("://")[2].split(":")
    for sent in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 4096, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as stranger:
            stranger.sendall(sent)
    assert run(targets[0], lambda: moved(3.0)) == 3.0


@pytest.mark.parametrize(("of_server", "of_client"), [("one", "another"), ("one", ""), ("", "one")])
def test_tasks_have_the_same_secret(
    transport: str, monkeypatch: pytest.MonkeyPatch, of_server: str, of_client: str
) -> None:
    with servers(transport, on_this_machine(1, 1), **{runtime.SECRET: of_server}) as (server, _):
        target = server.target()
        monkeypatch.setenv(runtime.SECRET, of_client)
        with pytest.raises(tf.errors.UnauthenticatedError, match="secret"):
            run(target, lambda: tf.constant(1.0))
        monkeypatch.setenv(runtime.SECRET, of_server)
        assert run(target, lambda: tf.constant(1.0)) == 1.0


def test_another_protocol_at_the_address_is_an_error(transport: str) -> None:
    with servers(runtime.GRPC, on_this_machine(1, 1)) as (server, _):
        address = server.target().partition("://")[2]
        with pytest.raises(tf.errors.OpError):
            run(f"{transport}://{address}", lambda: tf.constant(1.0), operation_timeout_in_ms=5000)


def test_only_the_address_of_a_task_is_listened_on(transport: str) -> None:
    with servers(transport, on_this_machine(1, 1)) as processes:
        for process in processes:
            process.target()
            sockets = psutil.Process(process.process.pid).net_connections(kind="inet")
            assert {at.laddr.ip for at in sockets if at.status == psutil.CONN_LISTEN} == {"127.0.0.1"}


def test_an_address_that_is_taken(transport: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match=rf"ps 0 cannot listen on 127\.0\.0\.1:{port}"):
            start_server(Addresses(ps=[f"127.0.0.1:{port}"], worker=["127.0.0.1:1"]), "ps", 0, transport)


def test_an_unknown_transport() -> None:
    with pytest.raises(BadInput, match=r"unknown transport 'dff' \(did you mean 'df'\?\); valid: df, grpc, hpx"):
        runtime.protocol("dff")


def test_a_transport_that_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime.transports, "built_transports", lambda: (runtime.GRPC, "df"))
    with pytest.raises(Unsupported, match="hpx is not built: it needs HPX: run `make hpx`, then `make build`"):
        runtime.protocol("hpx")
