"""The native driver on real MNIST: equal to NumPy and to the session driver, and consistent counts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.training.conftest import SEED, Run, strategy_of
from tests.training.conftest import make_spec as short_spec
from tmflow import datasets
from tmflow.base.errors import Unsupported
from tmflow.native import availability, loader, registry
from tmflow.platform import profiles
from tmflow.platform.software import tensorflow_version
from tmflow.runner.round import make_variant
from tmflow.spec.strategies import parameters_of
from tmflow.spec.trial import TrialSpec
from tmflow.training import native_driver as native_trial
from tmflow.training import session
from tmflow.training.data import TrialData, batch_starts
from tmflow.training.models import load_network

SOFTMAX: dict[str, Any] = {"model": "mnist_softmax"}
RELU: dict[str, Any] = {"model": "mnist_mlp", "hidden": 128, "activation": "relu"}
SIGMOID: dict[str, Any] = RELU | {"activation": "sigmoid"}
EMULATED: dict[str, Any] = {
    "strategy": "htm", **parameters_of("htm"), "provider": "emulated", "profile": "intel-tsx-study"
}  # fmt: skip
STRATEGIES = registry.source_names()
USUAL = {"driver": "native", "batch": 10, "iterations": 100, "learning_rate": 0.05, "test_images": 10_000}


def make_spec(**factors: Any) -> TrialSpec:
    return short_spec(**USUAL | factors)


class Reference:
    """Both models in double precision, one step after another."""

    def __init__(self, spec: TrialSpec) -> None:
        self.spec = spec
        first = load_network(spec.model).initial_values(spec, SEED)
        self.values = [value.astype(float) for value in first]

    def scores(self, images: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The input of the last layer, and its output."""
        if self.spec.model == "mnist_mlp":
            images = images @ self.values[0] + self.values[1]
            images = images * (images > 0) if self.spec.activation == "relu" else (1 + np.tanh(images / 2)) / 2
        return images, images @ self.values[-2] + self.values[-1]

    def step(self, images: NDArray[np.float64], labels: NDArray[np.float64]) -> float:
        last, scores = self.scores(images)
        logs = scores - scores.max(1, keepdims=True)
        logs -= np.log(np.exp(logs).sum(1, keepdims=True))
        loss = -(labels * logs).sum() / len(images)
        error = (np.exp(logs) - labels) / len(images)
        gradients = [last.T @ error, error.sum(0)]
        if self.spec.model == "mnist_mlp":
            error = error @ self.values[2].T
            error *= (last > 0) if self.spec.activation == "relu" else last - last**2
            gradients = [images.T @ error, error.sum(0), *gradients]
        self.values = [v - self.spec.learning_rate * g for v, g in zip(self.values, gradients, strict=True)]
        return float(loss)

    def losses(self, trial: TrialData) -> Iterator[float]:
        spec = self.spec
        for start in batch_starts(SEED, len(trial.train_images), spec.batch, spec.iterations):
            chunk = slice(start, start + spec.batch)
            yield self.step(trial.train_images[chunk].astype(float), trial.train_labels[chunk].astype(float))


WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "consistent": {"reading": "consistent"},
    "joined": {"layout": "joined"},
    "fused": {"kernel": "fused", "optimisation": "O3"},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("batch", [1, 10, 100])
@pytest.mark.parametrize("model", [SOFTMAX, RELU, SIGMOID], ids=["softmax", "relu", "sigmoid"])
def test_every_loss_is_that_of_numpy(trial_data: TrialData, model: dict[str, Any], batch: int, way: str) -> None:
    spec = make_spec(**model, batch=batch, **WAYS[way])
    expected = list(Reference(spec).losses(trial_data))
    assert len(expected) == 100
    trial = native_trial.make_trial(spec, strategy_of(spec))
    trial.set_variables(load_network(spec.model).initial_values(spec, SEED))
    starts = batch_starts(SEED, len(trial_data.train_images), batch, 100)
    losses = np.empty(100)
    trial.run(trial_data.native_set, starts, batch, spec.learning_rate, losses)
    np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("matrix", "hidden"), [(1, 1), (100, 7), (783, 9), (784, 131)])
