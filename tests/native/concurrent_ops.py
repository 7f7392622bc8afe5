"""Concurrent use of TensorFlow's variables, to run under a sanitizer in a separate process:

    python concurrent_ops.py STRATEGY...

Two trackers update one variable, while other threads read it, fetch it and assign another variable from it. Prints one
line for each kind of variable and strategy, and ends with an AssertionError if an update is lost.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from graphs import KINDS, tf, tf1

from tmflow.native import ops, registry
from tmflow.native.registry import resolve

ELEMENTS = 50_000  # large enough that a copy of the variable overlaps an update
STEPS = 30


def run_at_once(works: list[Callable[[], Any]]) -> None:
    """Call each of `works` STEPS times, each in a separate thread."""

    def repeated(work: Callable[[], Any]) -> None:
        for _ in range(STEPS):
            work()

    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(repeated, work) for work in works]:
            done.result()


def exercise(kind: str, strategy: str) -> None:
    """Update a variable of this kind in two threads and use it in three others. Raises AssertionError."""
    with tf.Graph().as_default(), tf1.Session() as session:
        variable, copy = (tf1.Variable(np.zeros(ELEMENTS, np.float32), use_resource=KINDS[kind]) for _ in range(2))
        # One gradient is constant. The other is computed in each step, so its memory is reused.
        delta = tf1.placeholder(tf.float32, [ELEMENTS])
        updates = []
        for gradient in tf.ones([ELEMENTS]), delta + 0:
            tracker = ops.Tracker(1, ["w"], "full")
            given: dict[str, Any] = {"strategy": resolve(strategy), "tracker": tracker, "index": 0}
            updates.append(ops.apply_gradient_descent(variable, -1.0, gradient, worker=0, **given))
        consistent = registry.require(strategy).snapshot_consistency != "none"
        reads = [ops.read(variable, worker=0, consistent=consistent, **given), variable.value(), copy.assign(variable)]
        calls = [session.make_callable(each, [delta]) for each in (*updates, *(read.op for read in reads))]
        session.run(tf1.global_variables_initializer())
        ones = np.ones(ELEMENTS, np.float32)
        run_at_once([lambda call=call: call(ones) for call in calls])
        session.run(ops.settle(variable, restart=False, **given))
        value = session.run(variable)
        lost = 2 * STEPS * ELEMENTS - int(value.sum())
        print(f"{kind} {strategy}: lost {lost}", flush=True)
        assert lost == 0 or registry.require(strategy).update_consistency == "none"
        session.run(copy.assign(variable))
        session.run(updates[0])
        if kind == "resource":
            assert (session.run(copy) == value).all(), "an update changed a variable that was assigned before"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for kind_of_variable in KINDS:
            exercise(kind_of_variable, name)
