"""Emulated transactions in the operations and in training: the same bits, and counted aborts."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from graphs import KINDS, in_threads, session_of

from tmflow import datasets
from tmflow.base.errors import BadInput, Unsupported
from tmflow.native import loader, ops
from tmflow.native.availability import why_not
from tmflow.native.registry import resolve
from tmflow.platform.profiles import load_profile, profile_names
from tmflow.spec.trial import TrialSpec
from tmflow.training.data import TrialData
from tmflow.training.measurement import Measurement
from tmflow.training.session import Variant

TSX = {"provider": "emulated", "profile": "intel-tsx-study"}
POWER = {"provider": "emulated", "profile": "ibm-power8-s822", "budget": 100, "spending": "study_power"}
POWER_OVERFLOW = "0x120000018000001"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (100, 10), (100_003,)])
@pytest.mark.parametrize("machine", [TSX, {**POWER, "subscription": "ours"}, {**TSX, "chunk": 300}])
def test_one_thread_computes_what_numpy_does(kind: str, dtype: Any, shape: tuple[int, ...], machine: Any) -> None:
    value, delta = np.random.default_rng(1).normal(size=(2, *shape)).astype(dtype)
    with session_of(value, kind, "htm", alpha=0.3, parameters=machine) as (graph, session):
        for _ in range(2):
            session.run(graph.apply, {graph.worker: 0, graph.delta: delta})
            value = value - dtype(0.3) * delta
        np.testing.assert_array_equal(session.run(graph.variable), value)


@pytest.mark.parametrize("kind", KINDS)
def test_threads_lose_nothing_and_every_attempt_ends(kind: str) -> None:
    with session_of(np.zeros(1000, np.float32), kind, "htm", workers=4, alpha=-1, parameters=TSX) as (graph, session):
        in_threads(graph, session, workers=4, steps=250, delta=np.ones(1000, np.float32))
        assert np.unique(session.run(graph.variable)).tolist() == [1000]
        counters, aborts, *_ = graph.tracker.stats(session)
    ended = Counter({row["worker"]: 0 for row in counters})
    for abort in aborts:
        assert abort["mechanism"] == "rtm"
        ended[abort["worker"]] += abort["n"]
    for row in counters:
        assert row["commits"] + row["fallbacks"] == row["updates"] == 250
        assert row["attempts"] == row["commits"] + ended[row["worker"]]
    assert sum(row["commits"] for row in counters) > 0


@pytest.mark.parametrize(("machine", "raw_code"), [(TSX, "0x00000008"), (POWER, POWER_OVERFLOW)])
def test_an_update_that_does_not_fit_says_so_as_its_machine_does(machine: Any, raw_code: str) -> None:
    with session_of(np.zeros(7840, np.float32), "ref", "htm", parameters=machine) as (graph, session):
        session.run(graph.apply, {graph.worker: 0, graph.delta: np.zeros(7840, np.float32)})
        counters, aborts, *_ = graph.tracker.stats(session)
    assert [(row["commits"], row["fallbacks"]) for row in counters] == [(0, 1)]
    (abort,) = aborts
    assert (abort["raw_code"], abort["family"]) == (raw_code, "capacity")
    assert abort["n"] == (5 if machine is TSX else 50)  # on POWER a persistent abort costs two


@pytest.mark.parametrize("optimisation", ["O0", "O3"])
def test_a_line_without_gradient_is_not_written(optimisation: str) -> None:
    """An update of 7,840 floats does not fit, unless it writes nothing that its later reads would evict."""
    value = np.random.default_rng(1).normal(size=7840).astype(np.float32)
    delta = np.zeros_like(value)
    delta[-500::100] = 1
    machine = {**TSX, "kernel": "skip_zero", "optimisation": optimisation}
    with session_of(value, "ref", "htm", alpha=0.3, parameters=machine) as (graph, session):
        session.run(graph.apply, {graph.worker: 0, graph.delta: delta})
        np.testing.assert_array_equal(session.run(graph.variable), value - np.float32(0.3) * delta)
        counters, aborts, *_ = graph.tracker.stats(session)
        assert ([(row["commits"], row["fallbacks"]) for row in counters], aborts) == ([(1, 0)], [])
        session.run(graph.apply, {graph.worker: 0, graph.delta: np.ones_like(delta)})
        counters, aborts, *_ = graph.tracker.stats(session)
    assert [(row["commits"], row["fallbacks"]) for row in counters] == [(1, 1)]
    assert {abort["family"] for abort in aborts} == {"capacity"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reads", [False, True])
def test_only_a_reader_aborts_a_lone_writer(kind: str, reads: bool) -> None:
    with session_of(np.zeros(1000, np.float32), kind, "htm", parameters=TSX) as (graph, session):
        note = session.make_callable(
            ops.note_read(graph.variable, strategy=resolve("htm", TSX), tracker=graph.tracker, index=0)
        )
        step = session.make_callable(graph.step, [graph.worker, graph.delta])
        delta, done = np.zeros(1000, np.float32), threading.Event()

        def write() -> int:
            """The aborts of these updates; next to a reader, of as many more as it takes to meet one.

            Where the two threads share one processor, they meet only when one is suspended in the middle of its
            operation: the limit is in seconds, because no number of updates is enough for every machine.
            """
            aborts, end = 0, time.monotonic() + 120
            try:
                while not aborts and time.monotonic() < end:
                    for _ in range(500):
                        step(np.int32(0), delta)
                    aborts = sum(row["n"] for row in graph.tracker.stats(session).aborts)
                    if not reads:
                        break
            finally:
                done.set()
            return aborts

        def read() -> None:
            while reads and not done.is_set():
                note()

        with ThreadPoolExecutor(2) as pool:
            writer, reader = pool.submit(write), pool.submit(read)
            reader.result()
            assert (writer.result() > 0) == reads


def test_noting_a_read_changes_nothing_and_other_strategies_need_not_know() -> None:
    for strategy, parameters in (("htm", TSX), ("lock", {})):
        for kind in KINDS:
            with session_of(np.ones(5, np.float32), kind, strategy, parameters=parameters) as (graph, session):
                note = ops.note_read(
                    graph.variable, strategy=resolve(strategy, parameters), tracker=graph.tracker, index=0
                )
                session.run(note)
                assert session.run(graph.variable).tolist() == [1] * 5
                assert graph.tracker.stats(session).counters[0]["updates"] == 0


def trials(threads: int, **factors: Any) -> Iterator[Measurement]:
    """This number of trials of the same spec, one after another."""
    chosen = {
        "model": "mnist_softmax", "dataset": "mnist", "strategy": "htm", "threads": threads, "batch": 20,
        "iterations": 300, "learning_rate": 0.5, "matrix": 100, "test_images": 500, **TSX, **factors,
    }  # fmt: skip
    spec = TrialSpec.model_validate(chosen)
    variant = Variant(spec, resolve(spec.strategy, spec.parameters()), threads, 5)
    trial = TrialData.make(datasets.load("mnist"), spec.matrix, 5)
    try:
        while True:
            yield variant.run(spec, 5, trial)
    finally:
        variant.close()


def train(threads: int, **factors: Any) -> Measurement:
    return next(trials(threads, **factors))


def test_training_commits_and_aborts() -> None:
    families = Counter[str]()
    for measured in itertools.islice(trials(min(4, len(os.sched_getaffinity(0))), batch=1, iterations=1000), 20):
        commits, fallbacks = (sum(row[name] for row in measured.counters) for name in ("commits", "fallbacks"))
        assert commits + fallbacks == sum(row["updates"] for row in measured.counters) == 2 * 1000
        assert commits > 1000
        for abort in measured.aborts:
            families[abort["family"]] += abort["n"]
        if families["conflict"]:
            break
    assert families["conflict"] > 0
    assert families["capacity"] == 0  # 63 lines of each: they fit


def test_training_with_all_pixels_overflows() -> None:
    measured = train(1, matrix=784, iterations=50)
    weights = [row for row in measured.counters if row["variable"] == "W"]
    assert [(row["commits"], row["fallbacks"]) for row in weights] == [(0, 50)]
    # Those of b do not count: a thread on the same core that updates W may evict its line.
    of_weights = [abort for abort in measured.aborts if abort["variable"] == "W"]
    assert sum(abort["n"] for abort in of_weights if abort["family"] == "capacity") == 5 * 50


def test_one_worker_trains_as_under_a_lock() -> None:
    plain = {"provider": None, "profile": None}
    assert train(1).final_accuracy == train(1, strategy="lock", **plain).final_accuracy


def test_more_threads_than_processors_are_refused() -> None:
    too_many = len(os.sched_getaffinity(0)) + 1
    with pytest.raises(Unsupported, match=f"^{too_many} threads are more than the {too_many - 1} processors"):
        train(too_many)


def test_it_runs_on_every_machine() -> None:
    for name in profile_names():
        assert why_not(resolve("htm", {"provider": "emulated", "profile": name})) is None
    other = "power" if loader.core().why_not("htm", ["provider=rtm"]) is None else "rtm"
    assert why_not(resolve("htm", {"provider": other})) is not None


def test_a_profile_becomes_its_numbers() -> None:
    machine = load_profile("intel-tsx-study").machine_text()
    arguments = resolve("htm", {**TSX, "budget": 3}).native_arguments
    assert arguments == ("provider=emulated", f"machine={machine}", "budget=3")
    assert resolve("lock", {"kernel": "eigen"}).native_arguments == ("kernel=eigen",)
    with pytest.raises(BadInput, match="unknown profile 'intel-tsx'"):
        resolve("htm", {"provider": "emulated", "profile": "intel-tsx"})


def test_a_way_of_spending_brings_its_budget_unless_another_is_given() -> None:
    assert resolve("htm", {"spending": "study_power"}).native_arguments == ("budget=100", "spending=study_power")
    assert resolve("htm", {"spending": "tuned", "budget": 3}).native_arguments == ("budget=3", "spending=tuned")
    with session_of(np.zeros(7840, np.float32), "ref", "htm", parameters={**TSX, "spending": "tuned"}) as (graph, _):
        (given,) = (node.attr["parameters"] for node in graph.apply.graph.as_graph_def().node if "Apply" in node.op)
    assert b"budget=10" in given.list.s


@pytest.mark.parametrize(
    "parameters",
    [{"provider": "emulated"}, {"profile": "intel-tsx-study"}, {"provider": "rtm", "profile": "intel-tsx-study"}],
)
def test_a_profile_goes_with_the_emulated_provider(parameters: dict[str, str]) -> None:
    with pytest.raises(BadInput, match="profile belongs to provider emulated, and provider emulated needs one"):
        resolve("htm", parameters)


def test_a_profile_of_a_strategy_that_has_none_is_named_as_it_was_given() -> None:
    with pytest.raises(ValueError, match="strategy 'lock' has no parameter 'profile'"):
        why_not(resolve("lock", {"profile": "intel-tsx-study"}))
