"""Logistic regression in NumPy: one thread with NumPy's own update, and two threads that share the weights.

python examples/numpy_logistic_regression.py

It needs no TensorFlow: NumPy and threadpoolctl, and for the advice pip install '.[study]', which brings both. Each way
trains once: run it several times before you believe a difference.
"""

import threading
import time

import numpy as np
from threadpoolctl import threadpool_limits

from tmflow.arrays import SharedParameters

EXAMPLES, FEATURES, EPOCHS, BATCH, THREADS, LEARNING_RATE = 20_000, 2_000, 30, 8, 2, 0.01

draw = np.random.default_rng(1)
truth = draw.normal(size=FEATURES).astype(np.float32)
inputs = draw.normal(size=(EXAMPLES + 2_000, FEATURES)).astype(np.float32)
labels = (inputs @ truth > 0).astype(np.float32)


def gradients(weights, number, threads):
    """The gradients of the batches of a thread, each computed when it is asked for."""
    for _ in range(EPOCHS):
        for start in range(BATCH * number, EXAMPLES, BATCH * threads):
            x, y = inputs[start : start + BATCH], labels[start : start + BATCH]
            errors = 1 / (1 + np.exp(-(x @ weights))) - y
            yield errors @ x / BATCH


def compute(weights):
    for _ in gradients(weights, 0, 1):
        pass


def train(weights):
    for gradient in gradients(weights, 0, 1):
        weights -= LEARNING_RATE * gradient


def train_together(weights, strategy, threads):
    shared = SharedParameters({"weights": weights}, strategy=strategy)

    def work(number):
        for gradient in gradients(weights, number, threads):
            shared.apply({"weights": gradient}, LEARNING_RATE)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    shared.close()


def timed(work, *arguments):
    """The seconds of some work on weights of 0, and the weights."""
    weights = np.zeros(FEATURES, np.float32)
    began = time.monotonic()
    with threadpool_limits(1, user_api="blas"):  # the threads of NumPy's products would take our threads' processors
        work(weights, *arguments)
    return time.monotonic() - began, weights


def report(name, trained_by, *arguments):
    seconds, weights = timed(trained_by, *arguments)
    accuracy = np.mean((inputs[EXAMPLES:] @ weights > 0) == labels[EXAMPLES:])
    print(f"{name:<48} {seconds:6.2f} s   accuracy {100 * accuracy:.1f} %")


SharedParameters({"weights": np.zeros(FEATURES, np.float32)}).close()  # the first use compiles, untimed
report("1 thread, NumPy's own update", train)
report("1 thread, a plain lock", train_together, "lock", 1)
report(f"{THREADS} threads, a plain lock", train_together, "lock", THREADS)
report(f"{THREADS} threads, no lock, which may lose updates", train_together, "nolock", THREADS)
try:
    from tmflow import advise_for_sizes

    step_us = 1e6 * timed(compute)[0] / (EPOCHS * EXAMPLES / BATCH)
    advice = advise_for_sizes(f"{FEATURES}", step_us, THREADS, seconds=10)
    report(f"{THREADS} threads, the advised strategy", train_together, advice.best.way.strategy, THREADS)
    print(f"advice: {advice.finding}")
except ImportError as missing:
    print(f"advice: {missing}")
