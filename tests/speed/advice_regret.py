"""Measure how good the advice for two models is: `python -m tests.speed.advice_regret docs/speed/advice.md`.

The models are those of two examples of keras.io, written anew: a convolutional network of MNIST, and a recommender with
embeddings and biases. For each, a reference measures all candidates for a longer time, and the advice is asked for some
times, in a process of its own each time. The regret is the reference's time of the advised strategy over that of its
fastest, less 1. Not a test, because it needs a quiet machine for some minutes.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from tests.support import command_line
from tmflow import datasets
from tmflow.advice import measurement
from tmflow.advice.advice import advise, rank
from tmflow.advice.candidates import Way, strategies_for
from tmflow.analysis.stats import ratio_interval
from tmflow.base.clock import utc_now
from tmflow.base.files import write_text
from tmflow.base.text import interval
from tmflow.benchmark.text import state
from tmflow.platform.facts import display_name, platform_facts
from tmflow.runfile.record import MachineState
from tmflow.runner import machine_load

WORKERS, ADVICES, ADVICE_S, REFERENCE_S = 2, 2, 60.0, 150.0


def convnet() -> tuple[Any, Any]:
    """The network of keras.io's "Simple MNIST convnet": two convolutions with pooling, dropout, a dense layer; Adam."""
    import keras
    import tensorflow as tf

    mnist = datasets.load("mnist")
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)), layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"), layers.MaxPooling2D(), layers.Flatten(), layers.Dropout(0.5),
            layers.Dense(10, activation="softmax"),
        ]
    )  # fmt: skip
    model.compile("adam", "categorical_crossentropy")
    images = mnist.train_images.reshape(-1, 28, 28, 1)
    return model, tf.data.Dataset.from_tensor_slices((images, mnist.train_labels)).batch(128, drop_remainder=True)


def recommender() -> tuple[Any, Any]:
    """The model of keras.io's "Collaborative Filtering": embeddings of 50, biases, the sigmoid of their sum; Adam."""
    import keras
    import numpy as np
    import tensorflow as tf

    users, items, draw = 10_000, 5_000, np.random.default_rng(0)
    inputs = [keras.Input((), dtype="int64") for _ in range(2)]
    tables = [keras.layers.Embedding(rows, 50)(one) for rows, one in zip((users, items), inputs, strict=True)]
    biases = [keras.layers.Embedding(rows, 1)(one) for rows, one in zip((users, items), inputs, strict=True)]
    total = keras.layers.Add()([keras.layers.Dot(axes=1)(tables), *biases])
    model = keras.Model(inputs, keras.layers.Activation("sigmoid")(total))
    model.compile(keras.optimizers.Adam(0.001), "binary_crossentropy")
    pairs = draw.integers(0, users, 100_000), draw.integers(0, items, 100_000)
    data = tf.data.Dataset.from_tensor_slices((pairs, draw.random(100_000, np.float32)))
    return model, data.batch(64, drop_remainder=True)


MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {"MNIST convnet, batch 128": convnet, "recommender": recommender}


def advised(name: str) -> str:
    """The strategy of an advice."""
    import keras

    keras.utils.set_random_seed(1)
    return str(advise(*MODELS[name](), WORKERS, seconds=ADVICE_S).best.way.strategy)


def reference(name: str) -> dict[str, list[float]]:
    """Microseconds per step by round of each candidate."""
    import keras

    from tmflow.advice.rehearsal import Rehearsal

    keras.utils.set_random_seed(1)
    rehearsal = Rehearsal(*MODELS[name](), consistency="block")
    per_call = measurement.steps_of_call(rehearsal)
    ways = [Way(strategy, WORKERS, per_call) for strategy in strategies_for("block", rehearsal.optimiser)]
    measured = measurement.measure(rehearsal, ways, REFERENCE_S, print)
    if measured.left_out:
        raise SystemExit(f"{name}: {measured.left_out}")
    return {str(row.way.strategy): measured.us[row.way] for row in rank(measured, ways)}


def in_a_process(function: Callable[[str], Any], name: str) -> Any:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, name).result()


def rows(name: str, times: dict[str, list[float]], advices: list[str]) -> Iterator[str]:
    """The candidates of a model, the fastest first, and how often each was advised."""
    fastest = next(iter(times))
    for strategy, us in times.items():
        ratio = "1" if strategy == fastest else interval(*ratio_interval(us, times[fastest])[:3])
        yield f"| {name} | {strategy} | {median(us):,.0f} | {ratio} | {advices.count(strategy) or ''} |"


def main(report: Path) -> None:
    before = machine_load.sample()
    table, sentences = [], []
    for name in tqdm(MODELS):
        advices = [in_a_process(advised, name) for _ in range(ADVICES)]
        times = in_a_process(reference, name)
        table += rows(name, times, advices)
        best = min(median(us) for us in times.values())
        regrets = ", ".join(f"{100 * (median(times[strategy]) / best - 1):.1f} % ({strategy})" for strategy in advices)
        sentences.append(
            f"- {name}: regret of the advice, {ADVICES} times: {regrets}; {len(times[advices[0]])} rounds."
        )
    meanwhile = MachineState(**machine_load.between(before, machine_load.sample()))
    lines = [
        "# How good the advice is",
        "",
        f"{display_name(platform_facts())}, {utc_now()}; {state(meanwhile)}.",
        "",
        f"{WORKERS} workers, consistency block. A reference measures all candidates for {REFERENCE_S:g} s, and "
        f"the advice is asked for {ADVICES} times, with {ADVICE_S:g} s each, in a process of its own. The regret is "
        "the reference's time of the advised strategy over that of its fastest, less 1; the fastest of several is "
        "also the luckiest, so the regret is rather too large. `python -m tests.speed.advice_regret` measures again.",
        "",
        *sentences,
        "",
        "| model | strategy | us per step | time over the fastest's [95 % interval] | advised |",
        "| --- | --- | ---: | ---: | ---: |",
        *table,
    ]
    write_text(report, "\n".join(lines) + "\n")


if __name__ == "__main__":
    parser = command_line.parser()
    parser.add_argument("report", type=command_line.report, help="docs/speed/advice.md")
    main(parser.parse_args().report)
