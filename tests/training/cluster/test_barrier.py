"""The barrier of a cluster's workers loses no report, however late it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow", reason="a barrier is in TensorFlow's graph")

from tmflow.base.errors import Unsupported  # noqa: E402
from tmflow.training.cluster import barrier as subject  # noqa: E402

pytestmark = pytest.mark.slow
LIMIT_S = 60.0


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "LOOK_S", 0.01)


@contextmanager
def two_workers() -> Iterator[tuple[subject.Barrier, subject.Barrier, Any]]:
    """The barriers of the chief and of worker 1, in one graph, and its session."""
    with tf.Graph().as_default() as graph:
        chief, other = (subject.Barrier(worker, 2, "/cpu:0") for worker in (0, 1))
        with tf.compat.v1.Session(graph=graph) as session:
            yield chief, other, session


class EndsARunLate:
    """A session whose first run with a limit has done its work when it is ended, as TensorFlow's sometimes have."""

    def __init__(self, session: Any) -> None:
        self._session, self._is_late = session, True

    def run(self, fetch: Any, feeds: Any = None, options: Any = None) -> Any:
        value = self._session.run(fetch, feeds, options=options)
        if options is not None and self._is_late:
            self._is_late = False
            raise tf.errors.DeadlineExceededError(None, None, "too late")
        return value


class Arrives(Set[int]):
    """No lost workers; when the chief asks for the 20th time, after some looks in vain, worker 1 arrives."""

    def __init__(self, arrive: Callable[[], None]) -> None:
        self._arrive, self._looks = arrive, 0

    def __iter__(self) -> Iterator[int]:
        self._looks += 1
        if self._looks == 20:
            self._arrive()
        return iter(())

    def __contains__(self, worker: object) -> bool:
        return False

    def __len__(self) -> int:
        return 0


def test_a_report_that_comes_when_the_chief_looks_up_is_kept() -> None:
    with two_workers() as (chief, other, session):
        other.arrive(session, {"worker": 1}, LIMIT_S)
        assert chief.gather(EndsARunLate(session), {"worker": 0}, LIMIT_S) == [{"worker": 0}, {"worker": 1}]


def test_the_chief_waits_for_many_looks() -> None:
    with two_workers() as (chief, other, session):
        chief.lost = Arrives(lambda: other.arrive(session, {"worker": 1}, LIMIT_S))
        assert chief.gather(session, {"worker": 0}, LIMIT_S) == [{"worker": 0}, {"worker": 1}]


def test_a_report_that_nobody_waits_for_any_more_is_that_of_the_next_gathering() -> None:
    with two_workers() as (chief, other, session):
        with pytest.raises(Unsupported, match=r"worker 1 did not come within 0\.02 s"):
            chief.gather(session, {"worker": 0}, 0.02)
        other.arrive(session, {"worker": 1}, LIMIT_S)
        assert chief.gather(session, {"worker": 0}, LIMIT_S) == [{"worker": 0}, {"worker": 1}]


def test_the_wait_for_a_lost_worker_ends_with_its_session() -> None:
    with two_workers() as (chief, other, session):
        with pytest.raises(Unsupported):
            chief.gather(session, {"worker": 0}, 0.02)
        with tf.compat.v1.Session(graph=session.graph) as later:
            session.close()
            other.arrive(later, {"worker": 1}, LIMIT_S)
            assert chief.gather(later, {"worker": 0}, LIMIT_S) == [{"worker": 0}, {"worker": 1}]
