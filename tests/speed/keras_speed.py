"""Measure what training a Keras model costs: `python -m tests.speed.keras_speed REPORT.md`.

Each model has a process of its own, which trains it in every way in each of several rounds, in shuffled order, as
`tmflow advise` does. The times are in a CSV file beside the report. Not a test, because it needs a quiet machine for
some minutes.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from tests.support import command_line
from tmflow.analysis.stats import ratio_interval
from tmflow.base.clock import utc_now
from tmflow.base.files import write_text
from tmflow.base.text import interval
from tmflow.benchmark.text import state
from tmflow.platform.facts import display_name, platform_facts
from tmflow.platform.software import installed_version, tensorflow_version
from tmflow.runfile.record import MachineState
from tmflow.runner import machine_load

SECONDS = 90.0  # of a model
ALONE_SECONDS = 180.0  # of a model in one thread, in two ways
ALONE = (0, 1)  # the cases that are also trained in one thread only: their difference is small
PER_CALL = 16  # steps of one call of TensorFlow, in every way but the plain one
WORKERS = 2

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
        str(name): rows.pivot(index="round", columns="way", values="step_us")
        for name, rows in measured.groupby("case", sort=False)
    }
    names = list(by_way)
    yield from (f"| us per step | {' | '.join(names)} |", f"| --- |{' ---: |' * len(names)}")
    yield f"| rounds | {' | '.join(str(len(by_way[name])) for name in names)} |"
    for way in measured["way"].unique():
        yield f"| {way} | {' | '.join(f'{by_way[name][way].median():,.0f}' for name in names)} |"
    yield ""
    yield from (f"| time | {' | '.join(names)} |", f"| --- |{' ---: |' * len(names)}")
    for way, base in RATIOS:
        ratios = [interval(*ratio_interval(by_way[name][way], by_way[name][base])[:3]) for name in names]
        yield f"| {way}, over {base} | {' | '.join(ratios)} |"


def alone(measured: pd.DataFrame) -> Iterator[str]:
    """The ratio of one worker to Keras's own optimizer, where nothing else was measured between their slices."""
    way, base = RATIOS[0]
    yield from (f"| case | rounds | {way}, over {base} |", "| --- | ---: | ---: |")
    for name, rows in measured.groupby("case", sort=False):
        us = rows.pivot(index="round", columns="way", values="step_us")
        yield f"| {name} | {len(us)} | {interval(*ratio_interval(us[way], us[base])[:3])} |"


def main(report: Path, seconds: float) -> None:
    from tests.speed.keras_trainings import CASES, times  # Keras, which --help does not need

    def measure(numbers: Iterable[int], seconds: float, only: Sequence[str] | None = None) -> pd.DataFrame:
        rows: list[dict[str, Any]] = []
        for number in tqdm(numbers):
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                rows += pool.submit(times, number, seconds, PER_CALL, WORKERS, only).result()
        return pd.DataFrame(rows)

    before = machine_load.sample()
    measured = measure(range(len(CASES)), seconds)
    measured_alone = measure(ALONE, ALONE_SECONDS * seconds / SECONDS, RATIOS[0])
    meanwhile = MachineState(**machine_load.between(before, machine_load.sample()))
    every = pd.concat([measured.assign(ways="all"), measured_alone.assign(ways="one thread")])
    write_text(report.with_suffix(".csv"), every.round(3).to_csv(index=False))
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
        "",
        "One worker and Keras's own optimizer once more, in processes that train in these two ways only, so that there "
        "are more rounds:",
        "",
        *alone(measured_alone),
    ]
    write_text(report, "\n".join(lines) + "\n")


if __name__ == "__main__":
    parser = command_line.parser()
    parser.add_argument("report", type=command_line.report, help="docs/speed/keras.md")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each model")
    arguments = parser.parse_args()
    main(arguments.report, arguments.seconds)
