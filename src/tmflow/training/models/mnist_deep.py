"""The study's large model: two convolutions and two dense layers, with dropout between the dense layers."""

from __future__ import annotations

from typing import Any

from tmflow.spec.trial import TrialSpec
from tmflow.training.network import CLASSES, Network, Variable, tenths, truncated_normal

FLAT = 7 * 7 * 64  # 28x28 pixels after two max-pools, in 64 channels


def variables(spec: TrialSpec) -> list[Variable]:
    return [
        Variable("conv1_W", (5, 5, 1, 32), truncated_normal),
        Variable("conv1_b", (32,), tenths),
        Variable("conv2_W", (5, 5, 32, 64), truncated_normal),
        Variable("conv2_b", (64,), tenths),
        Variable("fc1_W", (FLAT, 1024), truncated_normal),
        Variable("fc1_b", (1024,), tenths),
        Variable("fc2_W", (1024, CLASSES), truncated_normal),
        Variable("fc2_b", (CLASSES,), tenths),
    ]


def first_convolution(spec: TrialSpec, images: Any, weights: Any, bias: Any, training: bool) -> Any:
    import tensorflow as tf

    return convolution(spec, tf.reshape(images, [-1, 28, 28, 1]), weights, bias, training)


def convolution(spec: TrialSpec, hidden: Any, weights: Any, bias: Any, training: bool) -> Any:
    import tensorflow as tf

    hidden = tf.nn.relu(tf.nn.conv2d(hidden, weights, strides=1, padding="SAME") + bias)
    return tf.nn.max_pool2d(hidden, ksize=2, strides=2, padding="SAME")


def dense(spec: TrialSpec, hidden: Any, weights: Any, bias: Any, training: bool) -> Any:
    import tensorflow as tf

    assert spec.dropout_keep is not None, "a spec of this model has it"
    hidden = tf.nn.relu(tf.matmul(tf.reshape(hidden, [-1, FLAT]), weights) + bias)
    return tf.nn.dropout(hidden, rate=1 - spec.dropout_keep) if training else hidden


def output(spec: TrialSpec, hidden: Any, weights: Any, bias: Any, training: bool) -> Any:
    import tensorflow as tf

    return tf.matmul(hidden, weights) + bias


NETWORK = Network(variables=variables, layers=(first_convolution, convolution, dense, output))
