"""Measure how fast bundles are checked, and write the report: `python -m tests.speed.bundle_speed REPORT.md`.

Not a test, because it needs a quiet machine; `make speed-bundles` runs it. The bundles are in the results folder, on
disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple, get_args

import psutil
from tqdm import tqdm

from tests.conftest import environment
from tests.support import command_line
from tests.support.sample_bundles import PROBE, consistent
from tests.support.sample_runs import ENVIRONMENT, PLATFORM, SOFTWARE_TM, round_of
from tmflow.analysis import stats
from tmflow.base.canonical_json import canonical_json, sha256_of
from tmflow.base.clock import utc_now
from tmflow.base.files import write_text
from tmflow.base.paths import results_dir
from tmflow.benchmark.text import state
from tmflow.bundle import format
from tmflow.bundle import format as manifest
from tmflow.bundle.format import Entry
from tmflow.platform.facts import display_name, platform_facts
from tmflow.runfile import record
from tmflow.runfile.record import MachineState, Run
from tmflow.runner import machine_load
from tmflow.spec.factors import Design, Manager
from tmflow.spec.trial import TrialSpec

REPETITIONS = 10
RUNS, MANY = 60_000, 1_000_000
WANTED_A_SECOND, WANTED_MB = 20_000, 500
POINTS = [
    TrialSpec.model_validate(
        SOFTWARE_TM
        | {"model": "mnist_softmax", "dataset": "mnist", "driver": "native", "threads": 2, "batch": batch}
        | {"iterations": 1000, "learning_rate": 0.5, "design": design, "manager": manager}
    )
    for design, manager, batch in product(get_args(Design), get_args(Manager), (1, 10, 50, 100))
]


class Checked(NamedTuple):
    """A check of a bundle: its time, the processor time of all its processes together, and their maximum memory
    together.
    """

    seconds: float
    cpu_s: float
    megabytes: float


def write_bundle(path: Path, n_runs: int, compression: int) -> None:
    """A bundle of rounds of 2-thread runs, as a study writes them."""
    entries = []
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in chain(documents(), rounds(n_runs // len(POINTS))):
            archive.writestr(zipfile.ZipInfo(name), data, compression)
            entries.append(Entry(name, len(data), hashlib.sha256(data).hexdigest()))
        archive.writestr(zipfile.ZipInfo(format.MANIFEST), manifest.text(entries), compression)


def documents() -> Iterator[tuple[str, bytes]]:
    platform = {
        "environment": ENVIRONMENT,
        "facts": PLATFORM,
        "name": display_name(PLATFORM),
        "sha256": sha256_of(PLATFORM),
    }
    yield format.PLATFORM, canonical_json(platform).encode()
    yield format.PROBE, canonical_json(PROBE).encode()


def rounds(n: int) -> Iterator[tuple[str, bytes]]:
    """Run files with the same runs again and again, but with different uids and times."""
    templates = [template(consistent(run)) for run in round_of("stm", 1, POINTS)]
    for number in range(1, n + 1):
        lines = [
            line.replace('"@round"', str(number))
            .replace('"@seed"', str(number - 1))
            .replace("@uid", str(uuid.UUID(int=random.getrandbits(128))))
            .replace('"@loop_s"', repr(loop_s * random.uniform(0.9, 1)))
            for line, loop_s in templates
        ]
        yield f"runs/stm/{'0' * 12}/round-{number:06}.jsonl", "".join(lines).encode()


def template(run: Run) -> tuple[str, float]:
    """A run line with placeholders for what differs among rounds, and the seconds of the run."""
    answer = json.loads(record.to_line(run))
    marked = answer | {"round": "@round", "trial_seed": "@seed", "uid": "@uid", "loop_s": "@loop_s"}
    return json.dumps(marked, sort_keys=True) + "\n", answer["loop_s"]


class Called(NamedTuple):
    """A command on two processors: seconds, maximum memory of all its processes in bytes, and its output."""

    seconds: float
    most: int
    answer: Any


def called(*words: str, cpus: int = 2, **variables: str) -> Called:
    """Run `tmflow bundle ... --json` with these arguments on this many processors, with these environment variables."""
    began, most = time.perf_counter(), 0
    command = ["taskset", "-c", f"0-{cpus - 1}", sys.executable, "-m", "tmflow", "bundle", *words, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(**variables)) as process:
        while process.poll() is None:
            most = max(most, memory(psutil.Process(process.pid)))
            time.sleep(0.2)  # a query takes milliseconds, during which the process is stopped
        seconds = time.perf_counter() - began
        assert process.stdout is not None
        return Called(seconds, most, json.load(process.stdout))


def checked(path: Path) -> Checked:
    """`tmflow bundle verify`, which must find no problem."""
    before = os.times()
    done = called("verify", str(path))
    assert done.answer["problems"] == []
    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return Checked(done.seconds, cpu_s, done.most / 1e6)


def memory(process: psutil.Process) -> int:
    """The memory of a process and its children in bytes; shared memory counts in proportion."""
    total = 0
    with suppress(psutil.Error):
        for measured in (process, *process.children(recursive=True)):
            total += measured.memory_full_info().pss
    return total


def main(path_of_report: Path) -> None:
    before = machine_load.sample()
    results_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=results_dir()) as folder:
        path = Path(folder) / "bundle.zip"
        write_bundle(path, RUNS, zipfile.ZIP_LZMA)
        times = [checked(path) for _ in tqdm(range(REPETITIONS), disable=None, leave=False, file=sys.stderr)]
        many = Path(folder) / "many.zip"
        write_bundle(many, MANY, zipfile.ZIP_DEFLATED)
        largest = checked(many)
        megabytes = many.stat().st_size / 1e6
    meanwhile = MachineState(**machine_load.between(before, machine_load.sample()))
    write_text(path_of_report, report(times, largest, megabytes, meanwhile) + "\n")


def report(times: list[Checked], largest: Checked, megabytes: float, meanwhile: MachineState) -> str:
    speed = stats.mean_interval([RUNS / measured.seconds for measured in times])
    return "\n".join(
        [
            "# How fast bundles are checked",
            "",
            f"{display_name(platform_facts())}, 2 of its CPUs, {utc_now()}; {state(meanwhile)}.",
            "",
            "Wall time of `tmflow bundle verify`, for bundles of 2-thread native runs, each with 4 counters, 8 aborts "
            f"and 4 stalenesses; [95 % interval] of {len(times)} repetitions. Memory is the maximum of the command "
            "and its processes together.",
            "",
            "| runs | compression | runs per second | processor time per run, us | memory, MB |",
            "| --- | --- | --- | --- | --- |",
            row(
                *(f"{RUNS:,}", "LZMA, as by `tmflow bundle export`"),
                f"{speed.estimate:,.0f} [{speed.low:,.0f}, {speed.high:,.0f}]",
                f"{1e6 * sum(measured.cpu_s for measured in times) / len(times) / RUNS:.0f}",
                f"{max(measured.megabytes for measured in times):,.0f}",
            ),
            row(
                *(f"{MANY:,} ({megabytes:,.0f} MB)", "deflate", f"{MANY / largest.seconds:,.0f} (once)"),
                *(f"{1e6 * largest.cpu_s / MANY:.0f}", f"{largest.megabytes:,.0f}"),
            ),
            "",
            f"Target: {WANTED_A_SECOND:,} runs per second, and at most {WANTED_MB} MB.",
        ]
    )


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    parser = command_line.parser()
    parser.add_argument("report", type=command_line.report, help="the Markdown file to write")
    main(parser.parse_args().report)
