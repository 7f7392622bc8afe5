"""`tmflow.Workers` trains as `fit` does, with several threads; whatever ends a training leaves a usable model."""

from __future__ import annotations

import itertools
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

keras = pytest.importorskip("keras", reason="Keras comes with TensorFlow")
import tensorflow as tf  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402

import tmflow  # noqa: E402
from tmflow import optimizers  # noqa: E402
from tmflow.base.errors import BadInput  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def digits() -> tuple[Any, Any]:
    images, labels = load_digits(return_X_y=True)
    return (images / 16).astype(np.float32), labels


def model_of(optimizer: Any, **compiled: Any) -> Any:
    keras.utils.set_random_seed(5)
    model = keras.Sequential(
        [keras.Input((64,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(10, activation="softmax")]
    )
    model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"], **compiled)
    return model


def test_one_worker_trains_as_fit_does(digits: tuple[Any, Any]) -> None:
    data = tf.data.Dataset.from_tensor_slices(digits).batch(50)
    plain, threaded = model_of(keras.optimizers.SGD(0.1)), model_of(optimizers.SGD(0.1))
    expected = plain.fit(data, epochs=2, verbose=0).history
    history = tmflow.Workers(1).fit(threaded, data, epochs=2, verbose=0).history
    for value, of_keras in zip(threaded.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_array_equal(value, of_keras)
    assert history.keys() == expected.keys()
    np.testing.assert_allclose(history["loss"], expected["loss"], rtol=1e-6)


@pytest.mark.parametrize(("workers", "reads"), [(2, "shared"), (3, "shared"), (2, "values")])
def test_each_batch_is_trained_once_and_the_model_learns(digits: tuple[Any, Any], workers: int, reads: Any) -> None:
    images, labels = digits
    model = model_of(optimizers.Adam(0.01))
    history = tmflow.Workers(workers).fit(
        model, images[:1500], labels[:1500], batch_size=10, epochs=4, seed=1, verbose=0, reads=reads,
        validation_data=(images[1500:], labels[1500:]),
    )  # fmt: skip
    assert int(model.optimizer.iterations) == 4 * 150
    assert history.history["val_accuracy"][-1] > 0.85
    assert sorted(history.history) == ["accuracy", "loss", "val_accuracy", "val_loss"]
    counted = model.optimizer.counters().counters
    assert sum(row["updates"] for row in counted) == 4 * 4 * 150  # four variables
    assert model.train_function is None, "the function of the model is made anew"
    assert "assign_add" not in vars(keras.Variable)
    assert "_read_variable_op" not in vars(model.trainable_variables[0].value)
    assert model.evaluate(images, labels, verbose=0)[1] > 0.9


def test_early_stopping_and_callbacks(digits: tuple[Any, Any]) -> None:
    model = model_of(optimizers.SGD(0.1))
    epochs: list[int] = []
    seen = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: epochs.append(epoch))
    stop = keras.callbacks.EarlyStopping("loss", min_delta=100.0, patience=1)
    tmflow.Workers(2).fit(model, *digits, epochs=9, callbacks=[seen, stop], verbose=0)
    assert epochs == [0, 1]


@pytest.mark.parametrize("reads", ["shared", "values"])
def test_one_worker_trains_a_model_without_an_input_layer_and_with_a_table(reads: Any) -> None:
    """The gradient of a table is one of rows, through either kind of read."""
    draw = np.random.default_rng(1)
    words = np.array([draw.choice(50, 3, replace=False) for _ in range(400)])  # Keras's Adagrad counts a word twice
    labels = draw.normal(size=400).astype(np.float32)
    results = []
    for optimizer in (keras.optimizers.Adagrad(0.1), optimizers.Adagrad(0.1)):
        keras.utils.set_random_seed(7)
        model = keras.Sequential([keras.layers.Embedding(50, 4), keras.layers.Flatten(), keras.layers.Dense(1)])
        model.compile(optimizer, loss="mse")
        data = tf.data.Dataset.from_tensor_slices((words, labels)).batch(1)
        if isinstance(optimizer, optimizers.Adagrad):
            tmflow.Workers(1).fit(model, data, verbose=0, reads=reads)
            by_rows = optimizer.counters()
            assert sum(row["updates"] for row in by_rows.counters) == 3 * 400
        else:
            model.fit(data, verbose=0)
        results.append(model.get_weights())
    for theirs, ours in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


def test_a_model_with_two_inputs_is_validated_with_weights() -> None:
    draw = np.random.default_rng(1)
    left, right = draw.normal(size=(2, 300, 5)).astype(np.float32)
    labels = (left * right).sum(axis=1)
    inputs = [keras.Input((5,)), keras.Input((5,))]
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Multiply()(inputs)))
    model.compile(optimizers.SGD(0.05), loss="mse")
    history = tmflow.Workers(2).fit(
        model, [left, right], labels, batch_size=10, epochs=20, verbose=0,
        validation_data=([left, right], labels, np.ones(300)),
    )  # fmt: skip
    assert history.history["val_loss"][-1] < 0.01


class CountsBatches(keras.metrics.Metric):
    """Adds to a vector that is so long that two threads often add at the same time."""

    def __init__(self) -> None:
        super().__init__(name="batches")
        self.seen = self.add_weight(shape=(300_000,), initializer="zeros", name="seen")

    def update_state(self, *_: Any, **__: Any) -> None:
        self.seen.assign_add(1.0)

    def result(self) -> Any:
        return {"fewest": keras.ops.min(self.seen), "most": keras.ops.max(self.seen)}


