"""The optimizers of tmflow.optimizers compute what Keras's do, and concurrent updates are not lost."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

keras = pytest.importorskip("keras", reason="Keras comes with TensorFlow")
import tensorflow as tf  # noqa: E402

from tmflow import optimizers  # noqa: E402
from tmflow.base.errors import BadInput  # noqa: E402
from tmflow.native import loader  # noqa: E402

pytestmark = pytest.mark.slow

STRATEGIES = ("auto", "lock", "spin", "striped:block=7", "striped:block=0", "combining:block=5", "block_stm:block=8")
OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {"learning_rate": 0.3}),
    "momentum": ("SGD", {"learning_rate": 0.3, "momentum": 0.9}),
    "adagrad": ("Adagrad", {"learning_rate": 0.3}),
    "adam": ("Adam", {"learning_rate": 0.3}),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "decay": {"weight_decay": 0.01},
    "clipped": {"clipnorm": 0.5},
    "globally clipped": {"global_clipnorm": 0.5},
}


def both(name: str, strategy: str = "auto", **settings: Any) -> tuple[Any, Any]:
    """Keras's optimizer and ours."""
    kind, arguments = OPTIMIZERS[name]
    arguments = arguments | settings
    return getattr(keras.optimizers, kind)(**arguments), getattr(optimizers, kind)(**arguments, strategy=strategy)


def trained(
    optimizer: Any, dtype: str = "float32", *, in_function: bool = False, steps: int = 5
) -> list[np.ndarray[Any, Any]]:
    """Two variables after some steps with gradients that depend on them; and the slots."""
    draw = np.random.default_rng(0)
    variables = [keras.Variable(draw.normal(size=shape).astype(dtype), dtype=dtype) for shape in ((5, 7), (7,))]
    inputs = tf.constant(draw.normal(size=(3, 5)).astype(dtype))

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((inputs @ variables[0].value + variables[1].value) ** 2)
        values = [variable.value for variable in variables]
        optimizer.apply(tape.gradient(loss, values), variables)

    run = tf.function(step) if in_function else step
    for _ in range(steps):
        run()
    return [variable.numpy() for variable in (*variables, *optimizer.variables[2:])]


@pytest.mark.parametrize("in_function", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_thread_computes_what_keras_does(strategy: str, name: str, dtype: str, in_function: bool) -> None:
    """The same bits in float32, except where TensorFlow's graphs multiply by a reciprocal root in place of a division.

    In float64 Keras has rounded its hyperparameters to float32.
    """
    theirs, ours = (trained(one, dtype, in_function=in_function) for one in both(name, strategy))
    for expected, value in zip(theirs, ours, strict=True):
        if dtype == "float32" and not (name == "adagrad" and in_function):
            np.testing.assert_array_equal(value, expected)
        else:
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=list(SETTINGS))
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_decay_and_clipping_are_keras_own(name: str, settings: dict[str, Any]) -> None:
    theirs, ours = both(name, **settings)
    for expected, value in zip(trained(theirs), trained(ours), strict=True):
        np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_schedule_is_keras_own(name: str) -> None:
    schedule = keras.optimizers.schedules.ExponentialDecay(0.3, decay_steps=2, decay_rate=0.5)
    theirs, ours = both(name, learning_rate=schedule)
    for expected, value in zip(trained(theirs), trained(ours), strict=True):
        np.testing.assert_array_equal(value, expected)


def rows(indices: list[int], width: int, dtype: str = "float32") -> Any:
    values = np.random.default_rng(1).normal(size=(len(indices), width)).astype(dtype)
    return tf.IndexedSlices(tf.constant(values), tf.constant(indices), tf.constant([9, width]))


@pytest.mark.parametrize("name", ["sgd", "adagrad"])
def test_rows_are_as_keras_updates_them(name: str) -> None:
    results = []
    for optimizer in both(name):
        variable = keras.Variable(np.ones((9, 4), np.float32))
        for indices in ([3, 1, 8], [1, 2, 0]):
            optimizer.apply([rows(indices, 4)], [variable])
        results.append(variable.numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)


