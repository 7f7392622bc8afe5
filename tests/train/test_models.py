"""The models against what NumPy and SciPy compute from the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import correlate2d

from tmflow.train import models
from tmflow.train.models import Array


def test_initial_values_are_those_of_the_study() -> None:
    weights, bias = models.initial_values("mnist_softmax", 100, seed=1)
    assert weights.shape == (100, 10)
    assert not weights.any()
    assert not bias.any()
    deep = models.initial_values("mnist_deep", 784, seed=1)
    assert [value.shape for value in deep] == [v.shape for v in models.variable_shapes("mnist_deep", 784)]
    assert sum(value.size for value in deep) == 3_274_634
    fc1 = deep[4]
    assert abs(fc1).max() <= 0.2
    # A normal distribution cut at two deviations has 0.8796 of its deviation left.
    assert fc1.std() == pytest.approx(0.1 * 0.8796, rel=0.01)
    assert all((bias == np.float32(0.1)).all() for bias in deep[1::2])
    assert (models.initial_values("mnist_deep", 784, seed=2)[4] != fc1).any()


def test_softmax_logits() -> None:
    rng = np.random.default_rng(1)
    images, weights, bias = (rng.random(shape, np.float32) for shape in ((3, 50), (50, 10), (10,)))
    output = models.logits("mnist_softmax", images, [weights, bias], None)
    np.testing.assert_allclose(output, images @ weights + bias, rtol=1e-5)


def convolve_relu_pool(images: Array, weights: Array, bias: Array) -> Array:
    """3x3-free reference: SAME correlation, ReLU, 2x2 max-pool; images [n, h, w, in], weights [5, 5, in, out]."""
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
    values = models.initial_values("mnist_deep", 784, seed=3)
    hidden = images.reshape(-1, 28, 28, 1)
    hidden = convolve_relu_pool(hidden, values[0], values[1])
    hidden = convolve_relu_pool(hidden, values[2], values[3])
    flat = np.maximum(hidden.reshape(2, -1) @ values[4] + values[5], 0)
    expected = flat @ values[6] + values[7]
    np.testing.assert_allclose(models.logits("mnist_deep", images, values, None), expected, rtol=1e-3, atol=1e-3)


def test_dropout_keeps_the_share_and_the_mean() -> None:
    values = models.initial_values("mnist_deep", 784, seed=3)
    image = np.random.default_rng(4).random((1, 784), np.float32)
    whole = np.array(models.logits("mnist_deep", image, values, None))[0]
    dropped = np.array(models.logits("mnist_deep", np.repeat(image, 2000, axis=0), values, 0.5))
    error = dropped.std(axis=0) / np.sqrt(len(dropped))
    assert (error > 0.01).all()
    assert (abs(dropped.mean(axis=0) - whole) < 5 * error).all()
