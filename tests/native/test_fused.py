"""Fused updates: which gradients can be factorised, and that the result equals an update by the whole gradient."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from graphs import KINDS, initialise, tf, tf1, value_of
from numpy.typing import NDArray

from tmflow.base.errors import BadInput
from tmflow.native import loader, ops, registry
from tmflow.native.optimizer import minimise
from tmflow.native.registry import resolve

pytestmark = pytest.mark.usefixtures("runs_here")

FUSED = {"kernel": "fused"}
ALPHA = 0.3
FUSING = [row.name for row in registry.variants() if "kernel" in {parameter.name for parameter in row.parameters}]
READABLE = [row.name for row in registry.variants() if row.snapshot_consistency not in (None, "none")]
Array = NDArray[Any]


def factors_of(examples: int, rows: int, columns: int, dtype: Any) -> tuple[Array, Array, Array]:
    """Weights, inputs of which half of the rows are zero, and a gradient of the output."""
    random = np.random.default_rng(examples)
    weights, inputs, output = (
        random.normal(size=shape).astype(dtype) for shape in ((rows, columns), (examples, rows), (examples, columns))
    )
    inputs[:, random.random(rows) < 0.5] = 0
    return weights, inputs, output


def two_step(weights: Array, inputs: Array, output: Array) -> Array:
    """The update by a gradient whose products are added in the order of the examples."""
    alpha = weights.dtype.type(ALPHA)
    gradient = inputs[0][:, None] * output[0]
    for row, of_output in zip(inputs[1:], output[1:], strict=True):
        gradient = gradient + row[:, None] * of_output
    return weights - alpha * gradient


@pytest.mark.parametrize("strategy", FUSING)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("examples", "rows", "columns"), [(1, 313, 1024), (1, 784, 10), (7, 100, 33), (100, 784, 10)])
def test_a_region_is_updated_as_by_the_gradient(
    strategy: str, dtype: Any, examples: int, rows: int, columns: int
) -> None:
    weights, inputs, output = factors_of(examples, rows, columns, dtype)
    expected = two_step(weights, inputs, output)
    region = loader.core().Region(weights)
    region.apply_dense(strategy, ALPHA, inputs, output)
    region.settle()
    np.testing.assert_array_equal(weights, expected)
    assert [row["updates"] for row in region.counters()] == [1]


def test_a_strategy_without_selectable_kernels_refuses() -> None:
    weights, inputs, output = factors_of(2, 3, 4, np.float32)
    with pytest.raises(ValueError, match="'stm' does not use the selectable kernels, so it cannot fuse"):
        loader.core().Region(weights).apply_dense("stm", ALPHA, inputs, output)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w, x, y: (x[0], y), r"must be matrices with a row for each example, not \(3,\) and \(2, 4\)"),
        (lambda w, x, y: (x, y[:1].copy()), r"with a row for each example, not \(2, 3\) and \(1, 4\)"),
        (lambda w, x, y: (x[:0], y[:0]), r"with a row for each example, not \(0, 3\) and \(0, 4\)"),
        (lambda w, x, y: (y, x), r"the array must have a row for each column of input .* is \(3, 4\), .* \(2, 4\)"),
        (lambda w, x, y: (x.astype("f8"), y), "input must be a C-contiguous NumPy array of the array's own type"),
        (lambda w, x, y: (x, y.tolist()), "output_gradient must be a C-contiguous NumPy array"),
        (lambda w, x, y: (w[:2, :3].reshape(-1)[:6].reshape(2, 3), w[:2]), "output_gradient overlaps the memory"),
    ],
)
def test_factors_that_do_not_fit_change_nothing(change: Callable[..., Any], message: str) -> None:
    weights, inputs, output = factors_of(2, 3, 4, np.float32)
    before = weights.copy()
    region = loader.core().Region(weights)
    with pytest.raises(ValueError, match=message):
        region.apply_dense("lock", ALPHA, *change(weights, inputs, output))
    np.testing.assert_array_equal(weights, before)
    assert [row["updates"] for row in region.counters()] == [0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", FUSING)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_operation_updates_as_by_the_gradient(kind: str, strategy: str, dtype: Any) -> None:
    weights, inputs, output = factors_of(3, 50, 33, dtype)
    expected = two_step(weights, inputs, output)
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(weights, use_resource=KINDS[kind])
        tracker = ops.Tracker(1, ["w"])
        product = tf.matmul(tf.constant(inputs), tf.constant(output), transpose_a=True)
        apply = ops.apply_gradient_descent(
            variable, ALPHA, product, strategy=resolve(strategy, FUSED), tracker=tracker, worker=0, index=0
        )
        assert "Dense" in apply.type
        assert tracker.fused == ["w"]
        initialise(session, variable, strategy, tracker, parameters=FUSED)
        session.run(apply)
        np.testing.assert_array_equal(value_of(session, variable, strategy, tracker, parameters=FUSED), expected)
        assert [row["updates"] for row in tracker.stats(session).counters] == [1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("weights", "inputs", "output", "message"),
    [
        (
            (3, 4),
            (2, 3),
            (1, 4),
            r"input has shape \[2,3\] and output_gradient has shape \[1,4\]: they must be matrices",
        ),
        ((3, 4), (3,), (2, 4), r"input has shape \[3\] and .* they must be matrices with a row for each example"),
        ((3, 4), (0, 3), (0, 4), "have no rows: there must be an example"),
        (
            (3, 4),
            (2, 4),
            (2, 3),
            r"the variable has shape \[3,4\], input has shape \[2,4\] .* output_gradient, \[4,3\]",
        ),
        ((12,), (2, 3), (2, 4), r"the variable has shape \[12\], .* columns of output_gradient, \[3,4\]"),
    ],
)
def test_shapes_that_turn_out_wrong_change_nothing(
    kind: str, weights: Any, inputs: Any, output: Any, message: str
) -> None:
    name = f"tmflow_{'resource_' if KINDS[kind] else ''}apply_dense_gradient_descent"
    with tf.Graph().as_default(), tf1.Session() as session:
        initial = tf1.placeholder_with_default(np.ones(weights, np.float32), None)
        variable = tf1.Variable(initial, validate_shape=False, use_resource=KINDS[kind])
        tracker = ops.Tracker(1, ["w"])
        fed = [tf1.placeholder(tf.float32) for _ in range(2)]
        target = variable.op.outputs[0]
        apply = getattr(loader.ops(), name)(target, 1.0, *fed, tracker.handle, 0, strategy="lock", variable=0)
        session.run(variable.initializer)
        values = (np.ones(shape, np.float32) for shape in (inputs, output))
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            session.run(apply, dict(zip(fed, values, strict=True)))
        assert (session.run(variable) == 1).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("weights", "inputs", "output"), [((3, 4), (2, 3), (1, 4)), ((3, 4), (2, 4), (2, 3)), ((12,), (2, 3), (2, 4))]
)
def test_shapes_that_are_known_to_be_wrong_fail_when_the_graph_is_built(
    kind: str, weights: Any, inputs: Any, output: Any
) -> None:
    name = f"tmflow_{'resource_' if KINDS[kind] else ''}apply_dense_gradient_descent"
    with tf.Graph().as_default():
        variable = tf1.Variable(np.ones(weights, np.float32), use_resource=KINDS[kind])
        tracker = ops.Tracker(1, ["w"])
        factors = tf.ones(inputs), tf.ones(output)
        with pytest.raises(ValueError, match="must be equal"):
            getattr(loader.ops(), name)(
                variable.op.outputs[0], 1.0, *factors, tracker.handle, 0, strategy="lock", variable=0
            )


@pytest.mark.parametrize("kind", KINDS)
def test_an_input_that_is_a_view_of_the_variable_is_refused(kind: str) -> None:
    """It shares the memory of the variable, which is written while the input is read."""
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(np.ones((3, 3), np.float32), use_resource=KINDS[kind])
        tracker = ops.Tracker(1, ["w"])
        own = ops.apply_gradient_descent(
            variable, 1.0, tf.zeros([3, 3]), strategy=resolve("lock", FUSED), tracker=tracker, worker=0, index=0
        )  # from here on the variable has separate memory
        read = ops.view(variable) if KINDS[kind] else variable._ref()
        product = tf.matmul(read, tf.ones([3, 3]), transpose_a=True)
        apply = ops.apply_gradient_descent(
            variable, 1.0, product, strategy=resolve("lock", FUSED), tracker=tracker, worker=0, index=0
        )
        session.run(variable.initializer)
        session.run(own)
        with pytest.raises(tf.errors.InvalidArgumentError, match="input overlaps the memory of the variable"):
            session.run(apply)
        assert (session.run(variable) == 1).all()


def weights_of(shape: tuple[int, ...] = (3, 4), dtype: Any = np.float32) -> Any:
    return tf1.Variable(np.ones(shape, dtype), use_resource=True)


def images(shape: tuple[int, ...] = (2, 3), dtype: Any = np.float32) -> Any:
    return tf.constant(np.arange(1, 1 + np.prod(shape), dtype=dtype).reshape(shape))


FACTORED: dict[str, Callable[[Any], Any]] = {
    "tf.matmul": lambda w: tf.matmul(images(), w),
    "the operator": lambda w: images() @ w,
    "with a bias and ReLU": lambda w: tf.nn.relu(tf.matmul(images(), w) + tf.ones([4])),
    "transposed weights": lambda w: tf.matmul(images((2, 4)), w, transpose_b=True),
    "an identity around them": lambda w: tf.matmul(images(), tf.identity(tf.identity(w))),
}
NOT_FACTORED: dict[str, Callable[[Any], Any]] = {
    "used twice": lambda w: tf.matmul(tf.matmul(images(), w), w, transpose_b=True),
    "with a regulariser": lambda w: tf.reduce_sum(tf.matmul(images(), w)) + tf.nn.l2_loss(w),
    "transposed inputs": lambda w: tf.matmul(images((3, 2)), w, transpose_a=True),
    "a cast": lambda w: tf.matmul(images(dtype=np.float64), tf.cast(w, tf.float64)),
    "no product": lambda w: tf.reduce_sum(w * 2),
    "rows of an embedding": lambda w: tf.gather(w, [0, 2]),
    "not used": lambda w: tf.ones([3]),
}


@pytest.mark.parametrize("layer", FACTORED)
def test_gradients_of_dense_layers_are_taken_apart(layer: str) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        weights = weights_of()
        (gradient,) = tf.gradients(tf.reduce_sum(FACTORED[layer](weights) ** 2), [weights])
        factors = ops.dense_factors(gradient)
        assert factors is not None
        session.run(weights.initializer)
        inputs, output, whole = session.run([factors.input, factors.output_gradient, gradient])
        np.testing.assert_allclose(inputs.T @ output, whole, rtol=1e-6)


@pytest.mark.parametrize("layer", NOT_FACTORED)
def test_other_gradients_are_left_as_they_are(layer: str) -> None:
    with tf.Graph().as_default():
        weights = weights_of()
        loss = tf.reduce_sum(NOT_FACTORED[layer](weights) ** 2)
        (gradient,) = tf.gradients(loss, [weights])
        assert ops.dense_factors(gradient) is None


def test_keras_dense_is_taken_apart() -> None:
    with tf.Graph().as_default():
        layer = tf.keras.layers.Dense(4, activation="relu")
        output = layer(images())
        kernel = layer.kernel.value if hasattr(layer.kernel, "value") else layer.kernel
        (gradient,) = tf.gradients(tf.reduce_sum(output**2), [kernel])
        assert ops.dense_factors(gradient) is not None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parameters", [{}, FUSED])
def test_minimise_descends_as_the_formula_says(kind: str, parameters: dict[str, Any]) -> None:
    """A layer of two used in one loss, with a bias that is no matrix product; the earlier layer reads the later one."""
    random = np.random.default_rng(3)
    data, one, bias, two = (random.normal(size=shape) for shape in ((5, 6), (6, 7), (7,), (7, 2)))
    with tf.Graph().as_default(), tf1.Session() as session:
        variables = [tf1.Variable(value, use_resource=KINDS[kind]) for value in (one, bias, two)]
        tracker = ops.Tracker(1, ["one", "bias", "two"])
        read = [v.read_value() if KINDS[kind] else tf.identity(v._ref()) for v in variables]
        output = tf.matmul(tf.matmul(tf.constant(data), read[0]) + read[1], read[2])
        step = minimise(
            tf.reduce_sum(output**2) / 2, variables, 0.01, strategy=resolve("lock", parameters),
            tracker=tracker, worker=0, read=read,
        )  # fmt: skip
        assert tracker.fused == (["one", "two"] if parameters else [])
        session.run([v.initializer for v in variables])
        for _ in range(20):
            hidden = data @ one + bias
            error = hidden @ two
            back = error @ two.T
            one, bias, two = one - 0.01 * data.T @ back, bias - 0.01 * back.sum(0), two - 0.01 * hidden.T @ error
            session.run(step)
        if parameters:  # elsewhere an update may overtake a read of the same step
            for value, expected in zip(session.run(variables), (one, bias, two), strict=True):
                np.testing.assert_allclose(value, expected, rtol=1e-9)
        assert [row["updates"] for row in tracker.stats(session).counters] == [20] * 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", READABLE)
def test_minimise_by_copies_descends_as_the_formula_says(kind: str, strategy: str) -> None:
    """The gradient of the earlier layer uses a copy of the later layer's weights, whichever is updated first."""
    random = np.random.default_rng(4)
    data, one, two = (random.normal(size=shape) for shape in ((5, 6), (6, 7), (7, 2)))
    with tf.Graph().as_default(), tf1.Session() as session:
        variables = [tf1.Variable(value, use_resource=KINDS[kind]) for value in (one, two)]
        own: dict[str, Any] = {"strategy": resolve(strategy), "tracker": ops.Tracker(1, ["one", "two"]), "worker": 0}
        read = [ops.read(v, index=i, consistent=True, **own) for i, v in enumerate(variables)]
        loss = tf.reduce_sum(tf.matmul(tf.matmul(tf.constant(data), read[0]), read[1]) ** 2) / 2
        step = minimise(loss, variables, 0.01, read=read, **own)
        for i, variable in enumerate(variables):
            initialise(session, variable, strategy, own["tracker"], i)
        for _ in range(20):
            hidden = data @ one
            error = hidden @ two
            one, two = one - 0.01 * data.T @ error @ two.T, two - 0.01 * hidden.T @ error
            session.run(step)
        for i, expected in enumerate((one, two)):
            value = value_of(session, variables[i], strategy, own["tracker"], i)
            np.testing.assert_allclose(value, expected, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_minimise_refuses_to_read_what_is_kept_elsewhere(kind: str) -> None:
    with tf.Graph().as_default():
        weights = tf1.Variable(np.ones(3, np.float32), use_resource=KINDS[kind], name="weights")
        plain = weights.read_value() if KINDS[kind] else weights._ref()
        own: dict[str, Any] = {"strategy": resolve("leashed"), "tracker": ops.Tracker(1, ["w"]), "worker": 0}
        for read in (None, [plain], [tf.identity(tf.identity(plain))]):
            loss = tf.reduce_sum((weights if read is None else read[0]) ** 2)
            with pytest.raises(BadInput, match="variable weights is read directly, but strategy 'leashed' keeps it"):
                minimise(loss, [weights], 0.1, read=read, **own)


def test_nothing_to_fuse_and_nothing_to_minimise_are_said() -> None:
    with tf.Graph().as_default():
        weights, other = weights_of(), weights_of()
        tracker = ops.Tracker(1, ["w", "other"])
        arguments: dict[str, Any] = {"strategy": resolve("lock", FUSED), "tracker": tracker, "worker": 0}
        with pytest.raises(BadInput, match="kernel fused has nothing to fuse: no gradient of Variable is a dense"):
            minimise(tf.reduce_sum(weights**2), [weights], 0.1, **arguments)
        with pytest.raises(BadInput, match="variable Variable_1 has no gradient: the loss does not depend on it"):
            minimise(tf.reduce_sum(tf.matmul(images(), weights)), [weights, other], 0.1, **arguments)


def test_emulated_transactions_do_not_fuse() -> None:
    with tf.Graph().as_default():
        weights = weights_of()
        tracker = ops.Tracker(1, ["w"])
        emulated = {**FUSED, "provider": "emulated", "profile": "intel-tsx-study"}
        with pytest.raises(BadInput, match="kernel fused does not go with provider emulated"):
            minimise(
                tf.reduce_sum(tf.matmul(images(), weights)), [weights], 0.1, strategy=resolve("htm", emulated),
                tracker=tracker, worker=0,
            )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", ["plain", "fused"])
def test_the_gradient_is_computed_only_where_it_is_used(kind: str, kernel: str) -> None:
    """According to the operations that the session executed."""
    with tf.Graph().as_default(), tf1.Session() as session:
        weights = tf1.Variable(np.ones((30, 40), np.float32), use_resource=KINDS[kind])
        tracker = ops.Tracker(1, ["w"])
        inputs = tf1.placeholder(tf.float32, [None, 30])
        loss = tf.reduce_sum(tf.matmul(inputs, weights))
        step = minimise(
            loss, [weights], 0.1, strategy=resolve("lock", {"kernel": kernel}), tracker=tracker, worker=0
        )  # fmt: skip
        session.run(weights.initializer)
        options = tf1.RunOptions(output_partition_graphs=True)
        metadata = tf1.RunMetadata()
        session.run(step, {inputs: np.ones((2, 30))}, options=options, run_metadata=metadata)
        ran = [node.op for graph in metadata.partition_graphs for node in graph.node]
        # The layer's product, which gives the shape of its gradient, and that of the weights' gradient or none.
        assert sum("MatMul" in op for op in ran) == 1 + (kernel == "plain"), ran


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", [name for name in FUSING if name != "nolock"])
def test_four_threads_lose_no_update_that_is_guaranteed(kind: str, strategy: str) -> None:
    shape = (500, 40)
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(np.zeros(shape, np.float32), use_resource=KINDS[kind])
        tracker = ops.Tracker(4, ["w"])
        worker = tf1.placeholder(tf.int32, [])
        product = tf.matmul(tf.ones([2, shape[0]]), tf.ones([2, shape[1]]), transpose_a=True)
        apply = ops.apply_gradient_descent(
            variable, -1, product, strategy=resolve(strategy, FUSED), tracker=tracker, worker=worker, index=0
        )
        initialise(session, variable, strategy, tracker, parameters=FUSED)
        call = session.make_callable(apply, [worker])
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda own: [call(np.int32(own)) for _ in range(100)], range(4)))
        assert np.unique(value_of(session, variable, strategy, tracker, parameters=FUSED)).tolist() == [800]
        assert [row["updates"] for row in tracker.stats(session).counters] == [100] * 4
