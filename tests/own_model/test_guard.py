"""A guard of one TensorFlow variable: updates from any thread, dense and of rows, eagerly and in functions."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

keras = pytest.importorskip("keras", reason="Keras comes with TensorFlow")
import tensorflow as tf  # noqa: E402

from tmflow.base.errors import BadInput  # noqa: E402
from tmflow.tf import guard  # noqa: E402

pytestmark = pytest.mark.slow


def by_threads(work: Any, threads: int = 4) -> None:
    start = threading.Barrier(threads)

    def run() -> None:
        start.wait()
        work()

    all_threads = [threading.Thread(target=run) for _ in range(threads)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()


@pytest.mark.parametrize("in_function", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize("strategy", ["auto", "lock", "striped:block=64", "stm", "atomic"])
def test_threads_lose_no_update(strategy: str, in_function: bool) -> None:
    guarded = guard(tf.Variable(tf.zeros([50, 20])), strategy=strategy, workers=2, measures="full")
    ones = tf.ones([50, 20])

    def step() -> None:
        guarded.apply(-ones, 1.0)

    run = tf.function(step) if in_function else step
    run()
    by_threads(lambda: [run() for _ in range(50)])
    np.testing.assert_array_equal(guarded.variable.numpy(), np.full((50, 20), 201))
    assert [row["lost"] for row in guarded.counters().lost] == [0]


def test_rows_of_a_table() -> None:
    guarded = guard(keras.Variable(np.zeros((6, 3), np.float32)))
    rows = tf.IndexedSlices(-tf.ones([3, 3]), tf.constant([0, 4, 4]), tf.constant([6, 3]))
    by_threads(lambda: [guarded.apply(rows, 0.5) for _ in range(100)])
    np.testing.assert_array_equal(guarded.variable.numpy()[:, 0], [200, 0, 0, 0, 400, 0])


def test_a_value_that_was_read_stays_what_it_was() -> None:
    guarded = guard(tf.Variable(tf.zeros([1000])))
    before = guarded.read(consistent=False)
    copy = guarded.read()
    guarded.apply(tf.ones([1000]), 1.0)
    np.testing.assert_array_equal(before.numpy(), np.zeros(1000))
    np.testing.assert_array_equal(copy.numpy(), np.zeros(1000))
    np.testing.assert_array_equal(guarded.read().numpy(), np.full(1000, -1))


def test_gradients_from_a_tape_train() -> None:
    guarded = guard(tf.Variable([5.0]))

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = (guarded.variable - 2.0) ** 2
        guarded.apply(tape.gradient(loss, guarded.variable), 0.1)

    for _ in range(60):
        step()
    assert guarded.variable.numpy()[0] == pytest.approx(2.0, abs=1e-3)


class TestBadInput:
    def test_what_is_no_variable(self) -> None:
        with pytest.raises(BadInput, match=r"a guard needs a tf.Variable, not a ndarray"):
            guard(np.zeros(3))
        with pytest.raises(BadInput, match="is int32; a guard updates float32 and float64"):
            guard(tf.Variable([1]))

    def test_gradients(self) -> None:
        guarded = guard(tf.Variable(tf.zeros([3, 2])))
        with pytest.raises(BadInput, match="is None: the loss does not depend on it"):
            guarded.apply(None, 1.0)
        for wrong in (
            tf.ones([2, 3]),
            tf.IndexedSlices(tf.ones([1, 2]), tf.constant([3])),
            tf.IndexedSlices(tf.ones([1, 5]), tf.constant([0])),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError):
                guarded.apply(wrong, 1.0)
        np.testing.assert_array_equal(guarded.variable.numpy(), np.zeros((3, 2)))

    def test_strategies(self) -> None:
        with pytest.raises(BadInput, match="strategy 'local_steps' keeps the variables elsewhere"):
            guard(tf.Variable([1.0]), strategy="local_steps")
        with pytest.raises(BadInput, match="strategy 'nolock' has no consistent read"):
            guard(tf.Variable([1.0]), strategy="nolock").read()
        variable = tf.Variable([1.0])
        first, second = guard(variable, strategy="lock"), guard(variable, strategy="spin")
        first.apply([1.0], 1.0)
        with pytest.raises(tf.errors.InvalidArgumentError, match="is updated under strategy lock"):
            second.apply([1.0], 1.0)
