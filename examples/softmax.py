"""Train a softmax classifier of MNIST under another executor: `python examples/softmax.py [EXECUTOR]`.

Only the line with `session_config` differs from a program for TensorFlow's executor.
"""

from __future__ import annotations

import sys

import tensorflow as tf

from tmflow import datasets, runtime

tf1 = tf.compat.v1
STEPS, BATCH = 1000, 100


def main(executor: str = "std_pool") -> None:
    """Train, and print the accuracy on the test images."""
    mnist = datasets.load("mnist")
    with tf.Graph().as_default():
        x, y = tf1.placeholder(tf.float32, [None, 784]), tf1.placeholder(tf.float32, [None, 10])
        logits = x @ tf1.Variable(tf.zeros([784, 10])) + tf1.Variable(tf.zeros([10]))
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits))
        step = tf1.train.GradientDescentOptimizer(0.5).minimize(loss)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), tf.argmax(y, 1)), tf.float32))
        with tf1.Session(config=runtime.session_config(executor)) as session:
            session.run(tf1.global_variables_initializer())
            for start in range(0, STEPS * BATCH, BATCH):
                batch = [i % len(mnist.train_images) for i in range(start, start + BATCH)]
                session.run(step, {x: mnist.train_images[batch], y: mnist.train_labels[batch]})
            print(f"accuracy {session.run(accuracy, {x: mnist.test_images, y: mnist.test_labels}):.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