def test_widths_that_fill_no_vector(trial_data: TrialData, mnist: datasets.Dataset, matrix: int, hidden: int) -> None:
    spec = make_spec(**RELU | {"hidden": hidden}, matrix=matrix, batch=7)
    trial_data = TrialData.make(mnist, matrix, SEED)
    expected = list(Reference(spec).losses(trial_data))
    trial = native_trial.make_trial(spec, strategy_of(spec))
    trial.set_variables(load_network(spec.model).initial_values(spec, SEED))
    starts = batch_starts(SEED, len(trial_data.train_images), 7, 100)
    losses = np.empty(100)
    trial.run(trial_data.native_set, starts, 7, spec.learning_rate, losses)
    np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("model", [SOFTMAX, RELU, SIGMOID], ids=["softmax", "relu", "sigmoid"])
def test_one_worker_ends_where_a_session_does(run: Run, model: dict[str, Any]) -> None:
    """Also with several layers: none is updated before the backward pass is complete."""
    if tensorflow_version() is None:
        pytest.skip("TensorFlow is not installed")
    factors = {**model, "iterations": 300, "curve_points": 3}
    mine = run(make_spec(**factors))
    theirs = run(make_spec(**factors, driver="session"))
    assert [point.iteration for point in mine.curve] == [point.iteration for point in theirs.curve]
    for own, other in zip(mine.curve, theirs.curve, strict=True):
        assert own.accuracy == pytest.approx(other.accuracy, abs=0.0003)  # up to three borderline images
    assert mine.final_accuracy > 0.7
    assert mine.counters == theirs.counters
    assert mine.staleness == theirs.staleness


@pytest.mark.parametrize("layout", ["separate", "joined"])
@pytest.mark.parametrize(
    ("strategy", "reading"),
    [
        ("tf_lock", "plain"),
        ("lock", "plain"),
        ("lock", "consistent"),
        ("stm", "consistent"),
        ("leashed", "consistent"),
        ("local_steps", "consistent"),
    ],
)
@pytest.mark.parametrize("model", [SOFTMAX, RELU, SIGMOID], ids=["softmax", "relu", "sigmoid"])
def test_a_session_computes_what_numpy_does(
    trial_data: TrialData, model: dict[str, Any], strategy: str, reading: str, layout: str
) -> None:
    if tensorflow_version() is None:
        pytest.skip("TensorFlow is not installed")
    spec = make_spec(**model, strategy=strategy, driver="session", reading=reading, layout=layout)
    reference = Reference(spec)
    losses = list(reference.losses(trial_data))
    assert len(losses) == 100
    variant = session.Variant(spec, strategy_of(spec), 1, SEED)
    try:
        variant.run(spec, SEED, trial_data)
        found = np.concatenate([value.ravel() for value in values_in(variant)])
    finally:
        variant.close()
    expected = np.concatenate([value.ravel() for value in reference.values])
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def values_in(variant: session.Variant) -> list[NDArray[np.float32]]:
    """The variables of a session after its last trial."""
    values: list[NDArray[np.float32]] = variant._session.run(variant._session.graph.get_collection("variables"))
    return values


def test_a_curve_changes_nothing_with_one_worker(run: Run) -> None:
    with_curve, without = (run(make_spec(curve_points=points)) for points in (5, 0))
    assert with_curve.final_accuracy == without.final_accuracy
    assert [point.iteration for point in with_curve.curve] == [20, 40, 60, 80, 100]
    times = [point.elapsed_s for point in with_curve.curve]
    assert times == sorted(times)
    assert times[-1] == with_curve.loop_s


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("layout", "names"), [("separate", ["W", "b"]), ("joined", ["joined"])])
def test_counts_add_up(run: Run, threads: int, layout: str, names: list[str]) -> None:
    measured = run(make_spec(threads=threads, layout=layout, measures="full", pinning="cores"))
    expected = {worker: len(range(worker, 100, threads)) for worker in range(threads)}
    steps = Counter[int]()
    for row in measured.staleness:
        steps[row.worker] += row.steps
    assert steps == expected
    if threads == 1:
        assert {row.staleness for row in measured.staleness} == {0}
    counted = {(row.worker, row.variable): row.updates for row in measured.counters}
    assert counted == {(worker, name): n for worker, n in expected.items() for name in names}
    assert all(row.lock_held_s for row in measured.counters)
    assert measured.aborts == []


@pytest.mark.parametrize("strategy", ["lock", "block_stm", "stm", "leashed", "local_steps"])
def test_full_measures(run: Run, strategy: str) -> None:
    """Tensor consistency loses and tears nothing; a strategy that works outside the memory reports no torn reads."""
    spec = make_spec(strategy=strategy, threads=3, iterations=600, reading="consistent", measures="full", batch=1)
    measured = run(spec)
    assert [(row.variable, row.expected, row.lost) for row in measured.lost] == [("W", 600 * 7840, 0), ("b", 6000, 0)]
    read_counts = {(row.worker, row.variable): (row.reads, row.torn) for row in measured.reads}
    steps = {(worker, name): (200, 0) for worker in range(3) for name in ("W", "b")}
    assert read_counts == ({} if strategy in ("leashed", "local_steps", "stm") else steps)
    assert {row.lock_held_s is None for row in measured.counters} == {strategy == "stm"}


