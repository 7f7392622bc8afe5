"""Training under each executor gives TensorFlow's losses and weights, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tmflow import runtime

tf = pytest.importorskip("tensorflow")
tf1 = tf.compat.v1

STEPS = 12
BATCH = 16
PIXELS = 14


def batches() -> list[tuple[Any, Any]]:
    random = np.random.default_rng(5)
    images = random.normal(size=(STEPS, BATCH, PIXELS, PIXELS, 1)).astype(np.float32)
    return list(zip(images, random.integers(0, 10, (STEPS, BATCH)), strict=True))


def variable(random: np.random.Generator, *shape: int, use_resource: bool) -> Any:
    return tf1.Variable(random.normal(scale=0.1, size=shape).astype(np.float32), use_resource=use_resource)


def softmax(images: Any, random: np.random.Generator, use_resource: bool) -> Any:
    flat = tf.reshape(images, [-1, PIXELS * PIXELS])
    weights = variable(random, PIXELS * PIXELS, 10, use_resource=use_resource)
    return flat @ weights + variable(random, 10, use_resource=use_resource)


def convnet(images: Any, random: np.random.Generator, use_resource: bool) -> Any:
    for channels, filters in ((1, 8), (8, 16)):
        kernel = variable(random, 3, 3, channels, filters, use_resource=use_resource)
        images = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(images, kernel, 1, "SAME")), 2, 2, "SAME")
    hidden = tf.nn.relu(tf.reshape(images, [-1, 256]) @ variable(random, 256, 32, use_resource=use_resource))
    return hidden @ variable(random, 32, 10, use_resource=use_resource)


def train(executor: str, network: Callable[..., Any], optimizer: Any, use_resource: bool) -> list[Any]:
    """The losses and the final weights."""
    with tf.Graph().as_default():
        images, labels = tf1.placeholder(tf.float32, [None, PIXELS, PIXELS, 1]), tf1.placeholder(tf.int32, [None])
        logits = network(images, np.random.default_rng(6), use_resource)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        step = optimizer().minimize(loss)
        with tf1.Session(config=runtime.session_config(executor)) as session:
            session.run(tf1.global_variables_initializer())
            losses = [session.run([loss, step], {images: x, labels: y})[0] for x, y in batches()]
            return [np.array(losses), *session.run(tf1.global_variables())]


@pytest.mark.parametrize("use_resource", [False, True], ids=["ref", "resource"])
@pytest.mark.parametrize(
    ("network", "optimizer"),
    [
        (softmax, lambda: tf1.train.GradientDescentOptimizer(0.1)),
        (convnet, lambda: tf1.train.AdamOptimizer(0.01)),
    ],
    ids=["softmax", "convnet"],
)
def test_losses_and_weights_are_those_of_tensorflow(
    network: Callable[..., Any], optimizer: Any, use_resource: bool
) -> None:
    expected = train("tensorflow", network, optimizer, use_resource)
    assert expected[0][-1] != expected[0][0]
    for scheduler in runtime.built():
        before = runtime.counts(scheduler).steps
        trained = train(scheduler, network, optimizer, use_resource)
        assert runtime.counts(scheduler).steps >= before + STEPS
        for values, of_tensorflow in zip(trained, expected, strict=True):
            assert values.tobytes() == of_tensorflow.tobytes()
