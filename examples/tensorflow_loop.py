"""A training loop of one's own: a `tf.function` that several threads call, and a guard of each variable.

python examples/tensorflow_loop.py
"""

import threading
import time

import tensorflow as tf
from sklearn.datasets import load_digits

from tmflow.tf import guard

EPOCHS, BATCH, THREADS, LEARNING_RATE = 15, 10, 2, 0.1

images, labels = load_digits(return_X_y=True)
images = (images / 16).astype("float32")
training, test = (images[:1500], labels[:1500]), (images[1500:], labels[1500:])
examples = tf.data.Dataset.from_tensor_slices(training)


def train(strategy, threads):
    """Train softmax; returns the seconds of the threads, after a first step, and the accuracy."""
    weights = guard(tf.Variable(tf.zeros([64, 10])), strategy=strategy)
    bias = guard(tf.Variable(tf.zeros([10])), strategy=strategy)

    def scores(batch):
        return batch @ weights.variable + bias.variable

    @tf.function
    def step(batch, truth):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(truth, scores(batch))
            loss = tf.reduce_mean(losses)
        for one, gradient in zip((weights, bias), tape.gradient(loss, [weights.variable, bias.variable]), strict=True):
            one.apply(gradient, LEARNING_RATE)

    def work(number):
        mine = examples.shard(threads, number)  # before the shuffle: shards of a shuffled dataset overlap
        for batch, truth in mine.shuffle(1500, seed=1).batch(BATCH).repeat(EPOCHS):
            step(batch, truth)

    step(*next(iter(examples.batch(BATCH))))  # traces
    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    began = time.monotonic()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seconds = time.monotonic() - began
    accuracy = tf.reduce_mean(tf.cast(tf.argmax(scores(test[0]), axis=1) == test[1], tf.float32))
    return seconds, float(accuracy)


for name, strategy, threads in (
    ("1 thread", "auto", 1),
    (f"{THREADS} threads, chosen for you", "auto", THREADS),
    (f"{THREADS} threads, a plain lock", "lock", THREADS),
    (f"{THREADS} threads, no lock, which may lose updates", "nolock", THREADS),
):
    seconds, accuracy = train(strategy, threads)
    print(f"{name:<48} {seconds:6.2f} s   accuracy {100 * accuracy:.1f} %")
