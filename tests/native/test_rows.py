"""Updates of rows, the sparse gradients of embeddings, under every strategy."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
from graphs import KINDS, initialise, tf, tf1, value_of
from numpy.typing import NDArray
from variants import KEEPING, STRATEGIES, Variant, variants_of

from tmflow.base.errors import BadInput
from tmflow.native import loader, ops
from tmflow.native.optimizer import minimise
from tmflow.native.registry import resolve

ALPHA = 0.3
Array = NDArray[Any]

# Row numbers of a variable with 40 rows.
ROWS: dict[str, list[int]] = {
    "one": [17],
    "none": [],
    "in order": [0, 3, 4, 5, 20, 39],
    "in disorder": [39, 3, 20, 0],
    "several times": [7, 2, 7, 30, 2, 7],
    "all": list(range(40)),
}


def gradient(rows: list[int], shape: tuple[int, ...], dtype: Any) -> tuple[Array, Array]:
    values = np.random.default_rng(len(rows)).normal(size=(len(rows), *shape)).astype(dtype)
    return np.array(rows, np.int64), values


def updated(variable: Array, rows: Array, values: Array) -> Array:
    """variable[rows] -= ALPHA * values; a row that is there several times gets the sum of its values, in order."""
    after = variable.copy()
    for row in np.unique(rows):
        first, *others = values[rows == row]
        total = first.copy()
        for value in others:
            total += value
        after[row] = variable[row] - variable.dtype.type(ALPHA) * total
    return after


@pytest.mark.parametrize("width", [(), (1,), (10,), (64,), (3, 5)], ids=str)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_rows_are_updated_and_no_other(strategy: str, rows: str, width: tuple[int, ...]) -> None:
    for dtype in (np.float32, np.float64):
        before = np.random.default_rng(1).normal(size=(40, *width)).astype(dtype)
        numbers, values = gradient(ROWS[rows], width, dtype)
        expected = updated(before, numbers, values)
        for variant in variants_of(strategy):
            array = before.copy()
            region = loader.core().Region(array)
            region.apply_rows(strategy, ALPHA, numbers, values, parameters=variant.parameters)
            region.settle()
            np.testing.assert_array_equal(array, expected, err_msg=f"{variant}, {dtype.__name__}")
            assert [row["updates"] for row in region.counters()] == [1]


THREADS, STEPS, AT_ONCE, TABLE = 4, 400, 16, (100, 24)


def add_ones(region: Any, variant: Variant, worker: int) -> Array:
    """Add 1 to rows that are drawn at random, many times; returns how often to each row."""
    random = np.random.default_rng(worker)
    made = np.zeros(TABLE[0])
    for _ in range(STEPS):
        rows = random.choice(TABLE[0], AT_ONCE, replace=False)
        region.apply_rows(variant.strategy, -1.0, rows, np.ones((AT_ONCE, TABLE[1])), worker, variant.parameters)
        made[rows] += 1
    return made


@pytest.mark.parametrize("strategy", KEEPING)
def test_threads_lose_no_row(strategy: str) -> None:
    for variant in variants_of(strategy):
        array = np.zeros(TABLE)
        region = loader.core().Region(array, THREADS)
        with ThreadPoolExecutor(THREADS) as pool:
            made = list(pool.map(partial(add_ones, region, variant), range(THREADS)))
        region.settle()
        np.testing.assert_array_equal(
            array, np.broadcast_to(np.sum(made, axis=0)[:, None], TABLE), err_msg=str(variant)
        )
        assert [row["updates"] for row in region.counters()] == [STEPS] * THREADS


@pytest.mark.parametrize(("chunk", "transactions"), [(0, 1), (1, 48), (7, 8), (24, 2), (1000, 1)])
@pytest.mark.parametrize("strategy", ["htm", "stm"])
def test_a_chunk_of_a_row_is_a_transaction_of_a_row(strategy: str, chunk: int, transactions: int) -> None:
    """With chunks of a row's length each row is a transaction, and rows that are not touched cost none."""
    machine = next(variant.value("machine") for variant in variants_of("htm") if variant.value("machine"))
    array = np.zeros(TABLE)
    region = loader.core().Region(array)
    emulated = ["provider=emulated", f"machine={machine}"] if strategy == "htm" else []
    parameters = [*emulated, f"chunk={chunk}"]
    region.apply_rows(strategy, -1.0, np.array([3, 40]), np.ones((2, TABLE[1])), parameters=parameters)
    (counts,) = region.counters()
    assert counts["commits"] + counts["fallbacks"] == transactions
    assert array.sum() == 2 * TABLE[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, r, v: (np.array([0, 3]), v), r"row 3 is not in the variable, which has 3 rows, counted from 0"),
        (lambda a, r, v: (np.array([-1, 2]), v), r"row -1 is not in the variable, which has 3 rows"),
        (lambda a, r, v: (r.astype(np.int32), v), "rows must be a C-contiguous NumPy array of int64 with one"),
        (lambda a, r, v: (r[:, None], v), "rows must be a C-contiguous NumPy array of int64 with one dimension"),
        (lambda a, r, v: (r, v[:1].copy()), r"values must have a row .* \(3, 2\) .* 2 rows, but are of shape \(1, 2\)"),
        (lambda a, r, v: (r, np.ones((2, 3), np.float32)), r"for each of the 2 rows, but are of shape \(2, 3\)"),
        (lambda a, r, v: (r, v.ravel()), r"but are of shape \(4,\)"),
        (lambda a, r, v: (r, v.astype(float)), "values must be a C-contiguous NumPy array of the array's own type"),
        (lambda a, r, v: (r, a[:2]), "values overlaps the memory of the variable"),
    ],
)
def test_rows_that_do_not_fit_change_nothing(change: Callable[..., Any], message: str) -> None:
    array = np.ones((3, 2), np.float32)
    region = loader.core().Region(array)
    with pytest.raises(ValueError, match=message):
        region.apply_rows("lock", ALPHA, *change(array, np.array([0, 2]), np.ones((2, 2), np.float32)))
    assert (array == 1).all()
    assert [row["updates"] for row in region.counters()] == [0]


