"""Numbers and memory that cannot be updated: one sentence names the fault, and nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graphs import KINDS, initialise, session_of, tf, tf1, value_of
from numpy.typing import NDArray
from variants import STRATEGIES

from tmflow.base.errors import BadInput
from tmflow.native import loader, ops
from tmflow.native.registry import resolve

pytestmark = pytest.mark.usefixtures("runs_here")

DTYPES = [np.float32, np.float64]
NOT_FINITE = [np.nan, np.inf, -np.inf]
Array = NDArray[Any]


def misaligned(dtype: Any, elements: int) -> Array:
    """An array of ones that begins one byte too late."""
    array = np.zeros(elements * np.dtype(dtype).itemsize + 1, np.uint8)[1:].view(dtype)
    array[:] = 1
    assert not array.flags.aligned
    return array


def refused(array: Array, strategy: str, alpha: float, delta: Any, message: str) -> None:
    """An update of `array` fails with this message and changes neither the array nor the counters."""
    before = array.copy()
    region = loader.core().Region(array)
    with pytest.raises(ValueError, match=message):
        region.apply(strategy, alpha, delta)
    np.testing.assert_array_equal(array, before)
    assert [row["updates"] for row in region.counters()] == [0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_misaligned_array_is_no_region(dtype: Any) -> None:
    with pytest.raises(ValueError, match=f"array is misaligned: .* multiples of {np.dtype(dtype).itemsize} bytes"):
        loader.core().Region(misaligned(dtype, 4))


@pytest.mark.parametrize("place", [slice(0, 12), slice(4, 8), slice(2, 5), slice(7, 10), slice(5, 6)])
def test_memory_belongs_to_one_region_at_a_time(place: slice) -> None:
    memory = np.zeros(12, np.float32)
    region = loader.core().Region(memory[4:8])
    beside = [loader.core().Region(memory[:4]), loader.core().Region(memory[8:]), loader.core().Region(memory[6:6])]
    del beside[:]
    with pytest.raises(ValueError, match="array overlaps the memory of another region"):
        loader.core().Region(memory[place])
    region.apply("lock", -1, np.ones(4, np.float32))
    del region
    loader.core().Region(memory[place]).apply("lock", -1, np.ones(place.stop - place.start, np.float32))
    assert memory.sum() == 4 + place.stop - place.start


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_misaligned_delta_is_refused(strategy: str, dtype: Any) -> None:
    message = f"delta is misaligned: .* multiples of {np.dtype(dtype).itemsize} bytes"
    refused(np.ones(4, dtype), strategy, 1, misaligned(dtype, 4), message)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("shift", [-3, -1, 0, 1, 3])
def test_a_delta_that_overlaps_the_array_is_refused(strategy: str, shift: int) -> None:
    memory = np.arange(12, dtype=np.float32)
    refused(memory[4:8], strategy, 1, memory[4 + shift : 8 + shift], "delta overlaps the memory of the variable")
    assert memory.tolist() == list(range(12))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("shift", [-4, 4])
def test_a_delta_beside_the_array_is_none_of_it(strategy: str, shift: int) -> None:
    memory = np.arange(12, dtype=np.float32)
    region = loader.core().Region(memory[4:8])
    region.apply(strategy, -1, memory[4 + shift : 8 + shift])
    region.settle()
    expected = np.arange(12)
    expected[4:8] += expected[4 + shift : 8 + shift]
    assert memory.tolist() == expected.tolist()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("alpha", NOT_FINITE)
def test_a_rate_that_is_not_finite_is_refused(strategy: str, dtype: Any, alpha: float) -> None:
    bits = 8 * np.dtype(dtype).itemsize
    refused(np.ones(3, dtype), strategy, alpha, np.ones(3, dtype), f"alpha must be a finite number in float{bits}, not")


def test_a_rate_must_be_finite_in_the_type_of_the_array() -> None:
    refused(np.ones(3, np.float32), "lock", 1e39, np.ones(3, np.float32), r"a finite number in float32, not 1e\+39$")
    loader.core().Region(wide := np.zeros(3)).apply("lock", 1e39, np.ones(3))
    assert wide.tolist() == [-1e39] * 3


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("shape", [(3, 2), (6,), (2, 3, 1), (2, 2), ()])
def test_a_delta_of_another_shape_is_refused(strategy: str, shape: tuple[int, ...]) -> None:
    pattern = str(shape).replace("(", r"\(").replace(")", r"\)")
    refused(np.ones((2, 3)), strategy, 1, np.ones(shape), rf"of the array's shape, \(2, 3\), not {pattern}$")


@pytest.mark.parametrize("elements", [1_000_000_001, 2**62])
def test_an_audit_of_more_than_memory_holds_is_refused(elements: int) -> None:
    with pytest.raises(ValueError, match=f"elements must be 1 to 1000000000, not {elements}"):
        loader.core().audit("lock", 2, 1, elements)


def operation(kind: str) -> Callable[..., Any]:
    """The operation itself, without the checks of `ops.apply_gradient_descent`."""
    return getattr(loader.ops(), f"tmflow_{'resource_' if KINDS[kind] else ''}apply_gradient_descent")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_an_operation_refuses_a_rate_that_is_not_finite(kind: str, strategy: str, dtype: Any) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(tf.ones([3], dtype), use_resource=KINDS[kind])
        tracker = ops.Tracker(1, ["w"])
        alpha = tf1.placeholder(dtype, [])
        arguments = (variable.op.outputs[0], alpha, tf.ones([3], dtype), tracker.handle, 0)
        apply = operation(kind)(*arguments, strategy=strategy, variable=0)
        initialise(session, variable, strategy, tracker)
        for bad in NOT_FINITE:
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"alpha must be a finite number in {dtype.name}"):
                session.run(apply, {alpha: bad})
        assert value_of(session, variable, strategy, tracker).tolist() == [1, 1, 1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", [*NOT_FINITE, 1e39])
def test_helpers_refuse_such_a_rate_when_the_graph_is_built(kind: str, rate: float) -> None:
    message = "learning_rate is .*; it must be a finite number in float32"
    with pytest.raises(BadInput, match=message), session_of(np.ones(3, np.float32), kind, "lock", alpha=rate):
        pass


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_gradient_that_is_the_variable_itself_is_refused(kind: str, strategy: str) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(np.ones(1000, np.float32), use_resource=KINDS[kind])
        tracker = ops.Tracker(1, ["w"])
        arguments: dict[str, Any] = {"strategy": resolve(strategy), "tracker": tracker, "worker": 0, "index": 0}
        own = ops.apply_gradient_descent(variable, 1.0, ops.view(variable), **arguments)
        copied = ops.apply_gradient_descent(variable, 0.5, variable.read_value() * 1.0, **arguments)
        initialise(session, variable, strategy, tracker)
        session.run(copied)  # from now on a resource variable has separate memory
        with pytest.raises(tf.errors.InvalidArgumentError, match="delta overlaps the memory of the variable"):
            session.run(own)
        assert np.unique(value_of(session, variable, strategy, tracker)).tolist() == [0.5]
        assert [row["updates"] for row in tracker.stats(session).counters] == [1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("delta", "alpha", "worker", "message"),
    [
        (np.ones(4), 1.0, 0, r"the variable has shape \[3\] and delta has shape \[4\]"),
        (np.ones((3, 1)), 1.0, 0, r"the variable has shape \[3\] and delta has shape \[3,1\]"),
        (np.ones(3), [1.0], 0, r"alpha must be a scalar, and has shape \[1\]"),
        (np.ones(3), 1.0, [0, 0], r"worker must be a scalar, and has shape \[2\]"),
        (np.ones(3), 1.0, 1, "worker 1 is out of range"),
    ],
)
def test_shapes_that_nobody_knew_are_checked_when_it_runs(
    kind: str, strategy: str, delta: Any, alpha: Any, worker: Any, message: str
) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        initial = tf1.placeholder_with_default(np.ones(3, np.float32), None)
        variable = tf1.Variable(initial, validate_shape=False, use_resource=KINDS[kind])
        tracker = ops.Tracker(1, ["w"])
        inputs = [tf1.placeholder(dtype) for dtype in (tf.float32, tf.float32, tf.int32)]
        target = variable.op.outputs[0]
        apply = operation(kind)(target, *inputs[:2], tracker.handle, inputs[2], strategy=strategy, variable=0)
        initialise(session, variable, strategy, tracker)
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            session.run(apply, dict(zip(inputs, (alpha, delta, worker), strict=True)))
        assert value_of(session, variable, strategy, tracker).tolist() == [1, 1, 1]
        session.run(apply, dict(zip(inputs, (1.0, np.ones(3), 0), strict=True)))
        assert value_of(session, variable, strategy, tracker).tolist() == [0, 0, 0]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_delta_of_another_type_is_refused_by_either_operation(strategy: str) -> None:
    """The type of a reference is known when the graph is built, that of a resource possibly only when it runs."""
    for kind in KINDS:
        with tf.Graph().as_default(), tf1.Session() as session:
            variable = tf1.Variable(np.ones(3, np.float32), use_resource=KINDS[kind])
            tracker = ops.Tracker(1, ["w"])
            one, delta = tf.constant(1.0, tf.float64), tf.ones([3], tf.float64)
            target = variable.op.outputs[0]
            session.run(variable.initializer)  # the strategy does not know the variable yet
            with pytest.raises((TypeError, ValueError, tf.errors.InvalidArgumentError), match=r"float32|float\b"):
                session.run(operation(kind)(target, one, delta, tracker.handle, 0, strategy=strategy, variable=0))
            assert session.run(variable).tolist() == [1, 1, 1]
