"""Small TensorFlow graphs with the native operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from tmflow.native import ops, stock
from tmflow.native.registry import resolve

tf = pytest.importorskip("tensorflow")
tf1 = tf.compat.v1

KINDS = {"ref": False, "resource": True}


class Graph:
    """One variable, and a step that applies `delta` to it: read the version, update, end the step."""

    def __init__(
        self,
        initial: Any,
        kind: str,
        strategy: str,
        workers: int = 1,
        alpha: float = 1.0,
        parameters: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.variable = tf1.Variable(initial, use_resource=KINDS[kind])
        self.strategy = strategy
        self.parameters = parameters
        self.tracker = ops.Tracker(workers, ["w"])
        self.worker = tf1.placeholder(tf.int32, [])
        self.delta = tf1.placeholder(self.variable.dtype.base_dtype)
        version = self.tracker.begin_step()
        with tf.control_dependencies([version]):
            delta = tf.identity(self.delta)
        self.apply = ops.apply_gradient_descent(
            self.variable,
            alpha,
            delta,
            strategy=resolve(strategy, parameters),
            tracker=self.tracker,
            worker=self.worker,
            index=0,
        )
        with tf.control_dependencies([self.apply]):
            self.step = self.tracker.end_step(self.worker, version)

    def value(self, session: Any) -> Any:
        """The current value of the variable; no update may run meanwhile."""
        return value_of(session, self.variable, self.strategy, self.tracker, parameters=self.parameters)


def initialise(
    session: Any,
    variable: Any,
    strategy: str,
    tracker: ops.Tracker,
    index: int = 0,
    parameters: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Assign the initial value to the variable of this number in the tracker, and notify its strategy."""
    session.run(variable.initializer)
    _settle(session, variable, strategy, tracker, index, parameters, restart=True)


def value_of(
    session: Any,
    variable: Any,
    strategy: str,
    tracker: ops.Tracker,
    index: int = 0,
    parameters: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """The variable's memory, after its strategy has copied the variable to it."""
    _settle(session, variable, strategy, tracker, index, parameters, restart=False)
    return session.run(variable)


def _settle(
    session: Any,
    variable: Any,
    strategy: str,
    tracker: ops.Tracker,
    index: int,
    parameters: Mapping[str, Any],
    *,
    restart: bool,
) -> None:
    if strategy in stock.LOCKING:
        return
    given: dict[str, Any] = {"strategy": resolve(strategy, parameters), "tracker": tracker, "index": index}
    session.run(ops.settle(variable, restart=restart, **given))


@contextmanager
def session_of(*arguments: Any, **named: Any) -> Iterator[tuple[Graph, Any]]:
    """A `Graph`, and a session in which its variable is initialised."""
    with tf.Graph().as_default():
        graph = Graph(*arguments, **named)
        with tf1.Session() as session:
            initialise(session, graph.variable, graph.strategy, graph.tracker, parameters=graph.parameters)
            yield graph, session


def in_threads(graph: Graph, session: Any, workers: int, steps: int, delta: Any) -> list[int]:
    """Run `steps` steps of every worker, each worker in a separate thread; return the staleness of each step."""
    step = session.make_callable(graph.step, [graph.worker, graph.delta])

    def work(worker: int) -> list[int]:
        return [int(step(np.int32(worker), delta)) for _ in range(steps)]

    with ThreadPoolExecutor(workers) as pool:
        return [staleness for of_worker in pool.map(work, range(workers)) for staleness in of_worker]
