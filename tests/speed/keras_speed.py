"""Measure what training a Keras model costs: `python -m tests.speed.keras_speed REPORT.md`.

Each round is a fresh process, which trains every case once in each way, in an order shuffled by its number. The times
are in a CSV file beside the report. Not a test, because it needs a quiet machine for some minutes.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from tqdm import tqdm

from tests.support import command_line
from tmflow.analysis.stats import ratio_interval
from tmflow.base.clock import utc_now
from tmflow.base.files import write_text
from tmflow.base.text import interval
from tmflow.benchmark.text import state
from tmflow.native.registry import tensorflow_version
from tmflow.platform.facts import display_name, platform_facts
from tmflow.platform.software import installed_version
from tmflow.runfile.record import MachineState
from tmflow.runner import machine_load

ROUNDS = 6
PER_CALL = 16  # steps of one call of TensorFlow, in every way but the plain one
WORKERS = 2


@dataclass(frozen=True)
class Case:
    """A model, its data and how many steps are timed: fewer of Keras's own Adam, which changes all rows in each.

    optimizer: the name and the arguments of Keras's.
    """

    name: str
    build: Callable[[], tuple[Any, Any, Any]]  # the layers, the examples and the labels
    optimizer: tuple[str, dict[str, Any]]
    loss: str
    batch: int
    steps: int
    dense_steps: int


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
    Case("MLP 784-512-10, batch 1", mlp, ("SGD", {"learning_rate": 0.01}), CROSSENTROPY, 1, 4000, 4000),
    Case("MLP 784-512-10, batch 32", mlp, ("SGD", {"learning_rate": 0.05}), CROSSENTROPY, 32, 2000, 2000),
    Case("recommender, 2 x 20,000 rows of 16, Adam", lambda: recommender(20_000), ("Adam", {}), "mse", 32, 3000, 800),
    Case(
        "recommender, 2 x 1,000,000 rows of 16, Adam", lambda: recommender(1_000_000), ("Adam", {}), "mse", 32, 3000, 32
    ),
)


class Training:
    """One way to train a case in this process; `step_us` is the time of a step, after a warm-up of some calls."""

    def __init__(self, case: Case, *, ours: bool, per_call: int = PER_CALL, strategy: str = "auto") -> None:
        import keras
        import tensorflow as tf

        from tmflow import optimizers

        keras.utils.set_random_seed(1)
        self.case, self.per_call = case, per_call
        self.model, examples, labels = case.build()
        kind, arguments = case.optimizer
        self.optimizer = (
            getattr(optimizers, kind)(**arguments, strategy=strategy)
            if ours
            else getattr(keras.optimizers, kind)(**arguments)
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True) if case.loss == CROSSENTROPY else case.loss
        self.model.compile(self.optimizer, loss=loss, steps_per_execution=per_call)
        self.loss = loss
        self.data = tf.data.Dataset.from_tensor_slices((examples, labels)).repeat().batch(case.batch)

    def take(self, steps: int) -> Any:
        return self.data.take(steps)

    def with_fit(self, steps: int) -> float:
        """`model.fit`, one thread; what a longer `fit` takes more is the steps, as for the workers."""
        return self._longer(steps, lambda data: self.model.fit(data, shuffle=False, verbose=0))

    def with_workers(self, workers: int, steps: int, reads: Literal["shared", "values"] = "shared") -> float:
        """`tmflow.Workers`, which traces its function in each `fit`."""
        from tmflow import Workers

        def fit(data: Any) -> None:
            Workers(workers).fit(self.model, data, verbose=0, steps_per_call=self.per_call, reads=reads)

        return self._longer(steps, fit)

    def _longer(self, steps: int, fit: Callable[[Any], object]) -> float:
        """How much longer a fit takes that makes so many steps more than another; the first builds the functions."""
        times = []
        for n in (2 * self.per_call, 2 * self.per_call, 2 * self.per_call + steps):
            began = time.monotonic()
            fit(self.take(n))
            times.append(time.monotonic() - began)
        return times[2] - times[1]

    def with_one_lock(self, workers: int, steps: int) -> float:
        """Threads that compute gradients at the same time and apply them by Keras's optimizer under one lock."""
        import keras
        import tensorflow as tf

        batches, lock = iter(self.take(steps + 4 * workers)), threading.Lock()
        variables = self.model.trainable_variables
        loss_of = keras.losses.get(self.loss) if isinstance(self.loss, str) else self.loss

        @tf.function
        def gradients(examples: Any, labels: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(loss_of(labels, self.model(examples, training=True)))
            return tape.gradient(loss, [variable.value for variable in variables])

        @tf.function
        def apply(values: Any) -> None:
            self.optimizer.apply(values, variables)

        def work(most: float) -> None:
            done = 0.0
            while done < most:
                with lock:
                    batch = next(batches, None)
                if batch is None:
                    return
                values = gradients(*batch)
                with lock:
                    apply(values)
                done += 1

        work(2 * workers)  # traces
        threads = [threading.Thread(target=work, args=(float("inf"),)) for _ in range(workers)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.monotonic() - began


PLAIN, FIT, OURS, OURS_1, OURS_2 = "fit", "fit, 16 a call", "fit, ours, 16 a call", "Workers(1)", f"Workers({WORKERS})"
VALUES_2, LOCK, LOCK_2, NOLOCK = (
    f"Workers({WORKERS}), reads of values",
    f"{WORKERS} threads, Keras under a lock",
    f"Workers({WORKERS}), lock",
    f"Workers({WORKERS}), nolock",
)
WAYS: dict[str, Callable[[Case, int], float]] = {
    PLAIN: lambda case, steps: Training(case, ours=False, per_call=1).with_fit(steps),
    FIT: lambda case, steps: Training(case, ours=False).with_fit(steps),
    OURS: lambda case, steps: Training(case, ours=True).with_fit(steps),
    OURS_1: lambda case, steps: Training(case, ours=True).with_workers(1, steps),
    OURS_2: lambda case, steps: Training(case, ours=True).with_workers(WORKERS, steps),
    VALUES_2: lambda case, steps: Training(case, ours=True).with_workers(WORKERS, steps, "values"),
    LOCK_2: lambda case, steps: Training(case, ours=True, strategy="lock").with_workers(WORKERS, steps),
    NOLOCK: lambda case, steps: Training(case, ours=True, strategy="nolock").with_workers(WORKERS, steps),
    LOCK: lambda case, steps: Training(case, ours=False).with_one_lock(WORKERS, steps),
}
DENSE = (PLAIN, FIT, LOCK)  # Keras's Adam makes the gradient of an embedding dense, so fewer steps are enough
RATIOS = (
    (OURS, FIT),
    (OURS_2, OURS_1),
    (OURS_2, VALUES_2),
    (OURS_2, PLAIN),
    (OURS_2, FIT),
    (OURS_2, LOCK),
    (OURS_2, LOCK_2),
    (OURS_2, NOLOCK),
)


def times(number: int) -> list[dict[str, Any]]:
    """Train each case once in each way, in the order of the round."""
    places = [(case, way) for case in CASES for way in WAYS]
    rows = []
    for case, way in random.Random(number).sample(places, len(places)):
        steps = case.dense_steps if way in DENSE else case.steps
        rows.append({"round": number, "case": case.name, "way": way, "step_us": 1e6 * WAYS[way](case, steps) / steps})
    return rows


def tables(measured: pd.DataFrame) -> Iterator[str]:
    """The median times, and the ratios, paired by round, with 95 % t intervals."""
    by_way = {
        name: rows.pivot(index="round", columns="way", values="step_us") for name, rows in measured.groupby("case")
    }
    yield from (f"| us per step | {' | '.join(WAYS)} |", f"| --- |{' ---: |' * len(WAYS)}")
    for case in CASES:
        medians = by_way[case.name].median()
        yield f"| {case.name} | {' | '.join(f'{medians[way]:,.0f}' for way in WAYS)} |"
    yield ""
    yield from (f"| time | {' | '.join(case.name for case in CASES)} |", f"| --- |{' ---: |' * len(CASES)}")
    for way, base in RATIOS:
        ratios = [interval(*ratio_interval(by_way[case.name][way], by_way[case.name][base])[:3]) for case in CASES]
        yield f"| {way}, over {base} | {' | '.join(ratios)} |"


def main(report: Path, rounds: int) -> None:
    before = machine_load.sample()
    rows: list[dict[str, Any]] = []
    for number in tqdm(range(1, rounds + 1), desc="rounds"):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            rows += pool.submit(times, number).result()
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
        f"{rounds} rounds, each a fresh process that trains every model once in each way, in shuffled order; ratios "
        "are paired by round, with 95 % t intervals. TensorFlow has its usual pools of threads in all ways. The time "
        "of a step is wall time over the steps of all threads. `fit` makes one step in a call of TensorFlow, and the "
        f"other ways {PER_CALL}, but for the threads under a lock, which call twice a step. Keras's Adam makes the "
        "gradient of an embedding dense and changes all rows; ours changes the rows of the batch (lazy Adam). "
        "`python -m tests.speed.keras_speed` measures again.",
        "",
        *tables(measured),
    ]
    write_text(report, "\n".join(lines) + "\n")


if __name__ == "__main__":
    parser = command_line.parser()
    parser.add_argument("report", type=command_line.report, help="docs/speed/keras.md")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    main(arguments.report, arguments.rounds)
