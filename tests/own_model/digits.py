"""A model for tests of the advice, and more time for their ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tmflow.advice import measurement


def digits_model(optimizer: Any = None) -> tuple[Any, Any, Any]:
    """A small compiled model of the digits of scikit-learn, batches of 1,500 of them, and the rest."""
    import keras
    import tensorflow as tf
    from sklearn.datasets import load_digits

    keras.utils.set_random_seed(5)
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    layers = [keras.Input((64,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dropout(0.1)]
    model = keras.Sequential([*layers, keras.layers.Dense(10, activation="softmax")])
    model.compile(optimizer or keras.optimizers.SGD(0.1), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    data = tf.data.Dataset.from_tensor_slices((images[:1500], labels[:1500])).batch(8)
    return model, data, (images[1500:], labels[1500:])


def prepare_more_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `advise` prepare ways for twice as long, and shorten its rounds so that three fit into what is left.

    On a busy machine it takes more than a second to prepare one way of a Keras model.
    """
    monkeypatch.setattr(measurement, "PREPARING", 1.0)  # the first three rounds may begin until twice the time
    monkeypatch.setattr(measurement, "SLICE_S", 0.02)
