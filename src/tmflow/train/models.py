"""The study's two models as TensorFlow 1 graphs, over variables that are read explicitly.

A forward pass takes the tensors that a step has read, never the variables: so the step decides when it reads, and the
gradient is taken by what was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from tmflow.spec import Model

CLASSES = 10
Array = NDArray[np.float32]


@dataclass(frozen=True)
class VariableShape:
    name: str
    shape: tuple[int, ...]


def variable_shapes(model: Model, matrix: int) -> list[VariableShape]:
    """The model's variables in the order in which `forward` takes them."""
    if model == "mnist_softmax":
        return [VariableShape("W", (matrix, CLASSES)), VariableShape("b", (CLASSES,))]
    return [
        VariableShape("conv1_W", (5, 5, 1, 32)),
        VariableShape("conv1_b", (32,)),
        VariableShape("conv2_W", (5, 5, 32, 64)),
        VariableShape("conv2_b", (64,)),
        VariableShape("fc1_W", (7 * 7 * 64, 1024)),
        VariableShape("fc1_b", (1024,)),
        VariableShape("fc2_W", (1024, CLASSES)),
        VariableShape("fc2_b", (CLASSES,)),
    ]


def initial_values(model: Model, matrix: int, seed: int) -> list[Array]:
    """Initial variables of a trial: zeros for mnist_softmax; for mnist_deep biases 0.1 and weights from a normal
    distribution of standard deviation 0.1 truncated at two deviations, as the study's `truncated_normal`.
    """
    rng = np.random.default_rng([seed, 2])
    values = []
    for variable in variable_shapes(model, matrix):
        if model == "mnist_softmax":
            value = np.zeros(variable.shape)
        elif len(variable.shape) == 1:
            value = np.full(variable.shape, 0.1)
        else:
            uniform = rng.uniform(ndtr(-2), ndtr(2), variable.shape)
            value = 0.1 * ndtri(uniform)
        values.append(value.astype(np.float32))
    return values


def logits(model: Model, images: Any, read: Sequence[Any], keep: float | None) -> Any:
    """The model's output before the softmax: [n, 10], from images [n, matrix] and the variables as read.

    `keep` is the share of units that dropout keeps; None leaves dropout out, as for evaluation.
    """
    import tensorflow as tf

    if model == "mnist_softmax":
        weights, bias = read
        return tf.matmul(images, weights) + bias
    conv1_w, conv1_b, conv2_w, conv2_b, fc1_w, fc1_b, fc2_w, fc2_b = read
    hidden = tf.reshape(images, [-1, 28, 28, 1])
    for weights, bias in ((conv1_w, conv1_b), (conv2_w, conv2_b)):
        hidden = tf.nn.relu(tf.nn.conv2d(hidden, weights, strides=1, padding="SAME") + bias)
        hidden = tf.nn.max_pool2d(hidden, ksize=2, strides=2, padding="SAME")
    hidden = tf.nn.relu(tf.matmul(tf.reshape(hidden, [-1, 7 * 7 * 64]), fc1_w) + fc1_b)
    if keep is not None:
        hidden = tf.nn.dropout(hidden, rate=1 - keep)
    return tf.matmul(hidden, fc2_w) + fc2_b
