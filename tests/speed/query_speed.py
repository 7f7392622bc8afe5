"""Measure how fast the database answers a page: `python -m tests.speed.query_speed FOLDER` writes docs/speed/.

FOLDER has databases made by `tests.speed.many_runs`, named runs-<n>.db. Not a test, because it needs a quiet machine.
"""

from __future__ import annotations

import os
import re
import sqlite3
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, func, select

from tests.support import command_line
from tmflow.base.clock import utc_now
from tmflow.base.files import write_text
from tmflow.base.paths import project_root
from tmflow.benchmark.text import state
from tmflow.platform.facts import display_name, platform_facts
from tmflow.runfile.record import MachineState
from tmflow.runner import machine_load
from tmflow.store import engine, queries, run_detail
from tmflow.store.models import Platform
from tmflow.store.run_filter import RESULTS, RunFilter

REPORT = project_root() / "docs" / "speed" / "portal-queries.md"
REPETITIONS = 9
SIDE_BY_SIDE = 4  # platforms

Questions = dict[str, Callable[[], Any]]


def largest(reader: Engine) -> tuple[str, list[str], int]:
    """The experiment with most runs on one platform, the platforms with most of them, and the number on the first."""
    counts = queries.counts(reader)
    runs = counts[counts["scale"] == "full"].groupby(["experiment", "platform"])["n_runs"].sum()
    experiment, _ = runs.idxmax()
    by_platform = runs[experiment].nlargest(SIDE_BY_SIDE)
    return experiment, list(by_platform.index), int(by_platform.iloc[0])


def questions(reader: Engine, experiment: str, platforms: list[str]) -> Questions:
    """The queries of pages, for the first platform and for all of them."""
    only = replace(RESULTS, experiments=[experiment], scales=["full"], platforms=platforms[:1])
    uid = queries.runs(reader, only)["uid"].iloc[0]
    return {
        "open the database": lambda: engine.open_reader(reader.url),
        "counts of runs": lambda: queries.counts(reader),
        "revision": lambda: queries.revision(reader),
        **{
            f"{name.replace('_', ' ')} of the experiment on the platform": lambda read=read: read(reader, only)
            for name, read in queries.TABLES.items()
        },
        f"runs of the experiment on {SIDE_BY_SIDE} platforms": lambda: queries.TABLES["runs"](
            reader, replace(only, platforms=platforms)
        ),
        "one run with all details": lambda: run_detail.run(reader, uid),
        "the newest 50 runs of all": lambda: queries.page(reader, RunFilter()),
        "the newest 50 that failed": lambda: queries.page(reader, RunFilter(statuses=("failed",))),
        "the newest 50 of the platform": lambda: queries.page(reader, RunFilter(platforms=(platforms[0],))),
        "the fastest 50 of the experiment": lambda: queries.page(
            reader, RunFilter(experiments=(experiment,)), "step_time", down=False
        ),
        "number of runs by factor value": lambda: queries.tally(reader, RunFilter()),
        "the same for the experiment on the platform": lambda: queries.tally(
            reader, RunFilter(experiments=(experiment,), platforms=(platforms[0],))
        ),
    }


def milliseconds(ask: Callable[[], Any]) -> float:
    """The median CPU time, without the first repetition."""
    ask()
    times = []
    for _ in range(REPETITIONS):
        began = time.process_time()
        ask()
        times.append(1e3 * (time.process_time() - began))
    return statistics.median(times)


def main(folder: Path) -> None:
    sizes = {int(match[1]): path for path in folder.iterdir() if (match := re.fullmatch(r"runs-(\d+)\.db", path.name))}
    before = machine_load.sample()
    found: dict[str, list[str]] = {}
    for _, path in sorted(sizes.items()):
        reader = engine.open_reader(engine.sqlite_url(path))
        with reader.connect() as connection:
            platforms = connection.scalar(select(func.count()).select_from(Platform))
        found.setdefault("platforms", []).append(f"{platforms:,}")
        found.setdefault("file size", []).append(f"{path.stat().st_size / 1e6:,.0f} MB")
        experiment, slugs, n_runs = largest(reader)
        found.setdefault("experiment", []).append(experiment)
        found.setdefault("number of its runs on the platform", []).append(f"{n_runs:,}")
        for name, ask in questions(reader, experiment, slugs).items():
            found.setdefault(name, []).append(f"{milliseconds(ask):.1f}")
    meanwhile = MachineState(**machine_load.between(before, machine_load.sample()))
    lines = [
        "# How fast the database answers a page",
        "",
        f"{display_name(platform_facts())}, {len(os.sched_getaffinity(0))} CPUs, SQLite {sqlite3.sqlite_version}, "
        f"{utc_now()}; {state(meanwhile)}.",
        "",
        f"CPU time in ms, which other work on the machine hardly changes: the median of {REPETITIONS} repetitions "
        "after one that does not count, so that all data are in memory. Each repetition opens a new connection, and "
        "ends with the result as a pandas data frame. The experiment is the one with most runs on one platform, "
        "which is the platform of the queries. `python -m tests.speed.many_runs` creates the databases, `python -m "
        "tests.speed.query_speed` measures them.",
        "",
        f"| runs | {' | '.join(f'{n:,}' for n in sorted(sizes))} |",
        f"| --- |{' ---: |' * len(sizes)}",
        *(f"| {name} | {' | '.join(cells)} |" for name, cells in found.items()),
    ]
    write_text(REPORT, "\n".join(lines) + "\n")


if __name__ == "__main__":
    parser = command_line.parser()
    parser.add_argument("folder", type=command_line.folder, help="with databases runs-<n>.db")
    main(parser.parse_args().folder)
