"""The tracker in a session: its counts add up, whatever the threads do."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from graphs import in_threads, session_of, tf, tf1

from tmflow.native import ops, registry
from tmflow.native.registry import resolve
from tmflow.runfile.record import Abort, Counters, FailedPublications, Lost, Reads, Retries, Staleness, TakenBlocks
from tmflow.spec.strategies import CONTENTION

DELTA = np.ones(100, np.float32)


@pytest.mark.parametrize("kind", ["ref", "resource"])
def test_one_worker_is_never_stale(kind: str) -> None:
    with session_of(np.zeros(100, np.float32), kind, "lock") as (graph, session):
        assert in_threads(graph, session, workers=1, steps=50, delta=DELTA) == [0] * 50
        counters, aborts, staleness, *_ = graph.tracker.stats(session)
    assert counters == [{"worker": 0, "variable": "w", "updates": 50}]
    assert aborts == []
    assert staleness == [{"worker": 0, "staleness": 0, "steps": 50}]


@pytest.mark.parametrize("strategy", ["lock", "nolock"])
def test_counts_of_several_workers_add_up(strategy: str) -> None:
    with session_of(np.zeros(100, np.float32), "ref", strategy, workers=4) as (graph, session):
        seen = in_threads(graph, session, workers=4, steps=200, delta=DELTA)
        counters, aborts, staleness, *_ = graph.tracker.stats(session)
    assert [Counters(**row).updates for row in counters] == [200] * 4
    assert aborts == []
    rows = [Staleness(**row) for row in staleness]
    for worker in range(4):
        assert sum(row.steps for row in rows if row.worker == worker) == 200
    histogram: Counter[int] = Counter()
    for row in rows:
        histogram[row.staleness] += row.steps
    assert histogram == Counter(seen)


def test_transactions_are_absent_where_there_are_none() -> None:
    with session_of(np.zeros(100, np.float32), "ref", "lock") as (graph, session):
        counters, aborts, *_ = graph.tracker.stats(session)
    assert aborts == []
    row = Counters(**counters[0])
    assert (row.updates, row.commits, row.fallbacks, row.attempts) == (0, None, None, None)


def test_transactions_are_counted_where_they_are_tried() -> None:
    """A strategy that can use transactions but tried none counts 0, which differs from not counted."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tracker = ops.Tracker(1, ["w", "b"])
        tracker.count(0, resolve("htm", {"provider": "rtm"}))
        tracker.count(1, resolve("lock"))
        tried, untried = (Counters(**row) for row in tracker.stats(session).counters)
    assert (tried.attempts, tried.commits, tried.fallbacks) == (0, 0, 0)
    assert (untried.attempts, untried.commits, untried.fallbacks) == (None, None, None)


def test_what_the_operation_gives_becomes_rows_of_a_run_file() -> None:
    class Recorded:
        """A session in which transactions were tried, on any machine."""

        def run(self, fetched: Any) -> tuple[Any, ...]:
            assert len(fetched) == 8
            updates = np.array([[5, 4], [6, 0]])
            transactions = np.array([[[9, 3, 2], [0, 0, 0]], [[6, 6, 0], [0, 0, 0]]])
            aborts = np.array([[0, 0, 8, 4], [0, 0, (30 << 24) | 1, 2]])
            rest = (
                np.array([[0, 0, 0, 2, 7], [0, 1, 2, 3, 9], [1, 0, 1, 4, 8]]),
                np.zeros((2, 2, 2), int),
                np.array([[1, 1, 9, 3]]),
                np.array([[1, 80, 2, 40, 4], [0, 60, 1, -1, -1]]),
            )
            return updates, transactions, aborts, np.array([[0, 1, 5]]), *rest

    with tf.Graph().as_default():
        tracker = ops.Tracker(2, ["w", "b"])
        tracker.count(0, resolve("htm", {"provider": "rtm"}))
        stats = tracker.stats(Recorded())
    assert [Counters(**row) for row in stats.counters] == [
        Counters(worker=0, variable="w", updates=5, attempts=9, commits=3, fallbacks=2),
        Counters(worker=1, variable="w", updates=6, attempts=6, commits=6, fallbacks=0),
    ]
    whose = {"worker": 0, "variable": "w", "mechanism": "rtm"}
    assert [Abort(**row) for row in stats.aborts] == [
        Abort(**whose, raw_code="0x00000008", family="capacity", n=4),
        Abort(**whose, raw_code="0x1e000001", family="lock_subscription", n=2),
    ]
    assert [Staleness(**row) for row in stats.staleness] == [Staleness(worker=0, staleness=1, steps=5)]
    met = {kind: getattr(stats, kind) for kind in CONTENTION}
    assert [Retries(**row) for row in met["retries"]] == [Retries(worker=0, variable="w", retries=2, sections=7)]
    assert [TakenBlocks(**row) for row in met["taken_blocks"]] == [
        TakenBlocks(worker=0, variable="b", taken_blocks=3, updates=9)
    ]
    assert [FailedPublications(**row) for row in met["failed_publications"]] == [
        FailedPublications(worker=1, variable="w", failed_publications=4, updates=8)
    ]
    assert [Reads(**row) for row in stats.reads] == [Reads(worker=1, variable="b", reads=9, torn=3)]
    assert [Lost(**row) for row in stats.lost] == [
        Lost(variable="b", expected=80, lost=2, elements=40, inconsistent=4),
        Lost(variable="w", expected=60, lost=1),
    ]


