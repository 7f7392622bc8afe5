"""Measure what training a Keras model costs: `python -m tests.speed.keras_speed REPORT.md`.

Each case has a process of its own, which trains it in every way in each of several rounds, in shuffled order, as an
advice does. The times are in a CSV file beside the report. Not a test, because it needs a quiet machine for some
minutes.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from tests.support import command_line
from tmflow.advice import measurement
from tmflow.advice.candidates import Way
from tmflow.advice.measurement import MIN_CALLS
from tmflow.advice.rehearsal import Rehearsal
from tmflow.analysis.stats import ratio_interval
from tmflow.base.clock import utc_now
from tmflow.base.files import write_text
from tmflow.base.text import interval
from tmflow.benchmark.text import state
from tmflow.native.automatic import AUTO
from tmflow.native.registry import tensorflow_version
from tmflow.parallel.threads import work_together
from tmflow.platform.facts import display_name, platform_facts
from tmflow.platform.software import installed_version
from tmflow.runfile.record import MachineState
from tmflow.runner import machine_load
from tmflow.spec.factors import Measures

SECONDS = 90.0  # of a case
PER_CALL = 16  # steps of one call of TensorFlow, in every way but the plain one
WORKERS = 2


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
    import keras

    from tmflow import datasets

    mnist = datasets.load("mnist")
    layers = [keras.Input((784,)), keras.layers.Dense(512, activation="relu"), keras.layers.Dense(10)]
    return keras.Sequential(layers), mnist.train_images[:20_000], mnist.train_labels[:20_000].argmax(axis=1)


def recommender(rows: int) -> tuple[Any, Any, Any]:
    import keras
    import numpy as np

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
        import keras
        import tensorflow as tf

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
        import keras

        self.restore()
        ends: list[float] = []
        hear = keras.callbacks.LambdaCallback(on_train_batch_end=lambda *_, **__: ends.append(time.monotonic()))
        self.model.fit(
            self.data.repeat(), steps_per_epoch=calls + 1, epochs=1, verbose=0, shuffle=False, callbacks=[hear]
        )
        return ends[-1] - ends[0]

    def make_locked(self) -> Callable[[], None]:
        """A step whose gradients others compute meanwhile, and that Keras's optimizer applies under one lock."""
        import keras
        import tensorflow as tf

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


def ways(per_call: int) -> dict[str, Way]:
    """The ways that are measured, by the names of the report."""
    return {
        "`model.fit`": Way(FIT),
        f"Keras, {per_call} a call": Way(None, per_call=per_call),
        "auto, 1 worker": Way(AUTO, 1, per_call),
        f"auto, {WORKERS} workers": Way(AUTO, WORKERS, per_call),
        f"auto, {WORKERS} workers, reads of values": Way(VALUES, WORKERS, per_call),
        f"lock, {WORKERS} workers": Way("lock", WORKERS, per_call),
        f"striped, {WORKERS} workers": Way("striped", WORKERS, per_call),
        f"nolock, {WORKERS} workers": Way("nolock", WORKERS, per_call),
        f"Keras, {WORKERS} threads under a lock": Way(LOCKED, WORKERS),
    }


def times(number: int, seconds: float) -> list[dict[str, Any]]:
    """Measure the case of this number in all ways, in interleaved rounds of a process of its own."""
    case = CASES[number]
    subject = Trainings(case)
    named = ways(PER_CALL)
    measured = measurement.measure(subject, list(named.values()), seconds, print)
    if measured.left_out:
        raise SystemExit(f"{case.name}: {measured.left_out}")
    return [
        {"case": case.name, "round": round_, "way": name, "step_us": us}
        for name, way in named.items()
        for round_, us in enumerate(measured.us[way], start=1)
    ]


RATIOS = (
    ("auto, 1 worker", f"Keras, {PER_CALL} a call"),
    (f"auto, {WORKERS} workers", "auto, 1 worker"),
    (f"auto, {WORKERS} workers", f"auto, {WORKERS} workers, reads of values"),
    (f"auto, {WORKERS} workers", "`model.fit`"),
    (f"auto, {WORKERS} workers", f"Keras, {PER_CALL} a call"),
    (f"auto, {WORKERS} workers", f"Keras, {WORKERS} threads under a lock"),
    (f"auto, {WORKERS} workers", f"lock, {WORKERS} workers"),
    (f"auto, {WORKERS} workers", f"striped, {WORKERS} workers"),
    (f"auto, {WORKERS} workers", f"nolock, {WORKERS} workers"),
)


def tables(measured: pd.DataFrame) -> Iterator[str]:
    """The median times, and the ratios, paired by round, with 95 % t intervals of their geometric means."""
    by_way = {
        name: rows.pivot(index="round", columns="way", values="step_us") for name, rows in measured.groupby("case")
    }
    names = [case.name for case in CASES]
    yield from (f"| us per step | {' | '.join(names)} |", f"| --- |{' ---: |' * len(names)}")
    yield f"| rounds | {' | '.join(str(len(by_way[name])) for name in names)} |"
    for way in ways(PER_CALL):
        yield f"| {way} | {' | '.join(f'{by_way[name][way].median():,.0f}' for name in names)} |"
    yield ""
    yield from (f"| time | {' | '.join(names)} |", f"| --- |{' ---: |' * len(names)}")
    for way, base in RATIOS:
        ratios = [interval(*ratio_interval(by_way[name][way], by_way[name][base])[:3]) for name in names]
        yield f"| {way}, over {base} | {' | '.join(ratios)} |"


def main(report: Path, seconds: float) -> None:
    before = machine_load.sample()
    rows: list[dict[str, Any]] = []
    for number in tqdm(range(len(CASES))):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            rows += pool.submit(times, number, seconds).result()
    meanwhile = MachineState(**machine_load.between(before, machine_load.sample()))
    measured = pd.DataFrame(rows)
    write_text(report.with_suffix(".csv"), measured.round(3).to_csv(index=False))
    software = f"TensorFlow {tensorflow_version()}, Keras {installed_version('keras')}"
    machine = f"{display_name(platform_facts())}, {len(os.sched_getaffinity(0))} CPUs"
    lines = [
        "# What training a Keras model costs",
        "",
        f"{machine}, {software}, {utc_now()}; {state(meanwhile)}.",
        "",
        "Each model in a process of its own, which trains it in every way in each round, for some 0.4 s or four calls, "
        "in shuffled order, from the same values. The time of a step is wall time over the steps of all threads. "
        "Ratios are paired by round, with 95 % t intervals. TensorFlow has its usual pools of threads in all ways. "
        "`model.fit` makes one step in a call of TensorFlow; its time is that from its first step to its last. The "
        f"other ways make {PER_CALL}, but for the threads under a lock, which call twice a step. Keras's Adam makes "
        "the gradient of an embedding dense and changes all rows; ours changes the rows of the batch (lazy Adam). "
        "`python -m tests.speed.keras_speed` measures again.",
        "",
        *tables(measured),
    ]
    write_text(report, "\n".join(lines) + "\n")


if __name__ == "__main__":
    parser = command_line.parser()
    parser.add_argument("report", type=command_line.report, help="docs/speed/keras.md")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each model")
    arguments = parser.parse_args()
    main(arguments.report, arguments.seconds)
