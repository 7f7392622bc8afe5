"""Measure what idle threads of NumPy's products cost the native driver: `python -m tests.speed.idle_threads REPORT.md`.

Rounds with one thread of the library and with two alternate, each in a fresh process, because changing the number
within a process wakes threads. The times are in a CSV file beside the report. Not a test, because it needs a quiet
machine for some minutes.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from tqdm import tqdm

from tests.support import command_line
from tmflow.analysis.stats import ratio_interval
from tmflow.base.clock import utc_now
from tmflow.base.files import write_text
from tmflow.base.text import interval
from tmflow.benchmark.text import state
from tmflow.native.registry import resolve
from tmflow.platform.facts import display_name, platform_facts
from tmflow.runfile.record import MachineState
from tmflow.runner import machine_load
from tmflow.spec.trial import TrialSpec
from tmflow.training import native_driver
from tmflow.training.data import Images

ROUNDS = 6
LIBRARY = "OPENBLAS_NUM_THREADS"
SOFTMAX = {"model": "mnist_softmax", "batch": 1, "learning_rate": 0.5}
MLP = {"model": "mnist_mlp", "hidden": 128, "activation": "relu", "batch": 10, "learning_rate": 0.1}
WORKLOADS: dict[str, dict[str, Any]] = {  # the factors of trials of these experiments
    "true-contention": SOFTMAX | {"iterations": 20_000, "curve_points": 5, "test_images": 2000},
    "native-softmax": SOFTMAX | {"iterations": 10_000, "test_images": 5000},
    "break-even": SOFTMAX | {"iterations": 40_000, "test_images": 100},
    "optimiser-state": SOFTMAX | {"iterations": 40_000, "test_images": 10_000, "learning_rate": 0.01},
    "time-to-accuracy": MLP | {"iterations": 20_000, "curve_points": 20, "test_images": 10_000},
}
STRATEGIES, WORKERS = ("spin", "striped", "lock"), (1, 2)
POINT = ["workload", "strategy", "workers"]


def spun_ms() -> float:
    """How long the process uses its processors after a large product, while it sleeps: at most half a second."""
    np.ones((600, 600), np.float32) @ np.ones((600, 600), np.float32)
    last, began = 0.0, time.monotonic()
    while (now := time.monotonic() - began) < 0.5:
        used = time.process_time()
        time.sleep(0.01)
        if time.process_time() - used > 0.002:
            last = now + 0.01
    return 1000 * last


def trials(number: int) -> list[dict[str, Any]]:
    """Run one trial of each point in this process, in the order of the round; return the time of a step of each."""
    images = Images("mnist", 1, 784).of(1, 784)
    points = [(name, strategy, n) for name in WORKLOADS for strategy in STRATEGIES for n in WORKERS]
    rows = []
    for name, strategy, workers in random.Random(number).sample(points, len(points)):
        factors = WORKLOADS[name] | {"dataset": "mnist", "driver": "native"}
        spec = TrialSpec(strategy=strategy, threads=workers, **factors)
        variant = native_driver.Variant(spec, resolve(strategy, spec.parameters()))
        variant.warm_up(images, spec.batch, workers)
        step_us = 1e6 * variant.run(spec, 1, images).loop_s / spec.iterations
        rows.append({"workload": name, "strategy": strategy, "workers": workers, "step_us": step_us})
    return rows


def in_process(number: int, library_threads: int) -> Iterator[dict[str, Any]]:
    """The trials of a round in a fresh process, whose library of products has so many threads, and `spun_ms` there."""
    fresh = multiprocessing.get_context("spawn")
    with mock.patch.dict(os.environ, {LIBRARY: str(library_threads)}), ProcessPoolExecutor(1, fresh) as pool:
        rows, spun = pool.submit(trials, number).result(), pool.submit(spun_ms).result()
    for row in rows:
        yield row | {"round": number, "library_threads": library_threads, "spun_ms": spun}


def table(times: pd.DataFrame) -> Iterator[str]:
    """The rows of the report: medians, and the ratio of both settings, paired by round."""
    for name in WORKLOADS:
        for strategy in STRATEGIES:
            for workers in WORKERS:
                of_point = times[(times[POINT] == [name, strategy, workers]).all(axis=1)]
                by_round = of_point.pivot(index="round", columns="library_threads", values="step_us")
                ratio = interval(*ratio_interval(by_round[2], by_round[1])[:3])
                one, two = by_round.median()
                yield f"| {name} | {strategy} | {workers} | {one:.2f} | {two:.2f} | {ratio} |"


def main(report: Path) -> None:
    before = machine_load.sample()
    rows = [
        row
        for number in tqdm(range(1, ROUNDS + 1), desc="rounds")
        for library_threads in random.Random(number).sample((1, 2), 2)
        for row in in_process(number, library_threads)
    ]
    meanwhile = MachineState(**machine_load.between(before, machine_load.sample()))
    times = pd.DataFrame(rows)
    spun = times.groupby("library_threads")["spun_ms"].median()
    write_text(report.with_suffix(".csv"), times.round(4).to_csv(index=False))
    lines = [
        "# What idle threads of NumPy's products cost the native driver",
        "",
        f"{display_name(platform_facts())}, {len(os.sched_getaffinity(0))} CPUs, {utc_now()}; {state(meanwhile)}.",
        "",
        f"{ROUNDS} rounds with one thread of the library of products and with two, in turns, each in a fresh process "
        "with one trial of each point, in the same shuffled order. Ratios are paired by round, with 95 % t intervals. "
        "After a product of 600 x 600 numbers the sleeping process used its processors for "
        f"{spun[2]:.0f} ms in the median with two threads, and for {spun[1]:.0f} ms with one. "
        "`python -m tests.speed.idle_threads` measures again.",
        "",
        "| trials as in | strategy | workers | us per step, one thread | two threads | ratio |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
        *table(times),
    ]
    write_text(report, "\n".join(lines) + "\n")


if __name__ == "__main__":
    parser = command_line.parser()
    parser.add_argument("report", type=command_line.report, help="docs/speed/idle-threads.md")
    main(parser.parse_args().report)
