"""Optimisers with arrays beside the variables: one worker trains as TensorFlow's own optimisers do.

TensorFlow gets the gradients that NumPy computes from its weights, and applies them by its own operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.training.conftest import SEED, Run, make_spec, strategy_of
from tmflow.native import availability, registry
from tmflow.native.registry import resolve
from tmflow.runner.round import make_variant
from tmflow.spec.strategies import STRATEGY_PARAMETERS, WITHOUT_OPTIMISER_STATE, parameters_of
from tmflow.spec.trial import TrialSpec
from tmflow.training import native_driver, synthetic
from tmflow.training.data import TrialData, batch_starts
from tmflow.training.models import load_network

if TYPE_CHECKING:
    from tmflow.native._core import NativeTrial

OPTIMISERS = ("momentum", "adagrad", "adam")
OF_ROWS = ("momentum", "adagrad")
# How far weights of 0.1 to 0.5 may be apart after 200 steps. A step of Adam has about the same size for small and for
# large gradients, so that it amplifies the rounding of those that almost cancel.
ROUNDING = {"momentum": 1e-5, "adagrad": 1e-5, "adam": 1e-4}
EMULATED: dict[str, Any] = {
    "strategy": "htm", **parameters_of("htm"), "provider": "emulated", "profile": "intel-tsx-study"
}  # fmt: skip
WITH_ARRAYS = [name for name in STRATEGY_PARAMETERS if name not in (*WITHOUT_OPTIMISER_STATE, "tle")]
Array = NDArray[np.float32]
Apply = Callable[[list[Array]], list[Array]]


def dense_spec(optimiser: str, **factors: Any) -> TrialSpec:
    usual: dict[str, Any] = {"driver": "native", "batch": 10, "iterations": 200, "learning_rate": 0.01}
    strategy = str(factors.get("strategy", "lock"))
    return make_spec(**{**usual, **parameters_of(strategy), "optimiser": optimiser, **factors})


def sparse_spec(optimiser: str, **factors: Any) -> TrialSpec:
    usual: dict[str, Any] = {"features": 300, "nonzeros": 6, "width": 5, "batch": 4, "iterations": 200}
    strategy = str(factors.get("strategy", "lock"))
    given = {**usual, "learning_rate": 0.1, "driver": "native", **parameters_of(strategy), "optimiser": optimiser}
    return make_spec("sparse_logistic", **{**given, **factors})


def gradient_of_scores(scores: NDArray[np.float64], labels: Array) -> NDArray[np.float64]:
    shares = np.exp(scores - scores.max(1, keepdims=True))
    return (shares / shares.sum(1, keepdims=True) - labels) / len(labels)


class TensorFlow:
    """Variables of TensorFlow with one of its optimisers, in a graph: gradients come from outside."""

    def __init__(self, optimiser: str, rate: float, shapes: list[tuple[int, ...]], by_rows: bool = False) -> None:
        tf = pytest.importorskip("tensorflow").compat.v1
        made = {
            "momentum": lambda: tf.train.MomentumOptimizer(rate, 0.9),
            "adagrad": lambda: tf.train.AdagradOptimizer(rate),
            "adam": lambda: tf.train.AdamOptimizer(rate),
        }[optimiser]
        with tf.Graph().as_default():
            self._variables = [
                tf.get_variable(f"v{i}", shape, initializer=tf.zeros_initializer(), use_resource=True)
                for i, shape in enumerate(shapes)
            ]
            self._values = [tf.placeholder(tf.float32) for _ in shapes]
            self._rows = tf.placeholder(tf.int64, [None])
            gradients = [
                tf.IndexedSlices(tf.reshape(values, [-1, shape[-1]]), self._rows) if by_rows
                else tf.reshape(values, shape)
                for values, shape in zip(self._values, shapes, strict=True)
            ]  # fmt: skip
            self._step = made().apply_gradients(zip(gradients, self._variables, strict=True))
            self._session = tf.Session()
            self._session.run(tf.global_variables_initializer())

    def weights(self) -> list[Array]:
        return list(self._session.run(self._variables))

    def apply(self, gradients: list[NDArray[np.float64]], rows: NDArray[np.int64] | None = None) -> None:
        feed = dict(zip(self._values, gradients, strict=True))
        self._session.run(self._step, feed | ({} if rows is None else {self._rows: rows}))


def of_tensorflow(spec: TrialSpec, data: TrialData) -> list[Array]:
    """The weights of softmax regression after all steps."""
    theirs = TensorFlow(spec.optimiser, spec.learning_rate, [(784, 10), (10,)])
    for start in batch_starts(SEED, len(data.train_images), spec.batch, spec.iterations):
        images, labels = data.train_images[start : start + spec.batch], data.train_labels[start : start + spec.batch]
        weights, bias = (values.astype(float) for values in theirs.weights())
        error = gradient_of_scores(images @ weights + bias, labels)
        theirs.apply([images.T @ error, error.sum(0)])
    return theirs.weights()


def of_tensorflow_by_rows(spec: TrialSpec) -> Array:
    """The weights of sparse logistic regression after all steps."""
    assert spec.features is not None
    assert spec.width is not None
    theirs = TensorFlow(spec.optimiser, spec.learning_rate, [(spec.features, spec.width)], by_rows=True)
    data = synthetic.of_spec(spec, SEED)
    for start in batch_starts(SEED, len(data.train_images), spec.batch, spec.iterations):
        rows, labels = data.train_images[start : start + spec.batch], data.train_labels[start : start + spec.batch]
        error = gradient_of_scores(theirs.weights()[0].astype(float)[rows].sum(axis=1), labels)
        touched, place = np.unique(rows, return_inverse=True)
        gradient = np.zeros((len(touched), spec.width))
        np.add.at(gradient, place.reshape(rows.shape), error[:, None, :])
        theirs.apply([gradient], touched)
    return theirs.weights()[0]


def trained(spec: TrialSpec, data: TrialData) -> NativeTrial:
    trial = native_driver.make_trial(spec, strategy_of(spec))
    trial.set_variables(load_network(spec.model).initial_values(spec, SEED))
    starts = batch_starts(SEED, len(data.train_images), spec.batch, spec.iterations)
    trial.run(data.native_set, starts, spec.batch, spec.learning_rate)
    return trial


def native_weights(spec: TrialSpec, data: TrialData) -> list[Array]:
    return trained(spec, data).variables()


@pytest.mark.parametrize("layout", ["separate", "joined"])
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_one_worker_ends_at_the_weights_of_tensorflow(trial_data: TrialData, optimiser: str, layout: str) -> None:
    """In batches of 7, no gradient of a bias is 0 but for rounding, as 1/10 - 1/10 is: Adam makes that a full step."""
    spec = dense_spec(optimiser, layout=layout, batch=7)
    expected = of_tensorflow(spec, trial_data)
    assert max(np.abs(values).max() for values in expected) > 0.1
    for found, theirs in zip(native_weights(spec, trial_data), expected, strict=True):
        np.testing.assert_allclose(found, theirs.ravel(), atol=ROUNDING[optimiser])


@pytest.mark.parametrize("optimiser", OF_ROWS)
def test_one_worker_updates_rows_as_tensorflow_does(optimiser: str) -> None:
    spec = sparse_spec(optimiser)
    (found,) = native_weights(spec, synthetic.of_spec(spec, SEED))
    expected = of_tensorflow_by_rows(spec)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(found, expected.ravel(), atol=ROUNDING[optimiser])


def strategies() -> Iterator[Any]:
    for name in WITH_ARRAYS:
        yield pytest.param({"strategy": name}, id=name)
    for subscription in ("variable", "slots"):
        yield pytest.param(EMULATED | {"subscription": subscription}, id=f"emulated-{subscription}")


@pytest.mark.parametrize("factors", [*strategies()])
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_every_strategy_trains_to_the_same_bits(trial_data: TrialData, optimiser: str, factors: dict[str, Any]) -> None:
    spec = dense_spec(optimiser, iterations=30, **factors)
    if reason := availability.unsupported_reason(spec, strategy_of(spec)):
        pytest.skip(reason)
    expected = native_weights(dense_spec(optimiser, iterations=30), trial_data)
    for found, values in zip(native_weights(spec, trial_data), expected, strict=True):
        np.testing.assert_array_equal(found, values)


def refusal(spec: TrialSpec) -> str | None:
    """What the library says against a trial; None if it accepts it."""
    try:
        native_driver.make_trial(spec, strategy_of(spec))
    except ValueError as error:
        return str(error)
    return None


def test_the_strategies_without_arrays_are_those_that_the_library_refuses() -> None:
    refused = {}
    available = {name for name in registry.source_names() if resolve(name).entry.why_not is None} - {"tle"}
    for name in available:
        reading = "consistent" if resolve(name).entry.keeps_elsewhere else "plain"
        spec = dense_spec("sgd", strategy=name, reading=reading).model_copy(update={"optimiser": "momentum"})
        if (reason := refusal(spec)) is not None:
            refused[name] = reason
    assert all(f"optimiser momentum does not go with strategy '{name}'" in says for name, says in refused.items())
    assert set(refused) == available & set(WITHOUT_OPTIMISER_STATE)


@pytest.mark.parametrize("strategy", ["lock", "striped", "block_stm"])
@pytest.mark.parametrize("optimiser", ["sgd", *OPTIMISERS])
def test_weights_and_arrays_stay_together_under_a_lock(run: Run, optimiser: str, strategy: str) -> None:
    done = run(dense_spec(optimiser, strategy=strategy, threads=4, batch=1, iterations=2000, measures="full"))
    sizes = [None, None] if optimiser == "sgd" else [7840, 10]
    assert [row.elements for row in done.lost] == sizes
    assert [row.inconsistent for row in done.lost] == [None if size is None else 0 for size in sizes]
    assert [row.lost for row in done.lost] == [0, 0]
    assert done.final_accuracy > 0.5


def test_rows_and_their_arrays_stay_together_under_a_lock() -> None:
    for strategy in ({"strategy": "lock"}, {"strategy": "striped", "block": 5}):
        spec = sparse_spec("adagrad", **strategy, threads=4, measures="full", iterations=2000)
        (row,) = trained(spec, synthetic.of_spec(spec, SEED)).lost()
        assert (row["elements"], row["inconsistent"], row["lost"]) == (1500, 0, 0)


SESSION: dict[str, Any] = {"batch": 10, "iterations": 200, "learning_rate": 0.01}


@pytest.mark.parametrize("variables", ["ref", "resource"])
@pytest.mark.parametrize("strategy", ["lock", "tf_lock"])
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_a_session_learns_what_the_native_driver_learns(
    run: Run, optimiser: str, strategy: str, variables: str
) -> None:
    given = SESSION | {"optimiser": optimiser}
    natively = run(dense_spec(optimiser))
    done = run(make_spec(strategy=strategy, variables=variables, **given))
    assert natively.final_accuracy > 0.7
    assert done.final_accuracy == pytest.approx(natively.final_accuracy, abs=0.002)


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_workers_of_a_session_keep_weights_and_arrays_together_under_a_lock(run: Run, optimiser: str) -> None:
    spec = make_spec(strategy="striped", **parameters_of("striped"), threads=4, measures="full", **SESSION)
    done = run(spec.model_copy(update={"optimiser": optimiser}))
    assert [(row.elements, row.inconsistent, row.lost) for row in done.lost] == [(7840, 0, 0), (10, 0, 0)]
    assert done.final_accuracy > 0.7


def test_a_session_starts_every_trial_with_fresh_arrays(trial_data: TrialData) -> None:
    spec = make_spec(**SESSION, optimiser="adam")
    variant = make_variant(spec, strategy_of(spec), 1, SEED)
    try:
        first, second = (variant.run(spec, SEED, trial_data) for _ in range(2))
    finally:
        variant.close()
    assert first.final_accuracy == second.final_accuracy


def test_the_executors_pass_the_slots_too(run: Run) -> None:
    theirs, ours = (
        run(make_spec(**SESSION, optimiser="momentum", executor=executor)) for executor in ("tensorflow", "std_pool")
    )
    assert ours.final_accuracy == theirs.final_accuracy > 0.7


def test_emulated_transactions_of_a_session_change_the_arrays(run: Run) -> None:
    given = {**SESSION, **EMULATED, "spending": "tuned", "optimiser": "momentum", "measures": "full", "threads": 2}
    done = run(make_spec(**given))
    assert sum(row.commits for row in done.counters) > 0
    assert [row.inconsistent for row in done.lost] == [0, 0]
