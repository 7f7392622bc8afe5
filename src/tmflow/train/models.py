"""The models: their variables, and TensorFlow 1 graphs over variables that are read explicitly.

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

from tmflow.spec import Activation, Model

CLASSES = 10
Array = NDArray[np.float32]


@dataclass(frozen=True)
class VariableShape:
    name: str
    shape: tuple[int, ...]


def variable_shapes(model: Model, matrix: int, hidden: int | None = None) -> list[VariableShape]:
    """The model's variables in the order in which `logits` takes them. `hidden` is that of mnist_mlp."""
    if model == "mnist_softmax":
        return [VariableShape("W", (matrix, CLASSES)), VariableShape("b", (CLASSES,))]
    if model == "mnist_mlp":
        assert hidden is not None, "a spec of mnist_mlp has it"
        return [
            VariableShape("fc1_W", (matrix, hidden)),
            VariableShape("fc1_b", (hidden,)),
            VariableShape("fc2_W", (hidden, CLASSES)),
            VariableShape("fc2_b", (CLASSES,)),
        ]
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


def initial_values(model: Model, matrix: int, seed: int, hidden: int | None = None) -> list[Array]:
    """Initial variables of a trial: zeros for mnist_softmax; for the others biases 0.1 and weights from a normal
    distribution of standard deviation 0.1 truncated at two deviations, as the study's `truncated_normal`.
    """
    rng = np.random.default_rng([seed, 2])
    values = []
    for variable in variable_shapes(model, matrix, hidden):
        if model == "mnist_softmax":
            value = np.zeros(variable.shape)
        elif len(variable.shape) == 1:
            value = np.full(variable.shape, 0.1)
        else:
            uniform = rng.uniform(ndtr(-2), ndtr(2), variable.shape)
            value = 0.1 * ndtri(uniform)
        values.append(value.astype(np.float32))
    return values


def logits(
    model: Model, images: Any, read: Sequence[Any], keep: float | None, activation: Activation | None = None
) -> Any:
    """The model's output before the softmax: [n, 10], from images [n, matrix] and the variables as read.

    `keep` is the share of units that dropout keeps; None leaves dropout out, as for evaluation. `activation` is that
    of the hidden layer of mnist_mlp.
    """
    import tensorflow as tf

    if model == "mnist_softmax":
        weights, bias = read
        return tf.matmul(images, weights) + bias
    if model == "mnist_mlp":
        fc1_w, fc1_b, fc2_w, fc2_b = read
        hidden = tf.matmul(images, fc1_w) + fc1_b
        hidden = tf.nn.relu(hidden) if activation == "relu" else tf.nn.sigmoid(hidden)
        return tf.matmul(hidden, fc2_w) + fc2_b
    conv1_w, conv1_b, conv2_w, conv2_b, fc1_w, fc1_b, fc2_w, fc2_b = read
    hidden = tf.reshape(images, [-1, 28, 28, 1])
    for weights, bias in ((conv1_w, conv1_b), (conv2_w, conv2_b)):
        hidden = tf.nn.relu(tf.nn.conv2d(hidden, weights, strides=1, padding="SAME") + bias)
        hidden = tf.nn.max_pool2d(hidden, ksize=2, strides=2, padding="SAME")
    hidden = tf.nn.relu(tf.matmul(tf.reshape(hidden, [-1, 7 * 7 * 64]), fc1_w) + fc1_b)
    if keep is not None:
        hidden = tf.nn.dropout(hidden, rate=1 - keep)
    return tf.matmul(hidden, fc2_w) + fc2_b
