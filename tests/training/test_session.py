"""The session driver on real MNIST: equal to a serial reference, and consistent counts."""

from __future__ import annotations

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.training.conftest import SEED, Train, make_spec, strategy_of
from tmflow import datasets
from tmflow.base.errors import BadInput, Unsupported
from tmflow.native import registry
from tmflow.spec.trial import TrialSpec
from tmflow.training import session
from tmflow.training.data import TrialData, batch_starts
from tmflow.training.session import Variant


def reference_accuracy(trial: TrialData, spec: TrialSpec, seed: int) -> float:
    """Serial softmax regression in double precision, over the same batches."""
    weights, bias = np.zeros((spec.matrix, 10)), np.zeros(10)
    for start in batch_starts(seed, len(trial.train_images), spec.batch, spec.iterations):
        chunk = slice(start, start + spec.batch)
        images, labels = trial.train_images[chunk].astype(float), trial.train_labels[chunk]
        scores = images @ weights + bias
        likely = np.exp(scores - scores.max(1, keepdims=True))
        error = (likely / likely.sum(1, keepdims=True) - labels) / spec.batch
        weights -= spec.learning_rate * images.T @ error
        bias -= spec.learning_rate * error.sum(0)
    images, digits = trial.test_images[: spec.test_images], trial.test_digits[: spec.test_images]
    return float(((images @ weights + bias).argmax(1) == digits).mean())


@pytest.mark.parametrize("strategy", ["tf_lock", "tf_nolock", "lock", "nolock"])
@pytest.mark.parametrize("factors", [{}, {"matrix": 100, "step_call": "callable"}], ids=["whole", "truncated"])
def test_one_worker_trains_as_a_serial_program_does(
    train: Train, mnist: datasets.Dataset, strategy: str, factors: dict[str, Any]
) -> None:
    spec = make_spec(strategy=strategy, **factors)
    expected = reference_accuracy(TrialData.make(mnist, spec.matrix, SEED), spec, SEED)
    assert train(strategy=strategy, **factors).final_accuracy == pytest.approx(expected, abs=0.0011)


@pytest.mark.parametrize("strategy", ["tf_lock", "lock", "nolock"])
def test_resource_variables_train_alike(train: Train, strategy: str) -> None:
    assert train(strategy=strategy, variables="resource").final_accuracy == train(strategy=strategy).final_accuracy


def test_stock_unlocked_update_of_resource_variables_is_refused(train: Train) -> None:
    with pytest.raises(BadInput, match="always takes the exclusive lock"):
        train(strategy="tf_nolock", variables="resource")


@pytest.mark.parametrize("strategy", ["tf_lock", "lock", "nolock"])
@pytest.mark.parametrize("threads", [1, 3])
def test_counts_add_up(train: Train, strategy: str, threads: int) -> None:
    measured = train(strategy=strategy, threads=threads, iterations=50)
    steps = Counter[int]()
    for row in measured.staleness:
        steps[row.worker] += row.steps
    expected = {worker: len(range(worker, 50, threads)) for worker in range(threads)}
    assert steps == expected
    assert measured.aborts == []
    if threads == 1:
        assert {row.staleness for row in measured.staleness} == {0}
    if strategy == "tf_lock":
        assert measured.counters == []  # not measured
    else:
        counted = {(row.worker, row.variable): row.updates for row in measured.counters}
        assert counted == {(worker, name): n for worker, n in expected.items() for name in ("W", "b")}


def test_transactions_of_a_trial_add_up(train: Train) -> None:
    if why_not := registry.require("htm").why_not:
        with pytest.raises(Unsupported, match=re.escape(why_not)):
            train(strategy="htm")
        return
    measured = train(strategy="htm", threads=2, budget=3, spending="tuned", chunk=1000)
    for row in measured.counters:
        assert row.attempts is not None
        assert row.commits is not None
        assert row.fallbacks is not None
        assert row.commits + row.fallbacks == row.updates * (8 if row.variable == "W" else 1)
        aborts = [a.n for a in measured.aborts if (a.worker, a.variable) == (row.worker, row.variable)]
        assert row.attempts - row.commits == sum(aborts)
    assert sum(row.updates for row in measured.counters) == 2 * 50


def test_curve_ends_at_the_final_accuracy_and_its_pauses_are_off_the_clock(train: Train) -> None:
    measured = train(curve_points=5)
    assert [point.iteration for point in measured.curve] == [10, 20, 30, 40, 50]
    assert measured.curve[-1].accuracy == measured.final_accuracy
    times = [point.elapsed_s for point in measured.curve]
    assert times == sorted(times)
    assert times[-1] == measured.loop_s
    assert train(curve_points=0).final_accuracy == measured.final_accuracy


def test_trials_in_one_session_do_not_see_each_other(trial_data: TrialData) -> None:
    spec = make_spec(iterations=30)
    variant = Variant(spec, strategy_of(spec), 2, SEED)
    first = variant.run(spec, SEED, trial_data)
    variant.run(make_spec(threads=2, batch=7, iterations=9), SEED + 1, trial_data)
    again = variant.run(spec, SEED, trial_data)
    variant.close()
    assert again.final_accuracy == first.final_accuracy
    assert again.counters == first.counters


def test_deep_learns_at_a_rate_that_suits_it(train: Train) -> None:
    deep = {"model": "mnist_deep", "iterations": 120, "threads": 2}
    assert train(**deep, learning_rate=0.005, test_images=500).final_accuracy > 0.6


def test_batch_larger_than_the_training_set() -> None:
    with pytest.raises(Unsupported, match="batch of 10 does not fit a training set of 9 images"):
        batch_starts(0, 9, 10, 1)


def test_a_machine_without_more_threads_ends_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers that have started wait for the others, which will not come."""

    class Full(ThreadPoolExecutor):
        def submit(self, *arguments: Any, **keywords: Any) -> Any:
            if arguments[-1] == 2:
                raise RuntimeError("can't start new thread")
            return super().submit(*arguments, **keywords)

    monkeypatch.setattr(session, "ThreadPoolExecutor", Full)
    spec: Any = SimpleNamespace(threads=4, batch=1)
    data: Any = SimpleNamespace()  # no step is made
    with pytest.raises(RuntimeError, match="can't start new thread"):
        session._timed_loop(lambda *_: None, np.arange(4), spec, data)
