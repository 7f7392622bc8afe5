"""Graphs of small operations, in which a step spends its time on running nodes and not in their kernels.

The result of the graph is the gradient of one scalar variable, which the strategy updates as it does any other. The
model answers every image with the first class, so its accuracy says nothing. TensorFlow must not simplify these graphs:
it would compute most of them once, when it prepares them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tmflow.spec.trial import TrialSpec
from tmflow.training.network import CLASSES, Network, Variable, ones

Graph = Callable[[Any, int], Any]
Node = tuple[str, list[str]]  # its operation, and the names of its inputs

PER_ITERATION = 10  # nodes that an iteration of the loop runs
ADDITIONS = 3  # of which are additions


def small_operations(graph: Graph) -> Network:
    """The network whose gradient is `graph(variable, nodes)`."""

    def gradients(spec: TrialSpec, read: Sequence[Any]) -> list[Any]:
        assert spec.nodes is not None, "a spec of this model has it"
        return [graph(read[0], spec.nodes)]

    def forward(spec: TrialSpec, images: Any, read: Sequence[Any]) -> Any:
        import tensorflow as tf

        return read[0] + tf.zeros([tf.shape(images)[0], CLASSES])

    return Network(
        variables=lambda spec: [Variable("scalar", (), ones)],
        forward=forward,
        gradients=gradients,
        is_optimised=False,
        pixels=lambda spec: 1,
    )


def chain(start: Any, nodes: int) -> Any:
    """Products with 1, each of the product before: the value of `start`."""
    names = ["start", *map(_name, range(nodes - 1))]
    return _import(start, 1.0, (("Mul", [name, "factor"]) for name in names))


def fan_out(start: Any, nodes: int) -> Any:
    """Products of `start` and the same factor, and the sum of them all, which is about the value of `start`."""
    products: Iterable[Node] = (("Mul", ["start", "factor"]) for _ in range(nodes - 1))
    return _import(start, 1 / (nodes - 1), [*products, ("AddN", list(map(_name, range(nodes - 1))))])


def loop(start: Any, nodes: int) -> Any:
    """A loop of TensorFlow 1 that counts by three additions in each iteration; the result is `start`.

    An iteration runs Merge, Less, LoopCond, Switch, Identity, the additions, NextIteration and Exit, which has a value
    in the last one only.
    """
    import tensorflow as tf

    last = float(nodes // PER_ITERATION * ADDITIONS)
    limit, one = tf.constant(last), tf.constant(1.0)

    def count(counted: Any) -> Any:
        for _ in range(ADDITIONS):
            counted = tf.raw_ops.AddV2(x=counted, y=one)
        return counted

    with _control_flow_of_tensorflow_1():
        counted = tf.compat.v1.while_loop(lambda counted: counted < limit, count, [tf.constant(0.0)])
    return start * (counted / limit)


def _name(number: int) -> str:
    return f"n{number}"


def _import(start: Any, factor: float, nodes: Iterable[Node]) -> Any:
    """Add nodes to the graph, and return the output of the last. Each may need "start", "factor" and those before it.

    The graph takes their definition in a third of the time that as many calls of TensorFlow's functions take.
    """
    import tensorflow as tf

    definition = tf.compat.v1.GraphDef()
    definition.versions.producer = tf.compat.v1.get_default_graph().graph_def_versions.producer
    for name in ("start", "factor"):
        definition.node.add(name=name, op="Placeholder").attr["dtype"].type = tf.float32.as_datatype_enum
    for number, (operation, inputs) in enumerate(nodes):
        node = definition.node.add(name=_name(number), op=operation, input=inputs)
        node.attr["T"].type = tf.float32.as_datatype_enum
        if operation == "AddN":
            node.attr["N"].i = len(inputs)
    inputs_of_graph = {"start": start, "factor": tf.constant(factor)}
    (result,) = tf.compat.v1.import_graph_def(definition, inputs_of_graph, [f"{node.name}:0"], name="small")
    return result


@contextmanager
def _control_flow_of_tensorflow_1() -> Iterator[None]:
    """Loops in this block are made of Enter, Merge, Switch, NextIteration and Exit, and not of functions."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    was_enabled = tf1.control_flow_v2_enabled()
    tf1.disable_control_flow_v2()
    try:
        yield
    finally:
        if was_enabled:
            tf1.enable_control_flow_v2()