@pytest.mark.parametrize("shape", [(0, 2), (3, 0)], ids=str)
def test_an_array_without_rows_is_refused(shape: tuple[int, int]) -> None:
    region = loader.core().Region(np.ones(shape, np.float32))
    with pytest.raises(ValueError, match="has no rows"):
        region.apply_rows("lock", ALPHA, np.zeros(0, np.int64), np.ones((0, shape[1]), np.float32))


def embedding_loss(table: Any) -> Any:
    """Row 4 is looked up twice."""
    looked_up = tf.nn.embedding_lookup(table, tf.constant([4, 1, 4], tf.int32))
    return tf.reduce_sum(looked_up * tf.constant([[1.0], [2.0], [4.0]], looked_up.dtype))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.usefixtures("runs_here")
def test_the_gradient_of_an_embedding_updates_its_rows(strategy: str, dtype: Any, kind: str) -> None:
    before = np.random.default_rng(2).normal(size=(6, 8)).astype(dtype)
    expected = updated(before, np.array([4, 1, 4]), np.repeat([[1.0], [2.0], [4.0]], 8, axis=1).astype(dtype))
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(before, use_resource=KINDS[kind])
        tracker, resolved = ops.Tracker(1, ["w"]), resolve(strategy)
        reads = [
            ops.read(variable, strategy=resolved, tracker=tracker, worker=0, index=0, consistent=True)
            if resolved.entry.keeps_elsewhere
            else variable
        ]
        step = minimise(
            embedding_loss(reads[0]), [variable], ALPHA, strategy=resolved, tracker=tracker, worker=0, read=reads
        )
        operations = {operation.type for operation in session.graph.get_operations()}
        assert not {name for name in operations if name.startswith("UnsortedSegment")}, "the gradient became dense"
        initialise(session, variable, strategy, tracker)
        session.run(step)
        np.testing.assert_array_equal(value_of(session, variable, strategy, tracker), expected)
        assert [row["updates"] for row in tracker.stats(session).counters] == [1]


@pytest.mark.parametrize(
    ("strategy", "kind", "operation"),
    [
        ("tf_lock", "ref", "ScatterSub"),
        ("tf_nolock", "ref", "ScatterSub"),
        ("tf_nolock", "resource", "ResourceScatterSub"),
    ],
)
def test_a_stock_strategy_scatters(strategy: str, kind: str, operation: str) -> None:
    before = np.ones((6, 8))
    expected = updated(before, np.array([4, 1, 4]), np.repeat([[1.0], [2.0], [4.0]], 8, axis=1))
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(before, use_resource=KINDS[kind])
        loss = embedding_loss(variable)
        step = minimise(loss, [variable], ALPHA, strategy=resolve(strategy), tracker=ops.Tracker(1, ["w"]), worker=0)
        (scatter,) = [o for o in session.graph.get_operations() if o.type == operation]
        if kind == "ref":
            assert scatter.get_attr("use_locking") == (strategy == "tf_lock")
        session.run(variable.initializer)
        session.run(step)
        np.testing.assert_allclose(session.run(variable), expected, rtol=1e-12)