def test_metrics_that_add_up_count_every_batch(digits: tuple[Any, Any]) -> None:
    model = model_of(optimizers.SGD(0.1))
    model.compile(model.optimizer, loss="sparse_categorical_crossentropy", metrics=[CountsBatches()])
    history = tmflow.Workers(3).fit(model, *digits, batch_size=4, verbose=0).history
    assert history["fewest"] == history["most"] == [450]


def test_validation_is_that_of_evaluate_whatever_was_traced_before(digits: tuple[Any, Any]) -> None:
    model = model_of(optimizers.SGD(0.1))
    model.evaluate(*digits, verbose=0)
    model.predict(digits[0], verbose=0)
    history = tmflow.Workers(2).fit(model, *digits, validation_data=digits, verbose=0).history
    assert history["val_loss"][-1] == pytest.approx(model.evaluate(*digits, verbose=0)[0], rel=1e-5)
    assert model.predict(digits[0], verbose=0).shape == (1797, 10)


def test_checkpoints_of_batches_are_saved_once_for_each_number(digits: tuple[Any, Any], tmp_path: Path) -> None:
    saved = keras.callbacks.ModelCheckpoint(tmp_path / "{batch:04d}.keras", save_freq=100)
    model = model_of(optimizers.SGD(0.1))
    tmflow.Workers(2).fit(model, *digits, batch_size=4, callbacks=[saved], verbose=0)
    assert 1 <= len(list(tmp_path.iterdir())) <= 5


def test_two_trainings_at_once(digits: tuple[Any, Any]) -> None:
    models = [model_of(optimizers.SGD(0.1)) for _ in range(2)]
    threads = [
        threading.Thread(target=tmflow.Workers(2).fit, args=(model, *digits), kwargs={"verbose": 0, "epochs": 2})
        for model in models
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [int(model.optimizer.iterations) for model in models] == [2 * 57, 2 * 57]
    assert "assign_add" not in vars(keras.Variable)


class RaisesAt(keras.layers.Layer):
    """A layer that raises in the function at a step of its choice."""

    def __init__(self, step: int, error: type[BaseException]) -> None:
        super().__init__()
        self.steps, self.step, self.error = itertools.count(1), step, error  # next is atomic

    def call(self, inputs: Any) -> Any:
        def look(value: Any) -> Any:
            if next(self.steps) == self.step:
                raise self.error("at this step")
            return value

        outputs = tf.numpy_function(look, [inputs], inputs.dtype)
        return tf.ensure_shape(outputs, inputs.shape)


def test_an_exception_of_a_worker_is_raised_once(digits: tuple[Any, Any]) -> None:
    keras.utils.set_random_seed(5)
    model = keras.Sequential([keras.Input((64,)), RaisesAt(40, ValueError), keras.layers.Dense(10)])
    model.compile(optimizers.SGD(0.1), loss="mse", metrics=["mse"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="at this step"):
        tmflow.Workers(2).fit(model, digits[0], np.zeros((len(digits[0]), 10)), batch_size=10, verbose=0)
    assert np.isfinite(model.get_weights()[0]).all()
    assert 16 <= int(model.optimizer.iterations) < 180


def test_an_interrupt_leaves_a_usable_model(digits: tuple[Any, Any]) -> None:
    class Interrupts(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            signal.raise_signal(signal.SIGINT)

    model = model_of(optimizers.SGD(0.1))
    with pytest.raises(KeyboardInterrupt):
        tmflow.Workers(2).fit(model, *digits, batch_size=1, epochs=1000, callbacks=[Interrupts()], verbose=0)
    done = int(model.optimizer.iterations)
    assert 0 < done < 1000 * len(digits[0])
    tmflow.Workers(2).fit(model, *digits, batch_size=50, verbose=0)
    assert int(model.optimizer.iterations) == done + 36


class TestBadInput:
    def test_workers(self) -> None:
        for wrong in (0, -1, 1.5, "two"):
            with pytest.raises(BadInput, match=r"number of workers is .*, but should be a whole number from 1 to 1024"):
                tmflow.Workers(wrong)  # type: ignore[arg-type]

    def test_models(self, digits: tuple[Any, Any]) -> None:
        with pytest.raises(BadInput, match="use jit_compile=False"):
            tmflow.Workers(1).fit(model_of(optimizers.SGD(0.1), jit_compile=True), *digits)
        with pytest.raises(BadInput, match="the model is not compiled"):
            tmflow.Workers(1).fit(keras.Sequential(), *digits)
        with pytest.raises(
            BadInput, match=r"the optimizer is SGD of keras.*concurrent steps would overwrite each other"
        ):
            tmflow.Workers(1).fit(model_of(keras.optimizers.SGD(0.1)), *digits)

    def test_data(self, digits: tuple[Any, Any]) -> None:
        data = tf.data.Dataset.from_tensor_slices(digits).batch(50)
        model = model_of(optimizers.SGD(0.1))
        before = model.get_weights()
        for wrong, reason in (
            ((data.repeat(),), "the dataset is infinite: end it with dataset.take"),
            ((data.take(0),), "the data has no batch"),
            ((data, digits[1]), "y must not be given"),
        ):
            with pytest.raises(BadInput, match=reason):
                tmflow.Workers(2).fit(model, *wrong, verbose=0)
        with pytest.raises(BadInput, match="the arrays have 5 and 1797 examples, but should have as many of each"):
            tmflow.Workers(2).fit(model, digits[0], digits[1][:5])
        with pytest.raises(BadInput, match="unknown reads 'views'; valid: shared, values"):
            tmflow.Workers(2).fit(model, *digits, reads="views")
        with pytest.raises(BadInput, match="batch_size is 0, but should be a whole number from 1 on"):
            tmflow.Workers(2).fit(model, *digits, batch_size=0)
        for value, kept in zip(model.get_weights(), before, strict=True):
            np.testing.assert_array_equal(value, kept)