@pytest.mark.parametrize("budget", [0, 5])
def test_real_transactions_add_up(budget: int) -> None:
    parameters = {"budget": budget}
    if why_not := registry.require("htm").why_not:
        pytest.skip(why_not)
    with session_of(np.zeros(64, np.float32), "ref", "htm", workers=2, parameters=parameters) as (graph, session):
        in_threads(graph, session, workers=2, steps=100, delta=np.ones(64, np.float32))
        stats = graph.tracker.stats(session)
        assert np.unique(session.run(graph.variable)).tolist() == [-200]
    for row in (Counters(**row) for row in stats.counters):
        assert row.commits is not None
        assert row.fallbacks is not None
        assert row.attempts is not None
        assert row.commits + row.fallbacks == row.updates == 100
        assert row.attempts - row.commits == sum(a["n"] for a in stats.aborts if a["worker"] == row.worker)
        assert budget > 0 or row.attempts == 0


def test_stock_strategies_count_steps_only() -> None:
    with session_of(np.zeros(100, np.float32), "ref", "tf_lock", workers=2) as (graph, session):
        in_threads(graph, session, workers=2, steps=30, delta=DELTA)
        counters, aborts, staleness, *_ = graph.tracker.stats(session)
    assert counters == aborts == []
    assert sum(row["steps"] for row in staleness) == 60


NO_UPDATE = {"worker": 0, "variable": "w", "updates": 0}
NOTHING = ops.Stats([NO_UPDATE], [], [], *([] for _ in CONTENTION), [], [])


def test_reset_forgets_and_stepping_goes_on() -> None:
    with session_of(np.zeros(100, np.float32), "ref", "lock") as (graph, session):
        in_threads(graph, session, workers=1, steps=5, delta=DELTA)
        graph.tracker.reset(session)
        assert graph.tracker.stats(session) == NOTHING
        in_threads(graph, session, workers=1, steps=3, delta=DELTA)
        assert graph.tracker.stats(session).staleness == [{"worker": 0, "staleness": 0, "steps": 3}]


def test_a_stale_step_is_counted_as_such() -> None:
    """Worker 0 begins a step, worker 1 completes two steps, worker 0 ends."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tracker = ops.Tracker(2, ["w"])
        begin = tracker.begin_step()
        worker, version = tf1.placeholder(tf.int32, []), tf1.placeholder(tf.int64, [])
        end = tracker.end_step(worker, version)
        slow = session.run(begin)
        for _ in range(2):
            assert session.run(end, {worker: 1, version: session.run(begin)}) == 0
        assert session.run(end, {worker: 0, version: slow}) == 2
        assert tracker.stats(session).staleness == [
            {"worker": 0, "staleness": 2, "steps": 1},
            {"worker": 1, "staleness": 0, "steps": 2},
        ]
        for bad_worker, bad_version, message in ((2, 0, "worker 2 is out of range"), (0, 9, "version 9 was never")):
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                session.run(end, {worker: bad_worker, version: bad_version})


def test_each_session_has_a_tracker_of_its_own() -> None:
    with session_of(np.zeros(100, np.float32), "ref", "lock") as (graph, session):
        in_threads(graph, session, workers=1, steps=5, delta=DELTA)
        with tf1.Session() as other:
            assert graph.tracker.stats(other) == NOTHING


@pytest.mark.parametrize(("workers", "variables"), [(0, ["w"]), (1, [])])
def test_a_tracker_of_nothing_fails_when_it_is_made(workers: int, variables: list[str]) -> None:
    with tf.Graph().as_default(), pytest.raises(ValueError, match="minimum 1"):
        ops.Tracker(workers, variables)