def test_rows_of_momentum_change_only_their_slots() -> None:
    optimizer = optimizers.SGD(0.5, momentum=0.5)
    variable = keras.Variable(np.ones((9, 4), np.float32))
    optimizer.apply([tf.IndexedSlices(tf.ones([1, 4]), tf.constant([3]), tf.constant([9, 4]))], [variable])
    optimizer.apply([tf.IndexedSlices(tf.ones([1, 4]), tf.constant([5]), tf.constant([9, 4]))], [variable])
    np.testing.assert_array_equal(variable.numpy()[[3, 5, 0], 0], [0.5, 0.5, 1.0])
    np.testing.assert_array_equal(optimizer.variables[2].numpy()[[3, 5, 0], 0], [-0.5, -0.5, 0.0])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_adam_changes_the_moments_of_its_rows_only(strategy: str) -> None:
    theirs, ours = both("adam", strategy)
    by_rows, dense = (keras.Variable(np.ones((9, 4), np.float32)) for _ in range(2))
    gradient = rows([3, 1, 3], 4)
    ours.apply([gradient], [by_rows])
    theirs.apply([tf.convert_to_tensor(gradient)], [dense])
    np.testing.assert_allclose(by_rows.numpy(), dense.numpy(), rtol=1e-6)
    first = ours.variables[2].numpy()
    ours.apply([rows([5], 4)], [by_rows])
    after = ours.variables[2].numpy()
    np.testing.assert_array_equal(after[[1, 3]], first[[1, 3]])
    assert (after[5] != 0).all()
    assert not after[[0, 2, 4, 6, 7, 8]].any()


def updated_by_threads(optimizer: Any, gradients: list[Any], variable: Any, times: int) -> None:
    """Each gradient is applied `times` times by a thread of its own, all at the same time."""
    optimizer.build([variable])
    start = threading.Barrier(len(gradients))

    def work(gradient: Any) -> None:
        start.wait()
        for _ in range(times):
            optimizer.apply([gradient], [variable])

    threads = [threading.Thread(target=work, args=(gradient,)) for gradient in gradients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_threads_lose_no_update(strategy: str) -> None:
    variable = keras.Variable(np.zeros(10_000, np.float32))
    optimizer = optimizers.SGD(1.0, strategy=strategy, workers=2, measures="full")
    updated_by_threads(optimizer, [tf.fill([10_000], -1.0), tf.fill([10_000], -2.0)] * 2, variable, 200)
    np.testing.assert_array_equal(variable.numpy(), np.full(10_000, 2 * 200 * 3, np.float32))
    stats = optimizer.counters()
    assert sum(row["updates"] for row in stats.counters) == 800
    assert [row["lost"] for row in stats.lost] == [0]
    optimizer.reset_counters()
    assert sum(row["updates"] for row in optimizer.counters().counters) == 0


@pytest.mark.parametrize("name", ["SGD", "Adam"])
@pytest.mark.parametrize("strategy", ["nolock", "lock", "spin_then_mutex", "striped", "combining"])
def test_full_measures_count_updates_of_rows(strategy: str, name: str) -> None:
    variable = keras.Variable(np.zeros((9, 4), np.float32))
    optimizer = getattr(optimizers, name)(1.0, strategy=strategy, workers=1, measures="full")
    for numbers in ([0, 1, 2], [5, 5], [8]):
        optimizer.apply([rows(numbers, 4)], [variable])
    (row,) = optimizer.counters().lost
    assert (row["expected"], row["lost"]) == (4 * (3 + 1 + 1), 0)
    optimizer.reset_counters()
    assert optimizer.counters().lost[0]["expected"] == 0


def test_waiting_for_a_lock_is_timed_for_updates_of_rows() -> None:
    variable = keras.Variable(np.zeros((60_000, 64), np.float32))
    optimizer = optimizers.SGD(1.0, strategy="lock", workers=2, measures="full")
    gradient = tf.IndexedSlices(tf.ones((60_000, 64)), tf.range(60_000), tf.constant([60_000, 64]))
    for _ in range(20):  # one of two threads may do all that it does before the other one runs
        updated_by_threads(optimizer, [gradient, gradient], variable, 30)
        waited, held = (
            sum(row[name] for row in optimizer.counters().counters) for name in ("lock_waited_s", "lock_held_s")
        )
        assert held > 0
        if waited > 0:
            break
    assert waited > 0


def test_threads_lose_no_update_of_rows() -> None:
    variable = keras.Variable(np.zeros((9, 4), np.float32))
    ones = [
        tf.IndexedSlices(tf.fill([3, 4], -1.0), tf.constant(of), tf.constant([9, 4])) for of in ([0, 1, 2], [1, 2, 3])
    ]
    updated_by_threads(optimizers.SGD(1.0), ones * 2, variable, 200)
    expected = np.array([400, 800, 800, 400, 0, 0, 0, 0, 0], np.float32)
    np.testing.assert_array_equal(variable.numpy(), np.repeat(expected[:, None], 4, axis=1))


def small_model(optimizer: Any) -> Any:
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="relu"), keras.layers.Dense(2)])
    model.compile(optimizer, loss="mse")
    return model


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_model_is_saved_with_its_optimizer_and_trains_on(name: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(2)
    x, y = draw.normal(size=(16, 4)).astype(np.float32), draw.normal(size=(16, 2)).astype(np.float32)
    model = small_model(both(name, "striped:block=0", weight_decay=0.01)[1])
    model.fit(x, y, epochs=2, shuffle=False, verbose=0)
    model.save(tmp_path / "model.keras")
    model.fit(x, y, epochs=2, shuffle=False, verbose=0)
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded.optimizer) is type(model.optimizer)
    assert loaded.optimizer.strategy == "striped:block=0"
    assert loaded.optimizer.workers is None
    loaded.fit(x, y, epochs=2, shuffle=False, verbose=0)
    for expected, value in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(value, expected)


