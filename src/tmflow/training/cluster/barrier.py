"""A barrier of a cluster's workers, by queues on the first server.

Each worker arrives with a report. The chief, worker 0, takes the reports of all others and then lets them go on, up to
a step that it names. So no worker passes the barrier before all have arrived, and times between two barriers are by one
clock, the chief's.
"""

from __future__ import annotations

import json
import time
from collections.abc import Set
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tmflow.base.errors import Unsupported

Report = dict[str, Any]
CHIEF = 0
LOOK_S = 1.0  # the chief looks for lost workers this often while it waits


class Barrier:
    """The barrier of one worker, in the default graph. Create it with the same name in the graph of every worker."""

    def __init__(self, worker: int, workers: int, device: str) -> None:
        import tensorflow as tf

        self._worker, self._workers = worker, workers
        self.lost: Set[int] = set()  # workers that will not come any more; another thread may add to it
        self._reader = ThreadPoolExecutor(1)
        self._next: tuple[Any, Future[bytes]] | None = None  # a report that has not come, and its session
        with tf.device(device), tf.name_scope("barrier"):
            arrived = tf.queue.FIFOQueue(workers, [tf.string], [[]], shared_name="tmflow_arrived")
            released = tf.queue.FIFOQueue(workers, [tf.int32], [[]], shared_name="tmflow_released")
            self._report = tf.compat.v1.placeholder(tf.string, [])
            self._arrive = arrived.enqueue(self._report)
            self._next_report = arrived.dequeue()
            self._n_released = tf.compat.v1.placeholder(tf.int32, [])
            self._step = tf.compat.v1.placeholder(tf.int32, [])
            self._release = released.enqueue_many([tf.fill([self._n_released], self._step)])
            self._wait = released.dequeue()

    def arrive(self, session: Any, report: Report, limit_s: float) -> None:
        """Tell the chief that this worker is here. Not for the chief."""
        session.run(self._arrive, {self._report: json.dumps(report)}, options=_within(limit_s))

    def wait(self, session: Any, limit_s: float) -> int:
        """Wait until the chief lets this worker go on; return the step that the chief names. Not for the chief."""
        try:
            return int(session.run(self._wait, options=_within(limit_s)))
        except _deadline() as error:
            raise Unsupported(f"worker {self._worker} waited {limit_s:g} s for the chief, worker {CHIEF}") from error

    def gather(self, session: Any, report: Report, limit_s: float) -> list[Report]:
        """The reports of all workers but the lost ones, in their order; only for the chief.

        Raises Unsupported if a worker does not arrive within the limit, with the numbers of those that are missing.
        """
        reports, deadline = {CHIEF: report}, time.monotonic() + limit_s
        while missing := [worker for worker in range(self._workers) if worker not in reports.keys() | self.lost]:
            if time.monotonic() > deadline:
                numbers = ", ".join(map(str, missing))
                raise Unsupported(f"worker {numbers} did not come within {limit_s:g} s")
            if (taken := self._take(session)) is not None:
                reports[taken["worker"]] = taken
        return [reports[worker] for worker in sorted(reports)]

    def _take(self, session: Any) -> Report | None:
        """The next report; None if none comes soon, and then the next call waits for the same.

        The dequeue itself has no limit: one that TensorFlow ends for its time may have taken a report all the same.
        """
        if self._next is None or self._next[0] is not session:
            self._next = session, self._reader.submit(session.run, self._next_report)
        try:
            report: Report = json.loads(self._next[1].result(LOOK_S))
        except TimeoutError:
            return None
        self._next = None
        return report

    def release(self, session: Any, step: int) -> None:
        """Let all workers go on, up to this step of the training; only for the chief."""
        session.run(self._release, {self._n_released: self._workers - 1 - len(self.lost), self._step: step})


def _within(limit_s: float) -> Any:
    import tensorflow as tf

    return tf.compat.v1.RunOptions(timeout_in_ms=int(1000 * limit_s))


def _deadline() -> Any:
    import tensorflow as tf

    return tf.errors.DeadlineExceededError
