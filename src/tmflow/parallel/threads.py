"""Threads that make the same call again and again, until one of several reasons ends them all."""

from __future__ import annotations

import threading
from collections.abc import Callable

POLL_S = 0.1  # how often the caller's thread looks whether to go on


def work_together(
    workers: int,
    call: Callable[[], bool],
    go_on: Callable[[], bool] = lambda: True,
    consequence: tuple[type[BaseException], ...] = (),
) -> None:
    """Call `call` repeatedly in each of so many threads, until it returns False.

    This thread calls `go_on` some ten times a second; if it returns False, or a call raises, no thread makes another
    call. Returns when all threads have ended. The first exception of a thread is raised here.

    consequence: the exceptions that the failure of one thread causes in others, perhaps before that thread raises its
    own. Such an exception is raised only if there is no other.
    """
    stop, failed = threading.Event(), list[BaseException]()

    def work() -> None:
        try:
            while not stop.is_set() and call():
                pass
        except BaseException as error:  # the thread of the caller raises it
            failed.append(error)
            stop.set()

    threads: list[threading.Thread] = []
    try:
        for number in range(workers):
            thread = threading.Thread(target=work, name=f"tmflow-worker-{number}")
            thread.start()
            threads.append(thread)
        for thread in threads:
            while thread.is_alive():
                thread.join(POLL_S)
                if not go_on():
                    stop.set()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if failed:
        raise next((error for error in failed if not isinstance(error, consequence)), failed[0])
