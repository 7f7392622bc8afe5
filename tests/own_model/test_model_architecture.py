"""The hash of a Keras model and its optimizer, which identifies the model of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tmflow.advice.architecture import architecture_sha256

keras = pytest.importorskip("keras", reason="Keras comes with TensorFlow")
pytestmark = pytest.mark.slow


def sha256(model: Any, **optimizer: Any) -> str:
    return architecture_sha256(model, {"class_name": "SGD", "config": optimizer})


def of_layers(*layers: Any) -> str:
    return sha256(keras.Sequential([keras.Input((4,)), *layers]))


def functional(name: str, units: int = 5, activation: str = "relu") -> Any:
    left, right = keras.Input((4,), name=f"{name}_left"), keras.Input((4,), name=f"{name}_right")
    dense = keras.layers.Dense(units, activation=activation, name=f"{name}_dense")
    added = keras.layers.Add(name=f"{name}_added")([dense(left), dense(right)])
    return keras.Model([left, right], keras.layers.Dense(1, name=f"{name}_last")(added), name=name)


def test_names_and_values_do_not_count() -> None:
    first, second = functional("first"), functional("second")
    assert sha256(first) == sha256(second)
    before = sha256(first)
    first.set_weights([value + 1 for value in first.get_weights()])
    assert sha256(first) == before


def test_layers_and_their_options_count() -> None:
    models = [
        functional("first"),
        functional("first", units=6),
        functional("first", activation="tanh"),
        keras.Sequential([keras.Input((4,)), keras.layers.Dense(5), keras.layers.Dense(1)]),
        keras.Sequential([keras.Input((4,)), keras.layers.Dense(5), keras.layers.Dropout(0.1)]),
        keras.Sequential([keras.Input((4,)), keras.layers.Dense(5), keras.layers.Dropout(0.2)]),
    ]
    assert len(set(map(sha256, models))) == len(models)


def test_how_layers_are_connected_counts() -> None:
    def model(first: int) -> Any:
        given = keras.Input((4,))
        hidden = [keras.layers.Dense(4)(given), keras.layers.Dense(4)(given)]
        return keras.Model(given, keras.layers.Dense(4)(hidden[first]) + hidden[0])

    assert sha256(model(0)) != sha256(model(1))


def test_types_count() -> None:
    types = ("float32", "float64", "float16", "mixed_bfloat16")
    assert len({of_layers(keras.layers.Dense(3, dtype=dtype)) for dtype in types}) == len(types)


def test_data_in_a_layer_does_not_count() -> None:
    pairs = [
        [keras.layers.Normalization(mean=mean, variance=mean + 1.0) for mean in (1.0, 2.0)],
        [keras.layers.Discretization(bin_boundaries=[bound]) for bound in (1.0, 2.0)],
        [keras.layers.IntegerLookup(vocabulary=[7, number]) for number in (1, 2)],
        [
            keras.layers.IntegerLookup(vocabulary=[7, 8], idf_weights=[weight, 0.5], output_mode="tf_idf")
            for weight in (0.1, 0.2)
        ],
    ]
    for first, second in pairs:
        assert first.get_config() != second.get_config() | {"name": first.name}
        assert of_layers(first) == of_layers(second)


def test_options_that_are_called_as_data_count() -> None:
    hashes = {
        of_layers(keras.layers.Dense(3, kernel_initializer=keras.initializers.RandomNormal(mean=mean, seed=1)))
        for mean in (0.0, 1.0)
    }
    assert len(hashes) == 2


def test_a_lambda_counts_by_its_presence_and_a_function_by_its_name() -> None:
    def first(value: Any) -> Any:
        return value + 1

    def second(value: Any) -> Any:
        return value + 2

    lambdas = [keras.layers.Lambda(lambda value: value + 1), keras.layers.Lambda(lambda value: value + 2)]
    hashes = [of_layers(layer) for layer in (*lambdas, keras.layers.Lambda(first), keras.layers.Lambda(second))]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3
    assert of_layers() not in hashes


def test_the_optimizer_counts_but_for_its_rate_and_name() -> None:
    model = functional("first")
    usual = sha256(model, momentum=0.5)
    assert sha256(model, momentum=0.5, learning_rate=0.3, name="mine") == usual
    assert usual not in {sha256(model, momentum=0.9), sha256(model, momentum=0.5, clipnorm=1.0)}


def test_a_class_of_the_user_counts_by_its_layers() -> None:
    class Mine(keras.Model):
        def __init__(self, units: int) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(units)
            self.scale = keras.layers.Lambda(lambda value: 2 * value)

        def call(self, images: Any) -> Any:
            return self.scale(self.dense(images))

    models = [Mine(3), Mine(3), Mine(4)]
    for one in models:
        one(np.zeros((1, 4), np.float32))
    hashes = list(map(sha256, models))
    assert hashes[0] == hashes[1] != hashes[2]


def test_the_hash_has_the_optimizer_of_keras_or_tmflow() -> None:
    import tensorflow as tf

    from tmflow import optimizers
    from tmflow.advice.rehearsal import Rehearsal

    data = tf.data.Dataset.from_tensor_slices((np.zeros((2, 4)), np.zeros((2, 1)))).batch(2)

    def architecture(optimizer: Any) -> str:
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile(optimizer, "mse")
        return str(Rehearsal(model, data, consistency="block").factors()["architecture"])

    usual = architecture(keras.optimizers.Adam(0.1))
    assert architecture(optimizers.Adam(0.2, strategy="lock", workers=3)) == usual
    others = [{"beta_1": 0.8}, {"beta_2": 0.9}, {"weight_decay": 0.1}, {"clipvalue": 1.0}, {"global_clipnorm": 1.0}]
    hashes = {architecture(keras.optimizers.Adam(0.1, **arguments)) for arguments in others}
    hashes |= {architecture(keras.optimizers.SGD(0.1, momentum=momentum)) for momentum in (0.5, 0.9)}
    assert len(hashes | {usual}) == len(others) + 3
