"""Words between the tasks of a cluster that nobody drives: queues of texts, each on a task that everybody can name.

Each call has a session of its own over two tasks, this one and the one with the queue, so it waits for no third task.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from tmflow.training.cluster.addresses import Job
from tmflow.training.cluster.barrier import CHIEF
from tmflow.training.cluster.replica import device

Words = dict[str, Any]
Operation = Callable[[Any], Any]  # makes an operation on a queue
Outcomes = SimpleQueue[tuple[Any, OSError | None]]
CAPACITY = 2048  # of a queue: more than a cluster has tasks
ASK_S = 5.0  # between two questions whether a task still answers
_BROKEN: list[Any] = []  # sessions with a task that has ended, kept: to close one would wait for that task


@dataclass(frozen=True)
class Name:
    """The name of a task: its job and its index."""

    job: Job
    index: int

    def __str__(self) -> str:
        return f"{'server' if self.job == 'ps' else 'worker'} {self.index}"

    @property
    def device(self) -> str:
        """Its processor in TensorFlow."""
        return device(self.job, self.index)


FIRST_SERVER = Name("ps", 0)
CHIEF_WORKER = Name("worker", CHIEF)


class Mailbox:
    """The words of one task. `target` is its own server of TensorFlow.

    `put` and `take` raise TimeoutError if that takes longer than `limit_s` seconds (None: no limit), for example as
    long as the other task is not up, and ConnectionError if the other task ends meanwhile.
    """

    def __init__(self, target: str, name: Name) -> None:
        self._target, self._name = target, name

    def put(self, place: Name, queue: str, words: Words, limit_s: float | None) -> None:
        """Put words into a queue of a task."""
        outcomes = self._start(place, queue, lambda made: made.enqueue(json.dumps(words)))
        _next(outcomes, place, limit_s)

    def take(self, place: Name, queue: str, limit_s: float | None) -> Words:
        """Wait for the next words in a queue of a task."""
        outcomes = self._start(place, queue, lambda made: made.dequeue())
        words: Words = json.loads(_next(outcomes, place, limit_s))
        return words

    def wait_for_end(self, place: Name, limit_s: float, on_first_answer: Callable[[], None]) -> str:
        """Wait until a task has ended, or has not answered for longer than the limit, and say which.

        on_first_answer: called when the task answers for the first time.

        A process that ends closes its connections, which is noticed at once. A network that is cut closes none: the
        system's own limit for that is a quarter of an hour, so this asks again and again.
        """
        has_answered = False
        while True:
            outcomes: Outcomes = SimpleQueue()
            self._run(place, "silent", lambda made: made.dequeue(), outcomes)  # nobody puts anything into this queue
            self._run(place, "silent", lambda made: made.size(), outcomes, every_s=ASK_S)
            while True:
                try:
                    _next(outcomes, place, ASK_S + limit_s)
                except InterruptedError:
                    break  # a reset between two trials closes all sessions of this task
                except TimeoutError:
                    return f"{place} has not answered for {limit_s:g} s"
                except ConnectionError:
                    return f"{place} has ended before the training was done"
                if not has_answered:
                    has_answered = True
                    on_first_answer()

    def _start(self, place: Name, queue: str, operation: Operation) -> Outcomes:
        outcomes: Outcomes = SimpleQueue()
        self._run(place, queue, operation, outcomes)
        return outcomes

    def _run(
        self, place: Name, queue: str, operation: Operation, outcomes: Outcomes, every_s: float | None = None
    ) -> None:
        """Run an operation in a thread, once or every so often: no limit of TensorFlow ends the wait for a start."""
        work = threading.Thread(target=self._work, args=(place, queue, operation, outcomes, every_s), daemon=True)
        work.start()

    def _work(self, place: Name, queue: str, operation: Operation, outcomes: Outcomes, every_s: float | None) -> None:
        import tensorflow as tf

        graph, tf1 = tf.Graph(), tf.compat.v1
        with graph.as_default(), tf.device(place.device):
            made = tf.queue.FIFOQueue(CAPACITY, [tf.string], [[]], shared_name=f"tmflow_mail_{queue}")
            result = operation(made)
        config = tf1.ConfigProto(device_filters=[place.device, self._name.device])
        session = tf1.Session(self._target, graph=graph, config=config)
        try:
            outcomes.put((session.run(result), None))
            while every_s is not None:
                time.sleep(every_s)
                outcomes.put((session.run(result), None))
        except (tf.errors.CancelledError, tf.errors.AbortedError):
            _BROKEN.append(session)
            outcomes.put((None, InterruptedError(f"the session with {place} was closed")))
        except tf.errors.OpError as error:
            _BROKEN.append(session)
            outcomes.put((None, ConnectionError(f"{place} does not answer: {error.message[:200]}")))
        else:
            with suppress(tf.errors.OpError):  # a reset may have closed it
                session.close()


def _next(outcomes: Outcomes, place: Name, limit_s: float | None) -> Any:
    """The value of the next operation."""
    try:
        value, error = outcomes.get(timeout=limit_s)
    except Empty as late:
        raise TimeoutError(f"{place} gave no answer within {limit_s:g} s") from late
    if error is not None:
        raise error
    return value
