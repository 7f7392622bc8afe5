"""Threads that work together end together, and say why."""

from __future__ import annotations

import threading

import pytest

from tmflow.parallel.threads import work_together


class Cancelled(Exception):
    """What the failure of another thread causes."""


class Fails:
    """The call of two threads; the one that comes first raises `first`, and only then the other raises `second`."""

    def __init__(self, first: Exception, second: Exception) -> None:
        self._first, self._second = first, second
        self._both = threading.Barrier(2)
        self._raised: threading.Thread | None = None

    def __call__(self) -> bool:
        if self._both.wait() == 0:
            self._raised = threading.current_thread()
            self._both.wait()
            raise self._first
        self._both.wait()
        assert self._raised is not None
        self._raised.join()
        raise self._second


def test_the_first_exception_is_raised() -> None:
    with pytest.raises(ValueError, match="the first"):
        work_together(2, Fails(ValueError("the first"), ValueError("the second")))


def test_a_consequence_that_comes_first_does_not_hide_its_cause() -> None:
    with pytest.raises(ValueError, match="the cause"):
        work_together(2, Fails(Cancelled(), ValueError("the cause")), consequence=(Cancelled,))


def test_a_consequence_without_a_cause_is_raised() -> None:
    with pytest.raises(Cancelled, match="the first"):
        work_together(2, Fails(Cancelled("the first"), Cancelled("the second")), consequence=(Cancelled,))


def test_nobody_makes_another_call_after_a_failure() -> None:
    calls: list[int] = []

    def call() -> bool:
        calls.append(1)
        raise ValueError("at once")

    with pytest.raises(ValueError, match="at once"):
        work_together(1, call)
    assert calls == [1]


def test_all_threads_end_when_the_caller_no_longer_goes_on() -> None:
    rounds = iter([True, True, False])
    work_together(3, lambda: True, lambda: next(rounds, False))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tmflow-worker")]
