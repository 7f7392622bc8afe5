"""`tmflow.Workers` trains as `fit` does, with several threads; whatever ends a training leaves a usable model."""

from __future__ import annotations

import signal
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


@pytest.mark.parametrize("workers", [2, 3])
def test_each_batch_is_trained_once_and_the_model_learns(digits: tuple[Any, Any], workers: int) -> None:
    images, labels = digits
    model = model_of(optimizers.Adam(0.01))
    history = tmflow.Workers(workers).fit(
        model, images[:1500], labels[:1500], batch_size=10, epochs=4, seed=1, verbose=0,
        validation_data=(images[1500:], labels[1500:]),
    )  # fmt: skip
    assert int(model.optimizer.iterations) == 4 * 150
    assert history.history["val_accuracy"][-1] > 0.85
    assert sorted(history.history) == ["accuracy", "loss", "val_accuracy", "val_loss"]
    counted = model.optimizer.counters().counters
    assert sum(row["updates"] for row in counted) == 4 * 4 * 150  # four variables
    assert model.train_function is None, "the function of the model is made anew"
    assert "assign_add" not in vars(keras.Variable)
    assert model.evaluate(images, labels, verbose=0)[1] > 0.9


def test_early_stopping_and_callbacks(digits: tuple[Any, Any]) -> None:
    model = model_of(optimizers.SGD(0.1))
    epochs: list[int] = []
    seen = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: epochs.append(epoch))
    stop = keras.callbacks.EarlyStopping("loss", min_delta=100.0, patience=1)
    tmflow.Workers(2).fit(model, *digits, epochs=9, callbacks=[seen, stop], verbose=0)
    assert epochs == [0, 1]


class RaisesAt(keras.layers.Layer):
    """A layer that raises in the function at a step of its choice."""

    def __init__(self, step: int, error: type[BaseException]) -> None:
        super().__init__()
        self.left, self.error = step, error

    def call(self, inputs: Any) -> Any:
        def look(value: Any) -> Any:
            self.left -= 1
            if self.left == 0:
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
            ((data.repeat(),), "the dataset is infinite: give it an end with dataset.take"),
            ((data.take(0),), "the data has no batch"),
            ((data, digits[1]), "y must not be given"),
        ):
            with pytest.raises(BadInput, match=reason):
                tmflow.Workers(2).fit(model, *wrong, verbose=0)
        with pytest.raises(BadInput, match="batch_size is 0, but should be a whole number from 1 on"):
            tmflow.Workers(2).fit(model, *digits, batch_size=0)
        for value, kept in zip(model.get_weights(), before, strict=True):
            np.testing.assert_array_equal(value, kept)
