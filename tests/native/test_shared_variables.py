"""One variable with several trackers: in two graphs and sessions, like the workers of a parameter server, and under two
numbers of one tracker. All share its strategy object, so they lose no update and always agree.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from graphs import KINDS, tf, tf1

from tmflow.native import loader, ops
from tmflow.native.registry import resolve

ELEMENTS = 200_000  # updates of this size overlap unless they are synchronised
STEPS = 200
AUDITED = ["striped", "spin", "block_stm", "adaptive", "stm", "combining", "lock_pthread", "atomic", "lock"]
KINDS_AND_STRATEGIES = pytest.mark.parametrize(
    ("kind", "strategy"), [(kind, strategy) for kind in KINDS for strategy in AUDITED]
)


@pytest.fixture(scope="module")
def server() -> str:
    """The address of a TensorFlow server in this process: its variables outlive the sessions."""
    return str(tf1.train.Server.create_local_server().target)


class Member:
    """A graph and a session with a tracker, for the variable of that name."""

    def __init__(
        self,
        kind: str,
        strategy: str,
        *,
        name: str,
        target: str,
        container: str = "",
        parameters: Mapping[str, Any] = MappingProxyType({}),
        elements: int = ELEMENTS,
    ) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default(), self.graph.container(container):
            self.variable = tf1.Variable(np.zeros(elements, np.float32), use_resource=KINDS[kind], name=name)
            self.tracker = ops.Tracker(1, ["w"])
            given: dict[str, Any] = {"strategy": resolve(strategy, parameters), "tracker": self.tracker}
            ones = tf.ones([elements])
            self.apply = ops.apply_gradient_descent(self.variable, -1.0, ones, worker=0, index=0, **given)
            self.settle = ops.settle(self.variable, index=0, restart=False, **given)
        self.session = tf1.Session(target, graph=self.graph)

    def initialise(self) -> Member:
        self.session.run(self.variable.initializer)
        return self

    def value(self) -> Any:
        self.session.run(self.settle)
        return self.session.run(self.variable)

    def updates(self) -> int:
        return int(self.tracker.stats(self.session).counters[0]["updates"])

    def work(self, steps: int) -> None:
        call = self.session.make_callable(self.apply)
        for _ in range(steps):
            call()

    def close(self) -> None:
        self.session.close()


def at_once(*works: Any) -> None:
    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(work) for work in works]:
            done.result()


@KINDS_AND_STRATEGIES
def test_two_sessions_of_a_server_lose_nothing(kind: str, strategy: str, server: str) -> None:
    members = [Member(kind, strategy, name=f"two_{kind}_{strategy}", target=server) for _ in range(2)]
    members[0].initialise()
    at_once(*(lambda member=member: member.work(STEPS) for member in members))
    assert np.unique(members[0].value()).tolist() == [2 * STEPS]
    assert [member.updates() for member in members] == [STEPS] * 2
    for member in members:
        member.close()


def test_sessions_share_the_versions_of_a_strategy_that_keeps_the_variable_elsewhere(server: str) -> None:
    members = [Member("resource", "leashed", name="elsewhere", target=server) for _ in range(2)]
    members[0].initialise()
    at_once(*(lambda member=member: member.work(STEPS) for member in members))
    assert np.unique(members[1].value()).tolist() == [2 * STEPS]
    for member in members:
        member.close()


@KINDS_AND_STRATEGIES
@pytest.mark.parametrize("trackers", [1, 2])
def test_two_trackers_or_numbers_in_a_session_lose_nothing(kind: str, strategy: str, trackers: int) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(np.zeros(ELEMENTS, np.float32), use_resource=KINDS[kind])
        if trackers == 1:
            tracker = ops.Tracker(1, ["w", "w again"])
            places = [(tracker, 0), (tracker, 1)]
        else:
            places = [(ops.Tracker(1, ["w"]), 0) for _ in range(2)]
        calls = []
        for tracker, index in places:
            given: dict[str, Any] = {"strategy": resolve(strategy), "tracker": tracker, "worker": 0, "index": index}
            apply = ops.apply_gradient_descent(variable, -1.0, tf.ones([ELEMENTS]), **given)
            calls.append(session.make_callable(apply))
        session.run(variable.initializer)
        at_once(*(lambda call=call: [call() for _ in range(STEPS)] for call in calls))
        assert np.unique(session.run(variable)).tolist() == [2 * STEPS]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("other", "parameters", "says"),
    [
        ("spin", {}, r"under strategy striped\b.*, and cannot be updated under strategy spin\b.* at the same time"),
        (
            "striped",
            {"block": 64},
            r"under strategy striped block=2048.*, and cannot be updated under strategy striped block=64",
        ),
    ],
)
def test_two_strategies_at_once_are_refused_and_one_after_the_other_are_not(
    kind: str, other: str, parameters: dict[str, Any], says: str, server: str
) -> None:
    name = f"refused_{kind}_{other}"
    first = Member(kind, "striped", parameters={"block": 2048}, name=name, target=server, elements=8).initialise()
    first.work(1)
    second = Member(kind, other, parameters=parameters, name=name, target=server, elements=8)
    with pytest.raises(tf.errors.InvalidArgumentError, match=says):
        second.work(1)
    assert first.value().tolist() == [1] * 8
    first.close()
    del first
    gc.collect()
    second.work(1)
    assert second.value().tolist() == [2] * 8
    second.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_variable_that_is_made_again_inherits_nothing(kind: str, server: str) -> None:
    """Neither the strategy nor its data for the variable, although the tracker of the first one still exists."""
    for repetition in range(5):
        strategy = ("leashed", "striped")[repetition % 2]
        name, container = f"again_{kind}", "again"
        member = Member(kind, strategy, name=name, container=container, target=server, elements=8)
        for value in (3, 2):
            member.initialise().work(value)
            assert member.value().tolist() == [value] * 8
            tf1.Session.reset(server, [container])
            member.session = tf1.Session(server, graph=member.graph)


def test_a_destroyed_variable_leaves_its_number_to_the_next() -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(np.zeros(8, np.float32), use_resource=True)
        tracker = ops.Tracker(1, ["w"])
        applies = [
            ops.apply_gradient_descent(
                variable, -1.0, tf.ones([8]), tracker=tracker, worker=0, index=0, strategy=resolve(name)
            )
            for name in ("striped", "spin")
        ]
        destroy = tf.raw_ops.DestroyResourceOp(resource=variable.handle)
        for repetition in range(6):
            session.run(variable.initializer)
            session.run(applies[repetition % 2])
            with pytest.raises(tf.errors.InvalidArgumentError, match="at the same time"):
                session.run(applies[1 - repetition % 2])
            assert session.run(variable).tolist() == [1] * 8
            session.run(destroy)


def test_in_eager_mode_two_trackers_are_two() -> None:
    library = loader.ops()
    with tf.init_scope():
        variable = tf.Variable(np.zeros(8, np.float32))
        trackers = [ops.Tracker(1, ["w"]) for _ in range(2)]
        for tracker, updates in zip(trackers, (1, 2), strict=True):
            for _ in range(updates):
                library.tmflow_resource_apply_gradient_descent(
                    variable.handle, -1.0, tf.ones([8]), tracker.handle, 0, strategy="striped", variable=0
                )
        counted = [library.tmflow_stats(tracker.handle).updates.numpy().tolist() for tracker in trackers]
        with pytest.raises(tf.errors.InvalidArgumentError, match="at the same time"):
            library.tmflow_resource_apply_gradient_descent(
                variable.handle, -1.0, tf.ones([8]), ops.Tracker(1, ["w"]).handle, 0, strategy="spin", variable=0
            )
    assert counted == [[[1]], [[2]]]
    assert variable.numpy().tolist() == [3] * 8


class TrackedWorker:
    """The graph of one of two workers, which count in one tracker."""

    def __init__(self, server: str, container: str, name: str, workers: int = 2) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default(), self.graph.container(container):
            self.tracker = ops.Tracker(workers, ["w"], shared_name=name)
            version = self.tracker.begin_step()
            self.step = self.tracker.end_step(tf1.placeholder_with_default(workers - 1, []), version)
        self.session = tf1.Session(server, graph=self.graph)


def steps(worker: TrackedWorker) -> int:
    return sum(row["steps"] for row in worker.tracker.stats(worker.session).staleness)


def test_graphs_that_name_a_tracker_share_it_as_long_as_its_container_lives(server: str) -> None:
    first, second, other = (TrackedWorker(server, "shared", name) for name in ("t", "t", "u"))
    for worker, times in ((first, 2), (second, 3), (other, 1)):
        for _ in range(times):
            worker.session.run(worker.step)
    assert [steps(worker) for worker in (first, second, other)] == [5, 5, 1]
    for worker in (first, second, other):
        worker.session.close()
    tf1.Session.reset(server, ["shared"])
    again = TrackedWorker(server, "shared", "t")
    assert steps(again) == 0


def test_graphs_that_name_a_tracker_agree_on_its_workers(server: str) -> None:
    first, second = (TrackedWorker(server, "agreed", "t", workers) for workers in (2, 3))
    first.session.run(first.step)
    with pytest.raises(tf.errors.InvalidArgumentError, match="the tracker 't' exists with other numbers of workers"):
        second.session.run(second.step)
