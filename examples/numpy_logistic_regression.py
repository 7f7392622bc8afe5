"""Logistic regression in NumPy: one thread with NumPy's own update, and two threads that share the weights.

python examples/numpy_logistic_regression.py

It needs NumPy and threadpoolctl, and for the advised strategy also pip install '.[study]'. It needs no TensorFlow.
"""

import threading
import time

import numpy as np
from threadpoolctl import threadpool_limits

from tmflow.arrays import SharedParameters

EXAMPLES, FEATURES, EPOCHS, BATCH, THREADS, LEARNING_RATE = 20_000, 2_000, 10, 8, 2, 0.01

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


def train(weights):
    for gradient in gradients(weights, 0, 1):
        weights -= LEARNING_RATE * gradient


def train_together(weights, strategy):
    shared = SharedParameters({"weights": weights}, strategy=strategy)

    def work(number):
        for gradient in gradients(weights, number, THREADS):
            shared.apply({"weights": gradient}, LEARNING_RATE)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shared.close()


def report(name, trained_by, *arguments):
    weights = np.zeros(FEATURES, np.float32)
    began = time.monotonic()
    with threadpool_limits(1, user_api="blas"):  # the threads of NumPy's products would take our threads' processors
        trained_by(weights, *arguments)
    seconds = time.monotonic() - began
    accuracy = np.mean((inputs[EXAMPLES:] @ weights > 0) == labels[EXAMPLES:])
    print(f"{name:<48} {seconds:6.2f} s   accuracy {100 * accuracy:.1f} %")
    return seconds


SharedParameters({"weights": np.zeros(FEATURES, np.float32)}).close()  # the first use compiles, untimed
seconds = report("NumPy's own update, 1 thread", train)
report(f"{THREADS} threads, a plain lock", train_together, "lock")
report(f"{THREADS} threads, no lock, which may lose updates", train_together, "nolock")
try:
    from tmflow import advise_for_sizes

    step_us = seconds * 1e6 / (EPOCHS * EXAMPLES / BATCH)
    advised = advise_for_sizes(f"{FEATURES}", step_us, THREADS, seconds=10).best.way.strategy
    report(f"{THREADS} threads, as advised", train_together, advised)
    print(f"advised: {advised}")
except ImportError as missing:
    print(f"{THREADS} threads, as advised: {missing}")