def test_rows_of_a_resource_variable_have_no_stock_lock() -> None:
    with tf.Graph().as_default():
        variable = tf1.Variable(np.ones((6, 8)), use_resource=True)
        with pytest.raises(BadInput, match="update of rows of a resource variable takes no exclusive lock"):
            minimise(
                embedding_loss(variable), [variable], ALPHA, strategy=resolve("tf_lock"),
                tracker=ops.Tracker(1, ["w"]), worker=0,
            )  # fmt: skip


def sparse(variable: Any, rows: Any, values: Any, tracker: ops.Tracker, strategy: str = "striped") -> Any:
    slices = tf.IndexedSlices(values=values, indices=rows)
    return ops.apply_gradient_descent(
        variable, 1.0, slices, strategy=resolve(strategy), tracker=tracker, worker=0, index=0
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("rows", "shape", "message"),
    [
        ([0, 6], (2, 8), "row 6 is not in the variable, which has 6 rows"),
        ([-1, 2], (2, 8), "row -1 is not in the variable"),
        ([[1]], (1, 8), r"indices has shape \[1,1\] and values has shape \[1,8\]: there must be a row of values for"),
        ([1, 2], (1, 8), r"indices has shape \[2\] and values has shape \[1,8\]"),
        ([1, 2], (2, 7), r"the variable has shape \[6,8\] and values has shape \[2,7\]: their rows must be of"),
        ([1, 2], (2, 0), "values has rows of no elements"),
    ],
)
def test_rows_that_turn_out_wrong_change_nothing(kind: str, rows: Any, shape: Any, message: str) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        initial = tf1.placeholder_with_default(np.ones((6, 8), np.float32), None)
        variable = tf1.Variable(initial, validate_shape=False, use_resource=KINDS[kind])
        fed = tf1.placeholder(tf.int64), tf1.placeholder(tf.float32)
        step = sparse(variable, *fed, ops.Tracker(1, ["w"]))
        session.run(variable.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            session.run(step, dict(zip(fed, (rows, np.ones(shape)), strict=True)))
        assert (session.run(variable) == 1).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "shape"), [([0, 1], (3, 8)), ([[0]], (1, 8)), ([0, 1], (2, 7))])
def test_rows_that_are_known_to_be_wrong_fail_when_the_graph_is_built(kind: str, rows: Any, shape: Any) -> None:
    with tf.Graph().as_default():
        variable = tf1.Variable(np.ones((6, 8), np.float32), use_resource=KINDS[kind])
        with pytest.raises(ValueError, match=r"must be equal|must be rank 1"):
            sparse(variable, tf.constant(rows), tf.ones(shape), ops.Tracker(1, ["w"]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", ["nolock", "lock", "striped", "atomic"])
def test_full_measures_count_rows(kind: str, strategy: str) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(np.ones((6, 8), np.float32), use_resource=KINDS[kind])
        tracker = ops.Tracker(1, ["w"], "full")
        step = sparse(variable, tf.constant([1, 4]), tf.ones((2, 8)), tracker, strategy)
        with pytest.raises(tf.errors.OpError, match="initialized"):
            session.run(step)
        session.run(variable.initializer)
        for _ in range(3):
            session.run(step)
        (row,) = tracker.stats(session).lost
        assert (row["expected"], row["lost"]) == (3 * 2 * 8, 0)


def test_full_measures_are_of_whole_variables_or_of_rows() -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(np.ones((6, 8), np.float32), use_resource=True)
        tracker = ops.Tracker(1, ["w"], "full")
        resolved, copied = resolve("lock"), {"worker": 0, "index": 0, "consistent": False}
        copy = ops.read(variable, strategy=resolved, tracker=tracker, **copied)
        step = sparse(variable, tf.constant([1]), tf.ones((1, 8)), tracker, "lock")
        session.run(variable.initializer)
        session.run(copy)
        with pytest.raises(tf.errors.InvalidArgumentError, match="it was read before its rows were updated"):
            session.run(step)
        assert (session.run(variable) == 1).all()


def test_a_variable_of_rows_may_be_read_but_that_is_not_counted() -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(np.ones((6, 8), np.float32), use_resource=True)
        tracker = ops.Tracker(1, ["w"], "full")
        resolved, through = resolve("lock"), {"worker": 0, "index": 0, "consistent": True}
        value = ops.read(variable, strategy=resolved, tracker=tracker, **through)
        step = sparse(variable, tf.constant([1]), tf.ones((1, 8)), tracker, "lock")
        session.run(variable.initializer)
        session.run(step)
        assert (session.run(value)[1] == 0).all()
        stats = tracker.stats(session)
        assert (stats.reads, stats.lost[0]["expected"]) == ([], 8)