def test_watched_plain_reads_are_counted_and_train_alike(run: Run) -> None:
    watched, usual = (run(make_spec(measures=measures)) for measures in ("full", "usual"))
    assert watched.final_accuracy == usual.final_accuracy
    assert {(row.variable, row.reads, row.torn) for row in watched.reads} == {("W", 100, 0), ("b", 100, 0)}
    assert (usual.reads, usual.lost) == ([], [])


def test_emulated_transactions_are_counted(run: Run) -> None:
    measured = run(make_spec(**EMULATED))
    for row in measured.counters:
        assert row.attempts is not None
        assert row.commits is not None
        assert row.fallbacks is not None
        assert row.commits + row.fallbacks == row.updates == 100
        aborts = [abort.n for abort in measured.aborts if abort.variable == row.variable]
        assert row.attempts - row.commits == sum(aborts)
    assert {abort.mechanism for abort in measured.aborts} == {"rtm"}  # W and its gradient do not fit
    with pytest.raises(Unsupported, match="1000 threads are more than the"):
        run(make_spec(**EMULATED, threads=1000, iterations=1000))


@pytest.mark.parametrize("driver", ["native", "session"])
def test_a_variant_looks_up_neither_its_strategy_nor_its_profile(
    driver: str, trial_data: TrialData, monkeypatch: pytest.MonkeyPatch
) -> None:
    if driver == "session" and tensorflow_version() is None:
        pytest.skip("TensorFlow is not installed")
    spec = make_spec(**EMULATED, driver=driver)
    strategy = strategy_of(spec)

    def look_up(name: str) -> None:
        raise AssertionError(f"{name} is looked up again")

    monkeypatch.setattr(registry, "require", look_up)
    monkeypatch.setattr(profiles, "load_profile", look_up)
    variant = make_variant(spec, strategy, 1, SEED)
    try:
        assert {row["mechanism"] for row in variant.run(spec, SEED, trial_data).aborts} == {"rtm"}
    finally:
        variant.close()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("model", [SOFTMAX, RELU], ids=["softmax", "mlp"])
def test_four_workers_learn_under_every_strategy(run: Run, strategy: str, model: dict[str, Any]) -> None:
    reading = "consistent" if registry.require(strategy).keeps_elsewhere else "plain"
    spec = make_spec(**model, strategy=strategy, threads=4, iterations=4000, reading=reading)
    if reason := availability.unsupported_reason(spec, strategy_of(spec)):
        pytest.skip(reason)
    measured = run(spec)
    assert measured.final_accuracy > 0.88
    assert sum(row.steps for row in measured.staleness) == 4000
    assert sum(row.updates for row in measured.counters) == 4000 * (2 if model is SOFTMAX else 4)


@pytest.mark.parametrize(
    ("factors", "reason"),
    [
        ({"strategy": "tf_lock"}, "strategy tf_lock is TensorFlow's own update"),
        ({"strategy": "nolock", "reading": "consistent"}, "strategy nolock has no consistent read"),
        ({"kernel": "fused", "optimisation": "O3", "layout": "joined"}, "kernel fused updates each dense layer"),
        (EMULATED | {"kernel": "fused"}, "kernel fused does not go with provider emulated"),
        ({"strategy": "leashed"}, "strategy leashed keeps the variables elsewhere"),
        ({"strategy": "local_steps"}, "strategy local_steps keeps the variables elsewhere"),
    ],
)
def test_what_it_cannot_run(factors: dict[str, Any], reason: str) -> None:
    spec = make_spec(**factors)
    assert str(availability.unsupported_reason(spec, strategy_of(spec))).startswith(reason)


