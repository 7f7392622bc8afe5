"""Concurrent use of TensorFlow's variables, to run under a sanitizer in a separate process:

    python concurrent_ops.py STRATEGY...

Two trackers update one variable, while other threads read it, fetch it and assign another variable from it. Prints one
line for each kind of variable and strategy, and ends with an AssertionError if an update is lost. The same for updates
of rows, which one tracker counts.
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
ROWS, WIDTH = 600, 40


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


def exercise_rows(kind: str, strategy: str) -> None:
    """Update rows of a variable in two threads that one tracker with full measures counts. Raises AssertionError."""
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(np.zeros((ROWS, WIDTH), np.float32), use_resource=KINDS[kind])
        tracker = ops.Tracker(2, ["w"], "full")
        given: dict[str, Any] = {"strategy": resolve(strategy), "tracker": tracker, "index": 0}
        # No worker is named: a sanitizer sees how the operations order the uses of a place, but not how a session
        # orders the calls of a worker.
        updates = []
        for rows in range(0, ROWS), range(1, ROWS, 2):
            slices = tf.IndexedSlices(tf.ones([len(rows), WIDTH]), tf.constant(list(rows)))
            updates.append(ops.apply_gradient_descent(variable, -1.0, slices, worker=-1, **given))
        calls = [session.make_callable(update) for update in updates]
        session.run(tf1.global_variables_initializer())
        run_at_once(calls)
        session.run(ops.settle(variable, restart=False, **given))
        (counted,) = tracker.stats(session).lost
        print(f"rows, {kind} {strategy}: lost {counted['lost']}", flush=True)
        made = STEPS * WIDTH * (ROWS + ROWS // 2)
        assert counted["expected"] == made
        if registry.require(strategy).update_consistency != "none":
            assert (counted["lost"], session.run(variable).sum()) == (0, made)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for kind_of_variable in KINDS:
            exercise(kind_of_variable, name)
            exercise_rows(kind_of_variable, name)
