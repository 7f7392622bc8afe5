"""Keras models that train in every way of an advice, and in three more."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tmflow import datasets
from tmflow.advice import measurement
from tmflow.advice.candidates import Way
from tmflow.advice.measurement import MIN_CALLS
from tmflow.advice.rehearsal import Rehearsal
from tmflow.native.automatic import AUTO
from tmflow.parallel.threads import work_together
from tmflow.spec.factors import Measures


@dataclass(frozen=True)
class Case:
    """A model and its data.

    optimizer: the name and the arguments of Keras's.
    """

    name: str
    build: Callable[[], tuple[Any, Any, Any]]  # the layers, the examples and the labels
    optimizer: tuple[str, dict[str, Any]]
    loss: str
    batch: int


def mlp() -> tuple[Any, Any, Any]:
    mnist = datasets.load("mnist")
    layers = [keras.Input((784,)), keras.layers.Dense(512, activation="relu"), keras.layers.Dense(10)]
    return keras.Sequential(layers), mnist.train_images[:20_000], mnist.train_labels[:20_000].argmax(axis=1)


def recommender(rows: int) -> tuple[Any, Any, Any]:
    users, items = (keras.Input((), dtype="int32", name=name) for name in ("user", "item"))
    vectors = [keras.layers.Embedding(rows, 16)(one) for one in (users, items)]
    model = keras.Model([users, items], keras.layers.Dot(axes=1)(vectors))
    draw = np.random.default_rng(0)
    pairs = draw.integers(0, rows, (2, 200_000), dtype=np.int32)
    return model, (pairs[0], pairs[1]), draw.integers(0, 2, 200_000).astype(np.float32)


CROSSENTROPY = "sparse_categorical_crossentropy"
CASES = (
    Case("MLP 784-512-10, batch 1", mlp, ("SGD", {"learning_rate": 0.01}), CROSSENTROPY, 1),
    Case("MLP 784-512-10, batch 32", mlp, ("SGD", {"learning_rate": 0.05}), CROSSENTROPY, 32),
    Case("recommender, 2 x 20,000 rows of 16, Adam", lambda: recommender(20_000), ("Adam", {}), "mse", 32),
    Case("recommender, 2 x 1,000,000 rows of 16, Adam", lambda: recommender(1_000_000), ("Adam", {}), "mse", 32),
)


FIT, LOCKED, VALUES = "model.fit", "Keras under a lock", "auto, reads of values"  # ways beyond those of an advice


class Trainings(Rehearsal):
    """A case in all ways: those of an advice, `model.fit` as it is, threads under one lock, and reads of values."""

    def __init__(self, case: Case) -> None:
        keras.utils.set_random_seed(1)
        model, examples, labels = case.build()
        kind, arguments = case.optimizer
        self.loss = keras.losses.get(case.loss)
        if case.loss == CROSSENTROPY:
            self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(getattr(keras.optimizers, kind)(**arguments), loss=self.loss)
        self.data = tf.data.Dataset.from_tensor_slices((examples, labels)).batch(case.batch)
        super().__init__(model, self.data, consistency="block")
        self.locked: Callable[[], None] | None = None

    def prepare(self, way: Way, measures: Measures = "usual") -> None:
        if way.strategy == LOCKED:
            self.locked = self.make_locked()
        elif way.strategy == FIT:
            self.run(way, MIN_CALLS)
        else:
            super().prepare(way, measures)

    def run(self, way: Way, calls: int) -> float:
        if way.strategy == FIT:
            return self.fit(calls)
        if way.strategy != LOCKED:
            return super().run(way, calls)
        self.restore()
        numbers, locked = itertools.count(), self.locked
        assert locked is not None
        locked()

        def call() -> bool:
            if next(numbers) >= calls:
                return False
            locked()
            return True

        began = time.monotonic()
        work_together(way.workers, call)
        return time.monotonic() - began

    def fit(self, calls: int) -> float:
        """`model.fit` between its first call of TensorFlow and its last, so without its beginning and end."""
        self.restore()
        ends: list[float] = []
        hear = keras.callbacks.LambdaCallback(on_train_batch_end=lambda *_, **__: ends.append(time.monotonic()))
        self.model.fit(
            self.data.repeat(), steps_per_epoch=calls + 1, epochs=1, verbose=0, shuffle=False, callbacks=[hear]
        )
        return ends[-1] - ends[0]

    def make_locked(self) -> Callable[[], None]:
        """A step whose gradients others compute meanwhile, and that Keras's optimizer applies under one lock."""
        optimizer = type(self.model.optimizer).from_config(self.model.optimizer.get_config())
        variables, lock, batches = self.model.trainable_variables, threading.Lock(), iter(self.data.repeat())
        optimizer.build(variables)

        @tf.function
        def gradients(examples: Any, labels: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = keras.ops.mean(self.loss(labels, self.model(examples, training=True)))
            return tape.gradient(loss, [variable.value for variable in variables])

        @tf.function
        def apply(values: Any) -> None:
            optimizer.apply(values, variables)

        def step() -> None:
            with lock:
                batch = next(batches)
            values = gradients(*batch)
            with lock:
                apply(values)

        step()
        return step

    def _reading(self, way: Way) -> AbstractContextManager[None]:
        return nullcontext() if way.strategy == VALUES else super()._reading(way)

    def _optimizer(self, way: Way, measures: Measures) -> Any:
        return super()._optimizer(replace(way, strategy=AUTO) if way.strategy == VALUES else way, measures)


def ways(per_call: int, workers: int) -> dict[str, Way]:
    """The ways that are measured, by the names of the report."""
    return {
        "`model.fit`": Way(FIT),
        f"Keras, {per_call} a call": Way(None, per_call=per_call),
        "auto, 1 worker": Way(AUTO, 1, per_call),
        f"auto, {workers} workers": Way(AUTO, workers, per_call),
        f"auto, {workers} workers, reads of values": Way(VALUES, workers, per_call),
        f"lock, {workers} workers": Way("lock", workers, per_call),
        f"striped, {workers} workers": Way("striped", workers, per_call),
        f"nolock, {workers} workers": Way("nolock", workers, per_call),
        f"Keras, {workers} threads under a lock": Way(LOCKED, workers),
    }


def times(
    number: int, seconds: float, per_call: int, workers: int, only: Collection[str] | None = None
) -> list[dict[str, Any]]:
    """Measure the case of this number in all ways, or in these only, in interleaved rounds of its process."""
    case = CASES[number]
    subject = Trainings(case)
    named = {name: way for name, way in ways(per_call, workers).items() if only is None or name in only}
    measured = measurement.measure(subject, list(named.values()), seconds, print)
    if measured.left_out:
        raise SystemExit(f"{case.name}: {measured.left_out}")
    return [
        {"case": case.name, "round": round_, "way": name, "step_us": us}
        for name, way in named.items()
        for round_, us in enumerate(measured.us[way], start=1)
    ]
