"""A model for tests of the advice."""

from __future__ import annotations

from typing import Any

import numpy as np


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
