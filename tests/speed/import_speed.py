"""Measure how fast a bundle is imported into a SQLite file: `python -m tests.speed.import_speed REPORT.md [RUNS]`.

Not a test, because it needs a quiet machine and, for a million runs, 10 GB of disk. All files are in the results
folder, on disk.
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

from tests.speed.bundle_speed import WANTED_MB, called, write_bundle
from tests.support import command_line
from tmflow.base.clock import utc_now
from tmflow.base.files import write_text
from tmflow.base.paths import results_dir
from tmflow.benchmark.text import state
from tmflow.platform.facts import cpus_allowed, display_name, platform_facts
from tmflow.runfile.record import MachineState
from tmflow.runner import machine_load

RUNS, WANTED_S = 100_000, 30


def main(report: Path, n_runs: int) -> None:
    results_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=results_dir()) as folder:
        bundle = Path(folder) / "bundle.zip"
        write_bundle(bundle, n_runs, zipfile.ZIP_DEFLATED)
        before = machine_load.sample()
        rows = [row(bundle, cpus) for cpus in sorted({2, max(cpus_allowed() or 2, 2)})]
        meanwhile = MachineState(**machine_load.between(before, machine_load.sample()))
        size = bundle.stat().st_size / 1e6
    lines = [
        "# How fast bundles are imported",
        "",
        f"{display_name(platform_facts())}, {utc_now()}; {state(meanwhile)}.",
        "",
        f"Wall time of `tmflow bundle import` of 2-thread native runs ({size:,.0f} MB) into a new SQLite file on "
        "disk, once on each number of CPUs. Memory includes the processes that check.",
        "",
        "| CPUs | runs | seconds | runs per second | memory, MB | database, MB |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows,
        "",
        f"Target: {RUNS:,} runs in at most {WANTED_S} s, and at most {WANTED_MB} MB.",
    ]
    write_text(report, "\n".join(lines) + "\n")


def row(bundle: Path, cpus: int) -> str:
    """An import into a new database, on this many processors, as a row of the report."""
    database = bundle.with_name(f"{cpus}.db")
    folder = str(bundle.parent)
    done = called("import", str(bundle), cpus=cpus, TMFLOW_DB_URL=f"sqlite:///{database}", TMPDIR=folder)
    (answer,) = done.answer
    n, megabytes = answer["runs_new"], database.stat().st_size / 1e6
    speed = f"{done.seconds:,.1f} | {n / done.seconds:,.0f}"
    return f"| {cpus} | {n:,} | {speed} | {done.most / 1e6:,.0f} | {megabytes:,.0f} |"


if __name__ == "__main__":
    parser = command_line.parser()
    parser.add_argument("report", type=command_line.report, help="the Markdown file to write")
    parser.add_argument("runs", type=command_line.count, nargs="?", default=RUNS, help=f"else {RUNS:,}")
    asked = parser.parse_args()
    main(asked.report, asked.runs)
