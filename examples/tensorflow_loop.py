"""A training loop of one's own: a `tf.function` that several threads call, and a guard of each variable.

python examples/tensorflow_loop.py
"""

import threading
import time

import keras
import tensorflow as tf
from sklearn.datasets import load_digits

from tmflow import advise_for_sizes
from tmflow.tf import guard

EPOCHS, BATCH, THREADS, LEARNING_RATE = 15, 10, 2, 0.1

images, labels = load_digits(return_X_y=True)
images = (images / 16).astype("float32")
training, test = (images[:1500], labels[:1500]), (images[1500:], labels[1500:])
examples = tf.data.Dataset.from_tensor_slices(training)


def kerass_own(variables):
    """Updates by Keras's optimizer, for one thread."""
    optimizer = keras.optimizers.SGD(LEARNING_RATE)
    optimizer.build(variables)
    return lambda gradients: optimizer.apply(gradients, variables)


def guarded(strategy):
    """Updates by guards of the variables, for any number of threads."""

    def updates(variables):
        guards = [guard(variable, strategy=strategy) for variable in variables]

        def apply(gradients):
            for one, gradient in zip(guards, gradients, strict=True):
                one.apply(gradient, LEARNING_RATE)

        return apply

    return updates


def report(name, threads, updates):
    """Train softmax, print the time of the threads after a first step, and the accuracy, and return the time."""
    variables = [tf.Variable(tf.zeros([64, 10])), tf.Variable(tf.zeros([10]))]
    apply = updates(variables)

    def scores(batch):
        return batch @ variables[0] + variables[1]

    @tf.function
    def step(batch, truth):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(truth, scores(batch))
            loss = tf.reduce_mean(losses)
        apply(tape.gradient(loss, variables))

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
    print(f"{name:<48} {seconds:6.2f} s   accuracy {100 * float(accuracy):.1f} %")
    return seconds


seconds = report("Keras's SGD, 1 thread", 1, kerass_own)
step_us = seconds * 1e6 / (EPOCHS * 1500 / BATCH)
advised = advise_for_sizes("64x10,10", step_us, THREADS, seconds=10).best.way.strategy
report(f"{THREADS} threads, a plain lock", THREADS, guarded("lock"))
report(f"{THREADS} threads, no lock, which may lose updates", THREADS, guarded("nolock"))
report(f"{THREADS} threads, as advised", THREADS, guarded(advised))
print(f"advised: {advised}")