IMAGES, LABELS = np.zeros((20, 784), np.float32), np.zeros((20, 10), np.float32)
STARTS = np.array([0, 10], np.int64)
TRIALS: list[tuple[dict[str, Any], str]] = [
    ({"model": "mnist_deep"}, "the native driver has no model 'mnist_deep'; valid: matrix_factorisation, mnist_mlp"),
    ({"hidden": 5}, "model 'mnist_softmax' has no hidden layer"),
    ({"model": "mnist_mlp", "hidden": 5}, "model 'mnist_mlp' needs hidden"),
    ({"model": "mnist_mlp", "hidden": 5, "activation": "tanh"}, "unknown activation 'tanh'; valid: sigmoid, relu"),
    ({"matrix": 0}, "needs a matrix of at least 1 pixel"),
    ({"numbers": {"width": 5}}, "model 'mnist_softmax' takes images, so it has no numbers of rows"),
    ({"numbers": {"width": -5}}, "width must not be negative"),
    ({"model": "sparse_logistic", "numbers": {"features": 5}}, "'sparse_logistic' needs the numbers features, width"),
    ({"model": "skipgram", "numbers": {"words": 5, "negatives": 2, "width": 0}}, "each at least 1, and no others"),
    (
        {"model": "sparse_logistic", "hidden": 5, "numbers": {"features": 5, "width": 2}},
        "model 'sparse_logistic' has no hidden layer",
    ),
    ({"strategy": "none"}, "unknown strategy 'none'; valid: "),
    ({"parameters": ["budget=1"]}, "strategy 'lock' has no parameter 'budget'"),
    ({"workers": 0}, "workers must be at least 1, not 0"),
    ({"layout": "mixed"}, "layout is 'mixed'; allowed: separate, joined"),
    ({"strategy": "leashed"}, "strategy 'leashed' does not keep the variables in the memory"),
    ({"strategy": "nolock", "reading": "consistent"}, "strategy 'nolock' has no consistent read"),
    ({"parameters": ["kernel=fused"], "layout": "joined"}, "kernel fused needs a separate region for each variable"),
]


@pytest.mark.parametrize(("wrong", "sentence"), TRIALS)
def test_bad_trials_are_refused(wrong: dict[str, Any], sentence: str) -> None:
    good: dict[str, Any] = {
        "model": "mnist_softmax", "matrix": 784, "hidden": None, "activation": None, "strategy": "lock",
        "parameters": [], "workers": 1,
    }  # fmt: skip
    with pytest.raises(ValueError, match=sentence):
        loader.core().NativeTrial(**good | wrong)


NOT_MATRICES: list[tuple[dict[str, Any], str]] = [
    ({"images": IMAGES.astype(float)}, "images must be a C-contiguous NumPy array of float32 with two dimensions"),
    ({"images": IMAGES.ravel()}, "images must be a C-contiguous NumPy array of float32 with two dimensions"),
    ({"labels": LABELS[:, ::2]}, "labels must be a C-contiguous NumPy array of float32 with two dimensions"),
    ({"labels": LABELS[:19]}, r"images must be \[n, pixels\] and labels \[n, classes\] with the same n, at least 1"),
    ({"images": IMAGES[:0], "labels": LABELS[:0]}, "with the same n, at least 1"),
    ({"images": IMAGES[:, :0].copy()}, "with the same n, at least 1"),
]


