"""A training loop of one's own: a `tf.function` that several threads call, and a guard of each variable.

python examples/tensorflow_loop.py

Each way trains once: run it several times before you believe a difference. The advice needs pip install '.[study]'.
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


def computed_only(variables):
    """No update: the gradients are stored, since TensorFlow computes none that nobody uses."""
    stored = [tf.Variable(variable) for variable in variables]
    return lambda gradients: [one.assign(gradient) for one, gradient in zip(stored, gradients, strict=True)]


def guarded(strategy):
    """Updates by guards of the variables, for any number of threads."""

    def updates(variables):
        guards = [guard(variable, strategy=strategy) for variable in variables]

        def apply(gradients):
            for one, gradient in zip(guards, gradients, strict=True):
                one.apply(gradient, LEARNING_RATE)

        return apply

    return updates


def train(threads, updates):
    """Train softmax: the seconds of the threads, after a first step, and the accuracy."""
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
    return seconds, float(accuracy)


# For the sizes alone: it knows nothing of TensorFlow, and of the input pipeline only the time.
step_us = 1e6 * train(1, computed_only)[0] / (EPOCHS * 1500 / BATCH)
advice = advise_for_sizes("64x10,10", step_us, THREADS, seconds=10)
for name, threads, updates in (
    ("1 thread, Keras's SGD", 1, kerass_own),
    ("1 thread, a plain lock", 1, guarded("lock")),
    (f"{THREADS} threads, a plain lock", THREADS, guarded("lock")),
    (f"{THREADS} threads, no lock, which may lose updates", THREADS, guarded("nolock")),
    (f"{THREADS} threads, the advised strategy", THREADS, guarded(advice.best.way.strategy)),
):
    seconds, accuracy = train(threads, updates)
    print(f"{name:<48} {seconds:6.2f} s   accuracy {100 * accuracy:.1f} %")
print(f"advice: {advice.finding}")
