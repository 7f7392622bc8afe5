"""The models compared with NumPy and SciPy on the same numbers."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from scipy.signal import correlate2d

from tests.training.conftest import make_spec
from tmflow.native import loader
from tmflow.spec.models import MODELS, trained_models
from tmflow.training import native_driver
from tmflow.training.models import load_network
from tmflow.training.network import Array, truncated_normal

SOFTMAX, DEEP = make_spec("mnist_softmax"), make_spec("mnist_deep")
softmax, deep = load_network("mnist_softmax"), load_network("mnist_deep")


def test_initial_values_are_those_of_the_study() -> None:
    weights, bias = softmax.initial_values(make_spec("mnist_softmax", matrix=100), seed=1)
    assert weights.shape == (100, 10)
    assert not weights.any()
    assert not bias.any()
    values = deep.initial_values(DEEP, seed=1)
    assert [value.shape for value in values] == [variable.shape for variable in deep.variables(DEEP)]
    assert sum(value.size for value in values) == 3_274_634
    fc1 = values[4]
    assert abs(fc1).max() <= 0.2
    # A normal distribution cut at two deviations keeps 0.8796 of its deviation.
    assert fc1.std() == pytest.approx(0.1 * 0.8796, rel=0.01)
    assert all((bias == np.float32(0.1)).all() for bias in values[1::2])
    assert (deep.initial_values(DEEP, seed=2)[4] != fc1).any()


def test_softmax_logits() -> None:
    rng = np.random.default_rng(1)
    images, weights, bias = (rng.random(shape, np.float32) for shape in ((3, 50), (50, 10), (10,)))
    output = softmax.logits(SOFTMAX, images, [weights, bias], False)
    np.testing.assert_allclose(output, images @ weights + bias, rtol=1e-5)


def convolve_relu_pool(images: Array, weights: Array, bias: Array) -> Array:
    """Reference for SAME correlation, ReLU and 2x2 max-pool; images [n, h, w, in], weights [5, 5, in, out]."""
    planes = [
        sum(correlate2d(image[:, :, i], weights[:, :, i, o], mode="same") for i in range(weights.shape[2])) + bias[o]
        for image in images
        for o in range(weights.shape[3])
    ]
    n, height, width, _ = images.shape
    stack = np.maximum(np.array(planes), 0).reshape(n, -1, height // 2, 2, width // 2, 2)
    return stack.max(axis=(3, 5)).transpose(0, 2, 3, 1)


def test_deep_logits() -> None:
    rng = np.random.default_rng(2)
    images = rng.random((2, 784), np.float32)
    values = deep.initial_values(DEEP, seed=3)
    hidden = images.reshape(-1, 28, 28, 1)
    hidden = convolve_relu_pool(hidden, values[0], values[1])
    hidden = convolve_relu_pool(hidden, values[2], values[3])
    flat = np.maximum(hidden.reshape(2, -1) @ values[4] + values[5], 0)
    expected = flat @ values[6] + values[7]
    np.testing.assert_allclose(deep.logits(DEEP, images, values, False), expected, rtol=1e-3, atol=1e-3)


def test_dropout_keeps_the_share_and_the_mean() -> None:
    values = deep.initial_values(DEEP, seed=3)
    image = np.random.default_rng(4).random((1, 784), np.float32)
    whole = np.array(deep.logits(DEEP, image, values, False))[0]
    dropped = np.array(deep.logits(DEEP, np.repeat(image, 2000, axis=0), values, True))
    error = dropped.std(axis=0) / np.sqrt(len(dropped))
    assert (error > 0.01).all()
    assert (abs(dropped.mean(axis=0) - whole) < 5 * error).all()


@pytest.mark.parametrize("name", trained_models())
def test_numpy_and_tensorflow_say_the_same_of_what_the_native_driver_trains(name: str) -> None:
    model = load_network(name)
    activations = ("sigmoid", "relu") if "activation" in MODELS[name].factors else (None,)
    images: Any = np.random.default_rng(5).random((7, 784), np.float32)
    if MODELS[name].by_rows:
        shape = 7, model.pixels(make_spec(name))
        images = np.random.default_rng(5).integers(0, 2000, shape, np.int32)
    for activation in activations:
        spec = make_spec(name, activation=activation)
        arguments = (784, spec.hidden, spec.activation, "lock", [], 1)
        if model.scores is None:
            with pytest.raises(ValueError, match=f"the native driver has no model '{name}'"):
                loader.core().NativeTrial(name, *arguments)
            continue
        loader.core().NativeTrial(name, *arguments, numbers=native_driver.numbers_of(spec))
        drawn = np.random.default_rng(6)  # some models begin with zeros
        values = [value + drawn.standard_normal(value.shape, np.float32) for value in model.initial_values(spec, 3)]
        expected = model.logits(spec, images, values, False)
        np.testing.assert_allclose(model.scores(spec, images, values), expected, rtol=1e-4, atol=1e-5)


def test_first_values_have_the_bits_that_all_runs_so_far_began_with() -> None:
    drawn = truncated_normal((784, 128), np.random.default_rng([5, 2])).astype(np.float32)
    digest = hashlib.sha256(drawn.tobytes()).hexdigest()
    assert digest == "8053d5a46c7442f11b51a13689b9c69179d85feea4829ec7aca388783cb4a6ab"