FEATURES = np.array([[0, 3], [4, 1]] * 10, np.int32)
NOT_FEATURES: list[tuple[dict[str, Any], str]] = [
    ({"features": FEATURES.astype(np.int64)}, "features must be a C-contiguous NumPy array of int32 with two dim"),
    ({"features": FEATURES[:, 0].copy()}, "features must be a C-contiguous NumPy array of int32 with two dimensions"),
    ({"features": FEATURES[:19]}, r"features must be \[n, of each example\] and labels \[n, classes\] with the same n"),
    ({"features": FEATURES[:, :0].copy()}, "with the same n, at least 1"),
    ({"number": 4}, "example 1 has feature 4, but features are numbered from 0 to 3"),
    ({"number": -1}, "number must not be negative"),
    ({"features": -FEATURES}, "example 0 has feature -3, but features are numbered from 0 to 4"),
    ({"features": FEATURES // FEATURES.max()}, "example 0 has feature 0 twice"),
]


@pytest.mark.parametrize(("wrong", "sentence"), NOT_FEATURES)
def test_bad_examples_of_features_are_refused(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        loader.core().TrainingSet(**{"features": FEATURES, "labels": LABELS, "number": 5} | wrong)


@pytest.mark.parametrize(("wrong", "sentence"), NOT_MATRICES)
def test_bad_training_sets_are_refused(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        loader.core().TrainingSet(**{"images": IMAGES, "labels": LABELS} | wrong)


SET = {"images": IMAGES, "labels": LABELS}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"data": SET | {"images": IMAGES[:, :100].copy()}}, r"images and labels must be \[n, 784\] and \[n, 10\]"),
    ({"data": SET | {"labels": LABELS[:, :9].copy()}}, r"images and labels must be \[n, 784\] and \[n, 10\]"),
    ({"starts": np.array([11])}, "a batch begins at image 11, but should begin at 0 to 10"),
    ({"starts": np.array([0, -1])}, "a batch begins at image -1, but should begin at 0 to 10"),
    ({"batch": 0}, "batch is 0, but should be from 1 to 20"),
    ({"batch": 21}, "batch is 21, but should be from 1 to 20"),
    ({"learning_rate": 1e39}, "alpha must be a finite number in float32, not 1e"),
    ({"losses": np.empty(1)}, "losses must have one element per step"),
]


@pytest.mark.parametrize(("wrong", "sentence"), BAD)
def test_bad_steps_are_refused_and_nothing_is_done(wrong: dict[str, Any], sentence: str) -> None:
    trial = native_trial.make_trial(make_spec(), strategy_of(make_spec()))
    before = trial.variables()
    given: dict[str, Any] = {"data": SET, "starts": STARTS, "batch": 10, "learning_rate": 1.0, "losses": None} | wrong
    with pytest.raises(ValueError, match=sentence):
        trial.run(**given | {"data": loader.core().TrainingSet(**given["data"])})
    with pytest.raises(ValueError, match="W of 7840, b of 10 elements"):
        trial.set_variables([np.ones(7840, np.float32)])
    for value, old in zip(trial.variables(), before, strict=True):
        np.testing.assert_array_equal(value, old)
    assert {row["updates"] for row in trial.counters()} == {0}


ALONE = """
import json, sys
class Without:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, *rest):
        return None if name.split(".")[0] == "tensorflow" else self.finder.find_spec(name, *rest)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
from tests.training.conftest import SEED, Run
from tests.training.conftest import make_spec as short_spec
from tmflow import datasets
from tmflow.runner import round
from tmflow.spec.trial import TrialSpec
from tmflow.native.availability import unsupported_reason
from tmflow.native.registry import resolve
from tmflow.runner.round import make_variant
from tmflow.training.data import TrialData
spec = TrialSpec.model_validate(json.loads(sys.argv[1]))
strategy = resolve(spec.strategy, spec.parameters())
assert not unsupported_reason(spec, strategy)
measured = make_variant(spec, strategy, 1, 0).run(spec, 0, TrialData.make(datasets.load("digits"), 784, 0))
assert measured.loop_s > 0 and "tensorflow" not in sys.modules
print("trained")
"""


def test_it_runs_where_tensorflow_is_absent() -> None:
    spec = make_spec(dataset="digits", batch=5).model_dump_json()
    done = subprocess.run(
        [sys.executable, "-c", ALONE, spec], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert (done.stdout, done.returncode) == ("trained\n", 0), done.stderr


def test_no_step_waits_for_denormal_numbers(trial_data: TrialData) -> None:
    """At this rate the softmax is soon certain of an image, and gradients fall below the smallest normal number."""
    sure = make_spec(batch=1, iterations=3000, learning_rate=0.5)
    smallest = np.finfo(np.float32).tiny
    trial = loader.core().NativeTrial("mnist_softmax", 784, None, None, "lock", [], 1)
    trial.set_variables(load_network(sure.model).initial_values(sure, SEED))
    starts = batch_starts(SEED, len(trial_data.train_images), 1, sure.iterations)
    trial.run(trial_data.native_set, starts, 1, sure.learning_rate)
    for values in trial.variables():
        assert not ((values != 0) & (np.abs(values) < smallest)).any()


def test_who_waits_for_a_run_stops_no_other_thread(trial_data: TrialData) -> None:
    """A query of a running trial must not keep the interpreter lock, and so all other threads, until the trial ends."""
    spec = make_spec()
    trial = native_trial.make_trial(spec, strategy_of(spec))
    trial.set_variables([value.ravel() for value in load_network(spec.model).initial_values(spec, SEED)])
    one_image = loader.core().TrainingSet(trial_data.train_images[:1], trial_data.train_labels[:1])
    turns = 0  # of this thread while a query waits; if that kept the lock, there would be hardly one
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(trial.run, one_image, np.zeros(1_500_000, np.int64), 1, 0.1)
        asked = pool.submit(trial.counters)
        while not running.done():
            if asked.done():  # before the trial began
                asked = pool.submit(trial.counters)
            time.sleep(0.001)  # without the lock: the query takes it
            turns += asked.running()
        assert asked.result()
    assert turns > 20
