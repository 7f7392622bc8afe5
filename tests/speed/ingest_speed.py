"""Measure how fast run files are ingested into a SQLite file, and write the report: `python -m tests.speed.ingest_speed
REPORT.md`.

Not a test, because it needs a quiet machine; `make speed` runs it. Files and database are in the results folder, on
disk.
"""

from __future__ import annotations

import gc
import os
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import NamedTuple, get_args

from sqlalchemy import URL, func, select
from tqdm import tqdm

from tests.support import command_line
from tests.support.sample_runs import SOFTWARE_TM, sample_runs
from tmflow.analysis import stats
from tmflow.base.canonical_json import sha256_of
from tmflow.base.clock import utc_now
from tmflow.base.files import write_text
from tmflow.base.paths import results_dir
from tmflow.benchmark.text import state
from tmflow.platform.facts import display_name, platform_facts
from tmflow.runfile import lines as run_lines
from tmflow.runfile import record
from tmflow.runfile.record import ExperimentRef, MachineState
from tmflow.runner import machine_load
from tmflow.spec.factors import Design, Manager
from tmflow.store import engine, models, schema
from tmflow.store import rows as incoming
from tmflow.store.ingest import ingest

REPETITIONS = 10
ROUNDS = 200
TARGET = 150_000
VARIANTS = [
    SOFTWARE_TM | {"design": design, "manager": manager}
    for design, manager in product(get_args(Design), get_args(Manager))
]
DEFINITION = {
    "model": "mnist_softmax",
    "dataset": "mnist",
    "driver": "session",
    "strategy": ["stm"],
    "design": get_args(Design),
    "manager": get_args(Manager),
    "threads": [1, 2, 4, 8, 16, 26, 32, 48, 64],
    "batch": 100,
    "iterations": 1000,
    "learning_rate": 0.5,
}
# Points of the accuracy curve of a run. Each run also has 4 counters, 8 aborts, their 2 sums, and 4 stalenesses.
CURVES = (0, 20)


class Times(NamedTuple):
    """One repetition, in seconds: the total; of it, decoding JSON; and everything before an insert."""

    all_s: float
    json_s: float
    reading_s: float


def write_files(folder: Path, curve_points: int) -> list[Path]:
    """Rounds of 2-thread runs, one file each, as a study writes them."""
    experiment = ExperimentRef(
        name="stm", scale="full", definition_sha256=sha256_of(DEFINITION), definition=dict(DEFINITION)
    )
    runs = sample_runs(strategies=VARIANTS, threads=(2,), rounds=ROUNDS, curve_points=curve_points)
    paths = [folder / f"round-{number:03}.jsonl" for number in range(1, ROUNDS + 1)]
    for number, path in enumerate(paths, start=1):
        record.write(path, [run.model_copy(update={"experiment": experiment}) for run in runs if run.round == number])
    return paths


def measured(paths: Sequence[Path]) -> Times:
    """Ingest into a new SQLite file; then measure the parts that can be run separately."""
    with database(paths[0].parent) as url:
        all_s = seconds(lambda: ingest(url, paths))
    json_s = seconds(
        lambda: [
            run_lines.decoded(line, where)
            for path in paths
            for where, line in run_lines.lines(path, run_lines.contents(path))
        ]
    )
    return Times(all_s, json_s, seconds(lambda: incoming.read_files(paths, ())))


@contextmanager
def database(folder: Path) -> Iterator[URL]:
    with tempfile.TemporaryDirectory(dir=folder) as inside:
        url = engine.sqlite_url(Path(inside) / "study.db")
        schema.upgrade(url)
        yield url


def rows_of(paths: Sequence[Path]) -> int:
    """The number of rows that the files become, in all tables."""
    with database(paths[0].parent) as url:
        ingest(url, paths)
        with engine.open_reader(url).connect() as connection:
            tables = models.Base.metadata.tables.values()
            return sum(connection.scalar(select(func.count()).select_from(table)) or 0 for table in tables)


def seconds(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main(path_of_report: Path) -> None:
    gc.disable()  # as `ingest` does, also for its parts
    before = machine_load.sample()
    results_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=results_dir()) as folder:
        files = {points: write_files(Path(folder) / str(points), points) for points in CURVES}
        rows = {points: rows_of(paths) for points, paths in files.items()}
        times: dict[int, list[Times]] = {points: [] for points in CURVES}
        for _ in tqdm(range(REPETITIONS), disable=None, leave=False, file=sys.stderr):
            for points in random.sample(CURVES, len(CURVES)):
                times[points].append(measured(files[points]))
    meanwhile = MachineState(**machine_load.between(before, machine_load.sample()))
    write_text(path_of_report, report(rows, times, meanwhile) + "\n")


def report(rows: dict[int, int], times: dict[int, list[Times]], meanwhile: MachineState) -> str:
    facts = platform_facts()
    lines = [
        "# How fast run files are ingested",
        "",
        f"{display_name(facts)}, {len(os.sched_getaffinity(0))} CPUs, SQLite {sqlite3.sqlite_version}, {utc_now()}; "
        f"{state(meanwhile)}.",
        "",
        f"{ROUNDS * len(VARIANTS):,} runs of 2 threads in {ROUNDS} run files on disk, with counters, aborts and "
        f"staleness, into a new SQLite file on disk; {REPETITIONS} repetitions of each kind, interleaved; [95 % "
        f"interval]. Rows of all tables count. Target: {TARGET:,} rows per second.",
        "",
        "| points of a run's curve | rows | rows per second | us per run | JSON | checking and hashing | inserting |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for points, repetitions in times.items():
        speed = stats.mean_interval([rows[points] / one.all_s for one in repetitions])
        total, json_s, reading = (sum(column) for column in zip(*repetitions, strict=True))
        shares = [json_s, reading - json_s, total - reading]
        cells = [
            str(points),
            f"{rows[points]:,}",
            f"{speed.estimate:,.0f} [{speed.low:,.0f}, {speed.high:,.0f}]",
            f"{1e6 * total / len(repetitions) / (ROUNDS * len(VARIANTS)):.0f}",
            *(f"{100 * share / total:.0f} %" for share in shares),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = command_line.parser()
    parser.add_argument("report", type=command_line.report, help="the Markdown file to write")
    main(parser.parse_args().report)
