"""The network of the distributed study: one hidden layer of sigmoid units, with standard normal initial weights.

Source: the tutorial of 2016 that the study follows, github.com/ischlag/distributed-tensorflow-example: 784-100-10,
biases of 0. With these weights most units start saturated, so the model learns slowly at the study's learning rates.
"""

from __future__ import annotations

from typing import Any

from tmflow.spec.trial import TrialSpec
from tmflow.training.network import CLASSES, Network, Variable, standard_normal


def variables(spec: TrialSpec) -> list[Variable]:
    assert spec.hidden is not None, "a spec of this model has it"
    return [
        Variable("fc1_W", (spec.matrix, spec.hidden), standard_normal),
        Variable("fc1_b", (spec.hidden,)),
        Variable("fc2_W", (spec.hidden, CLASSES), standard_normal),
        Variable("fc2_b", (CLASSES,)),
    ]


def hidden(spec: TrialSpec, images: Any, weights: Any, bias: Any, training: bool) -> Any:
    import tensorflow as tf

    return tf.nn.sigmoid(tf.matmul(images, weights) + bias)


def output(spec: TrialSpec, hidden: Any, weights: Any, bias: Any, training: bool) -> Any:
    import tensorflow as tf

    return tf.matmul(hidden, weights) + bias


NETWORK = Network(variables=variables, layers=(hidden, output))
