"""The STM in the Python module and in a TensorFlow session: its results, its (absent) losses, and its counters."""

from __future__ import annotations

import itertools
import threading
from typing import Any, get_args

import numpy as np
import pytest
from graphs import in_threads, session_of

from tmflow.native import loader
from tmflow.spec.factors import Design, Instrumentation, Manager, Optimisation

DESIGNS, MANAGERS = get_args(Design), get_args(Manager)
DTYPES = [np.float32, np.float64]
LOCKED_BYTES = 2**20 * 32  # elements that the lock table covers without sharing locks


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0,), (1,), (784, 10)])
@pytest.mark.parametrize("design", DESIGNS)
def test_an_update_is_what_numpy_computes(design: str, shape: tuple[int, ...], dtype: type) -> None:
    random = np.random.default_rng(1)
    start, delta = random.normal(size=shape).astype(dtype), random.normal(size=shape).astype(dtype)
    variants = itertools.product(MANAGERS, get_args(Instrumentation), get_args(Optimisation))
    for manager, instrumentation, optimisation in variants:
        array = start.copy()
        parameters = {
            "design": design,
            "manager": manager,
            "instrumentation": instrumentation,
            "optimisation": optimisation,
        }
        given = [f"{name}={value}" for name, value in parameters.items()]
        loader.core().Region(array).apply("stm", 0.3, delta, parameters=given)
        np.testing.assert_array_equal(array, start - dtype(0.3) * delta)


@pytest.mark.parametrize("design", DESIGNS)
def test_a_variable_larger_than_the_table_of_locks(design: str) -> None:
    array = np.zeros(LOCKED_BYTES // 4 + 1003, np.float32)
    delta = np.arange(array.size, dtype=np.float32)
    region = loader.core().Region(array)
    region.apply("stm", -1, delta, parameters=[f"design={design}"])
    np.testing.assert_array_equal(array, delta)
    (row,) = region.counters()
    assert (row["commits"], row["fallbacks"], row["aborts"]) == (1, 0, {})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("design", "manager"), list(itertools.product(DESIGNS, MANAGERS)))
def test_the_audit_finds_nothing_lost(design: str, manager: str, dtype: str) -> None:
    for threads, chunk in itertools.product((1, 2, 4), (0, 100)):
        given = [f"design={design}", f"manager={manager}", f"chunk={chunk}"]
        report = loader.core().audit("stm", threads, 40, 1003, dtype, given)
        assert (report["lost"], report["doubled"], report["corrupt_elements"]) == (0, 0, 0)
        assert report["counted"] == threads * 40


def test_designs_and_builds_keep_out_of_each_other_s_way() -> None:
    """They share the clock and the locks, so all of them may update one variable concurrently."""
    array = np.zeros(5000, np.float32)
    variants = list(itertools.product(DESIGNS, ["suicide", "aggressive", "timestamp"], ["O0", "O3"]))
    region = loader.core().Region(array, workers=len(variants))

    def work(worker: int) -> None:
        given = [
            f"{name}={value}"
            for name, value in zip(("design", "manager", "optimisation"), variants[worker], strict=True)
        ]
        for _ in range(20):
            region.apply("stm", -1, np.ones_like(array), worker, given)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(len(variants))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.unique(array).tolist() == [20 * len(variants)]
    for row in region.counters():
        assert (row["updates"], row["commits"], row["fallbacks"]) == (20, 20, 0)
        assert row["attempts"] == row["commits"] + sum(row["aborts"].values())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (784, 10), (LOCKED_BYTES // 8 + 17,)])
@pytest.mark.parametrize("kind", ["ref", "resource"])
def test_the_operations_compute_what_numpy_computes(kind: str, shape: tuple[int, ...], dtype: Any) -> None:
    random = np.random.default_rng(1)
    value, delta = random.normal(size=(2, *shape)).astype(dtype)
    with session_of(value, kind, "stm", alpha=0.3, parameters={"design": "wb_ctl"}) as (graph, session):
        session.run(graph.apply, {graph.worker: 0, graph.delta: delta})
        np.testing.assert_array_equal(session.run(graph.variable), value - dtype(0.3) * delta)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("kind", ["ref", "resource"])
def test_four_threads_lose_nothing_and_are_counted(kind: str, design: str) -> None:
    elements, steps = 100_003, 25
    start = np.zeros(elements, np.float32)
    parameters = {"design": design, "manager": "delay"}
    with session_of(start, kind, "stm", workers=4, alpha=-1, parameters=parameters) as (graph, session):
        in_threads(graph, session, workers=4, steps=steps, delta=np.ones(elements, np.float32))
        assert np.unique(session.run(graph.variable)).tolist() == [4 * steps]
        counters, aborts, *_ = graph.tracker.stats(session)
    assert [(row["commits"], row["fallbacks"]) for row in counters] == [(steps, 0)] * 4
    assert sum(row["attempts"] - row["commits"] for row in counters) == sum(row["n"] for row in aborts)
    assert {row["family"] for row in aborts} <= {"conflict", "validation"}