class TestBadInput:
    def test_names_and_numbers(self) -> None:
        with pytest.raises(BadInput, match=r"unknown strategy 'stripes' \(did you mean 'striped'\?\); valid: adaptive"):
            optimizers.SGD(0.1, strategy="stripes")
        with pytest.raises(BadInput, match=r"unknown consistency 'strong'.*; valid: block, element, none, tensor"):
            optimizers.SGD(0.1, consistency="strong")  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="workers is 0, but should be a whole number from 1 to 1,024"):
            optimizers.SGD(0.1, workers=0)
        with pytest.raises(
            BadInput, match="strategy 'nolock' guarantees the consistency none, which is less than block"
        ):
            optimizers.SGD(0.1, strategy="nolock", consistency="block")
        with pytest.raises(BadInput, match="strategy 'tf_lock' is TensorFlow's own update of a TF1 graph"):
            optimizers.SGD(0.1, strategy="tf_lock")
        with pytest.raises(BadInput, match="strategy 'leashed' keeps the variables elsewhere"):
            optimizers.SGD(0.1, strategy="leashed")
        with pytest.raises(BadInput, match="has not made a step yet"):
            optimizers.SGD(0.1).counters()

    def test_what_concurrent_steps_would_overwrite(self) -> None:
        with pytest.raises(BadInput, match="use_ema is not supported"):
            optimizers.Adam(0.1, use_ema=True)
        with pytest.raises(BadInput, match="gradient_accumulation_steps is not supported"):
            optimizers.Adam(0.1, gradient_accumulation_steps=2)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, kernel_constraint="non_neg")])
        before = model.get_weights()
        model.compile(optimizers.SGD(0.1), loss="mse")
        with pytest.raises(BadInput, match=r"variable .*kernel has a constraint"):
            model.fit(np.ones((1, 2)), np.ones((1, 2)), verbose=0)
        np.testing.assert_array_equal(model.get_weights()[0], before[0])

    def test_variables_of_another_type(self) -> None:
        variable = keras.Variable(np.zeros(2), dtype="bfloat16")
        with pytest.raises(BadInput, match="is bfloat16; tmflow updates float32 and float64"):
            optimizers.SGD(0.1).build([variable])
        with pytest.raises(BadInput, match="the model has no trainable variables"):
            optimizers.SGD(0.1).build([])

    def test_rules_without_an_update(self) -> None:
        variable = keras.Variable(np.zeros(2, np.float32))
        with pytest.raises(BadInput, match="nesterov is not supported"):
            optimizers.SGD(0.1, momentum=0.5, nesterov=True).build([variable])
        with pytest.raises(BadInput, match="amsgrad is not supported"):
            optimizers.Adam(0.1, amsgrad=True).build([variable])

    def test_strategies_and_measures_that_do_not_go_with_the_optimizer(self) -> None:
        variable = keras.Variable(np.zeros((2, 2), np.float32))
        for strategy in ("stm", "atomic", "lock:kernel=eigen"):
            with pytest.raises(BadInput, match="optimiser adam"):
                optimizers.Adam(0.1, strategy=strategy).build([variable])
        with pytest.raises(BadInput, match="does not go with weight_decay and slots"):
            optimizers.Adam(0.1, measures="full", weight_decay=0.1).build([variable])

    def test_full_measures_of_whole_variables_and_of_rows(self) -> None:
        variable = keras.Variable(np.zeros((2, 2), np.float32))
        optimizer = optimizers.SGD(0.1, measures="full")
        optimizer.apply([rows([1], 2)], [variable])
        with pytest.raises(tf.errors.InvalidArgumentError, match="updates of whole variables, or updates of rows"):
            optimizer.apply([tf.ones((2, 2))], [variable])

    def test_hyperparameters_of_numpy(self) -> None:
        variables = [keras.Variable(np.ones(2, np.float32)) for _ in range(2)]
        for variable, momentum in zip(variables, (0.9, np.float64(0.9)), strict=True):
            optimizer = optimizers.SGD(0.1, momentum=momentum)
            for _ in range(2):
                optimizer.apply([tf.ones(2)], [variable])
        np.testing.assert_array_equal(variables[0].numpy(), variables[1].numpy())

    def test_a_distribution_strategy_in_scope(self) -> None:
        with (
            tf.distribute.OneDeviceStrategy("/cpu:0").scope(),
            pytest.raises(BadInput, match=r"tf\.distribute strategy"),
        ):
            optimizers.SGD(0.1)


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_first_steps_of_several_threads_at_once_are_all_made(name: str) -> None:
    for _ in range(10):
        optimizer, variable = both(name)[1], keras.Variable(np.zeros(3, np.float32))
        start, failed = threading.Barrier(4), list[Exception]()

        def step(
            optimizer: Any = optimizer, variable: Any = variable, start: Any = start, failed: Any = failed
        ) -> None:
            start.wait()
            try:
                optimizer.apply([tf.ones(3)], [variable])
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=step) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert int(optimizer.iterations) == 4
        assert sum(row["updates"] for row in optimizer.counters().counters) == 4


def test_a_former_optimizer_may_be_collected_while_another_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    variable, another = (keras.Variable(np.zeros(3, np.float32)) for _ in range(2))
    later = both("sgd", "spin")[1]
    later.build([another])

    def train() -> None:
        former = both("sgd", "lock")[1]
        former.apply([tf.ones(3)], [variable])
        former.cycle = [former]  # only a collection frees it

    ops = loader.ops

    def ops_after_a_collection() -> Any:
        gc.collect()
        return ops()

    gc.disable()
    try:
        train()
        monkeypatch.setattr(loader, "ops", ops_after_a_collection)
        later._updates.take_over([variable.value])
    finally:
        gc.enable()
