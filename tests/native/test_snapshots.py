"""Reads through a strategy and plain reads, in real sessions, and what full measures report about them and about
updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from graphs import KINDS, tf, tf1
from variants import STRATEGIES

from tmflow.native import loader, ops, registry
from tmflow.native.registry import resolve
from tmflow.spec.strategies import CONTENTION

pytestmark = pytest.mark.usefixtures("runs_here")

ROWS = {variant.name: variant for variant in registry.variants()}
CONSISTENT = [name for name in STRATEGIES if ROWS[name].snapshot_consistency in ("tensor", "step")]
IN_MEMORY = [name for name in STRATEGIES if not ROWS[name].keeps_elsewhere]
ELEMENTS = 5_000
WITHOUT_SLOTS = {"elements": None, "inconsistent": None}  # what a row of losses says of them


class Reader:
    """One variable of zeros, an update that adds 1 to every element, and a read of it."""

    def __init__(self, kind: str, strategy: str, workers: int, *, consistent: bool, elements: int) -> None:
        self.variable = tf1.Variable(np.zeros(elements, np.float32), use_resource=KINDS[kind])
        self.tracker = ops.Tracker(workers, ["w"], "full")
        self.worker = tf1.placeholder(tf.int32, [])
        of_strategy: dict[str, Any] = {"strategy": resolve(strategy), "tracker": self.tracker, "index": 0}
        own = of_strategy | {"worker": self.worker}
        ones = tf.ones([elements])
        self.apply = ops.apply_gradient_descent(self.variable, -1.0, ones, **own)
        self.read = ops.read(self.variable, consistent=consistent, **own)
        self.restart, self.settle = (ops.settle(self.variable, restart=again, **of_strategy) for again in (True, False))


@contextmanager
def reading(kind: str, strategy: str, *, workers: int = 4, consistent: bool = True) -> Iterator[tuple[Reader, Any]]:
    with tf.Graph().as_default():
        reader = Reader(kind, strategy, workers, consistent=consistent, elements=ELEMENTS)
        with tf1.Session() as session:
            session.run(reader.variable.initializer)
            session.run(reader.restart)
            yield reader, session


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", CONSISTENT)
def test_consistent_reads_are_never_torn(kind: str, strategy: str) -> None:
    """Two workers update while two read: all elements of each read are equal."""
    steps = 60
    with reading(kind, strategy) as (reader, session):
        apply, read = (session.make_callable(op, [reader.worker]) for op in (reader.apply, reader.read))

        def work(worker: int) -> list[float]:
            if worker < 2:
                for _ in range(steps):
                    apply(np.int32(worker))
                return []
            seen = []
            for _ in range(steps):
                value = read(np.int32(worker))
                assert value.min() == value.max()
                seen.append(float(value[0]))
            return seen

        with ThreadPoolExecutor(4) as pool:
            for seen in pool.map(work, range(4)):
                assert seen == sorted(seen)  # a later read is never older
        if strategy == "local_steps":  # a worker reads its own copy, which lacks updates of the other
            session.run(reader.settle)
        assert np.unique(read(np.int32(0))).tolist() == [2 * steps]
        session.run(reader.settle)
        assert np.unique(session.run(reader.variable)).tolist() == [2 * steps]
        stats = reader.tracker.stats(session)
    assert stats.lost == [{"variable": "w", "expected": 2 * steps * ELEMENTS, "lost": 0, **WITHOUT_SLOTS}]
    if ROWS[strategy].keeps_elsewhere or strategy in ("stm", "itm"):
        assert stats.reads == []  # not measured
    else:
        assert [(row["reads"], row["torn"]) for row in stats.reads] == [(1, 0), (0, 0), (steps, 0), (steps, 0)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", IN_MEMORY)
def test_what_nothing_disturbs_is_not_torn_and_not_lost(kind: str, strategy: str) -> None:
    with reading(kind, strategy, workers=1, consistent=False) as (reader, session):
        for _ in range(3):
            session.run(reader.apply, {reader.worker: 0})
            read = session.run(reader.read, {reader.worker: 0})
        assert np.unique(read).tolist() == [3]
        stats = reader.tracker.stats(session)
        assert [row["lost"] for row in stats.lost] == [0]
        assert all((row["reads"], row["torn"]) == (3, 0) for row in stats.reads)
        reader.tracker.reset(session)
        stats = reader.tracker.stats(session)
        assert stats.lost == [{"variable": "w", "expected": 0, "lost": 0, **WITHOUT_SLOTS}]
        assert all((row["reads"], row["torn"]) == (0, 0) for row in stats.reads)
        assert not any(getattr(stats, kind) for kind in CONTENTION)


def test_nolock_loses_updates_and_is_read_torn() -> None:
    """Torn reads depend on chance, but the test is long enough; the counts stay within their limits."""
    with reading("ref", "nolock", consistent=False) as (reader, session):
        apply, read = (session.make_callable(op, [reader.worker]) for op in (reader.apply, reader.read))
        with ThreadPoolExecutor(4) as pool:
            for done in [
                pool.submit(call, np.int32(w)) for _ in range(300) for w in range(4) for call in (apply, read)
            ]:
                done.result()
        stats = reader.tracker.stats(session)
    (row,) = stats.lost
    expected, lost = row["expected"], row["lost"]
    assert expected == 4 * 300 * ELEMENTS
    assert 0 <= lost < expected
    assert sum(row["reads"] for row in stats.reads) == 4 * 300


def test_times_of_locks() -> None:
    with reading("ref", "lock", workers=1) as (reader, session):
        session.run(reader.apply, {reader.worker: 0})
        (row,) = reader.tracker.stats(session).counters
    assert row["lock_held_s"] > 0
    assert row["lock_waited_s"] >= 0
    with tf.Graph().as_default(), tf1.Session() as session:
        tracker = ops.Tracker(1, ["w"])
        tracker.count(0, resolve("lock"))
        assert "lock_held_s" not in tracker.stats(session).counters[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_assignment_is_where_the_variable_starts_anew(kind: str, strategy: str) -> None:
    with reading(kind, strategy, workers=1, consistent=strategy in CONSISTENT) as (reader, session):
        for _ in range(2):
            session.run(reader.variable.initializer)
            session.run(reader.restart)
            session.run(reader.apply, {reader.worker: 0})
            session.run(reader.settle)
            assert np.unique(session.run(reader.variable)).tolist() == [1]


@pytest.mark.parametrize(
    ("strategy", "consistent", "says"),
    [
        ("nolock", True, "strategy nolock has no consistent read"),
        ("leashed", False, "leashed does not keep the variable in its memory"),
    ],
)
def test_a_read_that_a_strategy_cannot_give_fails(strategy: str, consistent: bool, says: str) -> None:
    with (
        reading("ref", strategy, workers=1, consistent=consistent) as (reader, session),
        pytest.raises(tf.errors.UnimplementedError, match=says),
    ):
        session.run(reader.read, {reader.worker: 0})


def test_the_library_measures_what_reading_costs() -> None:
    core = loader.core()
    for name in CONSISTENT:
        if not registry.require(name).runnable or name in ("itm", "tle"):
            continue
        row = core.measure_reads(name, readers=2, writers=1, reads=50, elements=1000)
        assert 50 <= row["reads"] <= 100
        assert 50 <= row["checked"] <= 100
        assert row["torn"] == 0
        assert row["seconds"] > 0
    assert core.measure_reads("nolock", 1, 0, 10, 5, consistent=False)["updates"] == 0
    with pytest.raises(ValueError, match="strategy 'nolock' has no consistent read"):
        core.measure_reads("nolock", 1, 1, 10, 5)
    with pytest.raises(ValueError, match="strategy 'leashed' does not keep the variable in this memory"):
        core.measure_reads("leashed", 1, 1, 10, 5, consistent=False)
    with pytest.raises(ValueError, match="readers must be 1 to 1024, not 0"):
        core.measure_reads("lock", 0, 1, 10, 5)
