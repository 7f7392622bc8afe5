"""The tracker in a session: counts that must add up, whatever the threads do."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from graphs import in_threads, session_of, tf, tf1

from tmflow.native import ops
from tmflow.runner.runfile import Counters, Staleness

DELTA = np.ones(100, np.float32)


@pytest.mark.parametrize("kind", ["ref", "resource"])
def test_one_worker_is_never_stale(kind: str) -> None:
    with session_of(np.zeros(100, np.float32), kind, "lock") as (graph, session):
        assert in_threads(graph, session, workers=1, steps=50, delta=DELTA) == [0] * 50
        counters, staleness = graph.tracker.stats(session)
    assert counters == [{"worker": 0, "variable": "w", "updates": 50}]
    assert staleness == [{"worker": 0, "staleness": 0, "steps": 50}]


@pytest.mark.parametrize("strategy", ["lock", "nolock"])
def test_counts_of_several_workers_add_up(strategy: str) -> None:
    with session_of(np.zeros(100, np.float32), "ref", strategy, workers=4) as (graph, session):
        seen = in_threads(graph, session, workers=4, steps=200, delta=DELTA)
        counters, staleness = graph.tracker.stats(session)
    assert [Counters(**row).updates for row in counters] == [200] * 4
    rows = [Staleness(**row) for row in staleness]
    for worker in range(4):
        assert sum(row.steps for row in rows if row.worker == worker) == 200
    histogram: Counter[int] = Counter()
    for row in rows:
        histogram[row.staleness] += row.steps
    assert histogram == Counter(seen)


def test_transactions_are_absent_where_there_are_none() -> None:
    with session_of(np.zeros(100, np.float32), "ref", "lock") as (graph, session):
        counters, _ = graph.tracker.stats(session)
    row = Counters(**counters[0])
    assert (row.updates, row.commits, row.fallbacks, row.attempts) == (0, None, None, None)


def test_stock_strategies_count_steps_only() -> None:
    with session_of(np.zeros(100, np.float32), "ref", "tf_lock", workers=2) as (graph, session):
        in_threads(graph, session, workers=2, steps=30, delta=DELTA)
        counters, staleness = graph.tracker.stats(session)
    assert counters == []
    assert sum(row["steps"] for row in staleness) == 60


def test_reset_forgets_and_stepping_goes_on() -> None:
    with session_of(np.zeros(100, np.float32), "ref", "lock") as (graph, session):
        in_threads(graph, session, workers=1, steps=5, delta=DELTA)
        graph.tracker.reset(session)
        assert graph.tracker.stats(session) == ([{"worker": 0, "variable": "w", "updates": 0}], [])
        in_threads(graph, session, workers=1, steps=3, delta=DELTA)
        assert graph.tracker.stats(session)[1] == [{"worker": 0, "staleness": 0, "steps": 3}]


def test_a_stale_step_is_counted_as_such() -> None:
    """Worker 0 begins, worker 1 takes two whole steps, worker 0 ends."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tracker = ops.Tracker(2, ["w"])
        begin = tracker.begin_step()
        worker, version = tf1.placeholder(tf.int32, []), tf1.placeholder(tf.int64, [])
        end = tracker.end_step(worker, version)
        slow = session.run(begin)
        for _ in range(2):
            assert session.run(end, {worker: 1, version: session.run(begin)}) == 0
        assert session.run(end, {worker: 0, version: slow}) == 2
        assert tracker.stats(session)[1] == [
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
            assert graph.tracker.stats(other) == ([{"worker": 0, "variable": "w", "updates": 0}], [])


@pytest.mark.parametrize(("workers", "variables"), [(0, ["w"]), (1, [])])
def test_a_tracker_of_nothing_fails_when_it_is_made(workers: int, variables: list[str]) -> None:
    with tf.Graph().as_default(), pytest.raises(ValueError, match="minimum 1"):
        ops.Tracker(workers, variables)
