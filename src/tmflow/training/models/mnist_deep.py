"""The study's large model: two convolutions and two dense layers, with dropout between the dense layers."""

from __future__ import annotations

from collections.abc import Sequence
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


def logits(spec: TrialSpec, images: Any, read: Sequence[Any], training: bool) -> Any:
    import tensorflow as tf

    assert spec.dropout_keep is not None, "a spec of this model has it"
    conv1_w, conv1_b, conv2_w, conv2_b, fc1_w, fc1_b, fc2_w, fc2_b = read
    hidden = tf.reshape(images, [-1, 28, 28, 1])
    for weights, bias in ((conv1_w, conv1_b), (conv2_w, conv2_b)):
        hidden = tf.nn.relu(tf.nn.conv2d(hidden, weights, strides=1, padding="SAME") + bias)
        hidden = tf.nn.max_pool2d(hidden, ksize=2, strides=2, padding="SAME")
    hidden = tf.nn.relu(tf.matmul(tf.reshape(hidden, [-1, FLAT]), fc1_w) + fc1_b)
    if training:
        hidden = tf.nn.dropout(hidden, rate=1 - spec.dropout_keep)
    return tf.matmul(hidden, fc2_w) + fc2_b


NETWORK = Network(variables=variables, logits=logits)
