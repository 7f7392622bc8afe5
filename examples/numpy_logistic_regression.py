"""Logistic regression in NumPy, trained by two threads that share its weights: no TensorFlow.

python examples/numpy_logistic_regression.py
"""

import threading
import time

import numpy as np
from threadpoolctl import threadpool_limits

from tmflow.arrays import SharedParameters

EXAMPLES, FEATURES, BATCH, THREADS = 2_000, 10_000, 8, 2

draw = np.random.default_rng(1)
truth = draw.normal(size=FEATURES).astype(np.float32)
examples = draw.normal(size=(EXAMPLES, FEATURES)).astype(np.float32)
labels = (examples @ truth > 0).astype(np.float32)


def train(shared, part):
    weights = shared["weights"]
    for start in range(part, len(examples), BATCH * THREADS):
        x, y = examples[start : start + BATCH], labels[start : start + BATCH]
        errors = 1 / (1 + np.exp(-(x @ weights))) - y
        shared.apply({"weights": errors @ x / BATCH}, 0.05)


for name, strategy in (
    ("chosen for you", "auto"),
    ("a plain lock", "lock"),
    ("no lock, which may lose updates", "nolock"),
):
    weights = np.zeros(FEATURES, np.float32)
    shared = SharedParameters({"weights": weights}, strategy=strategy)
    threads = [threading.Thread(target=train, args=(shared, BATCH * number)) for number in range(THREADS)]
    began = time.monotonic()
    with threadpool_limits(1, user_api="blas"):  # the threads of NumPy's products would take the processors of ours
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seconds = time.monotonic() - began
    accuracy = np.mean((examples @ weights > 0) == labels)
    updates = sum(row["updates"] for row in shared.counters()["weights"])
    print(f"{THREADS} threads, {name:<32} {seconds:6.2f} s   {updates} updates   accuracy {100 * accuracy:.1f} %")
