"""Measure what HPX's settings cost on this machine: `python -m tests.speed.hpx_speed REPORT.md`.

A process has one HPX with one choice of settings, so each measurement is one of a process. Settings alternate, in
another order each round, and ratios are paired within rounds. Not a test, because it needs a quiet machine for minutes.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap

from tests.support import command_line
from tmflow import runtime
from tmflow.analysis.stats import ratio_interval
from tmflow.base.clock import utc_now
from tmflow.base.files import write_text
from tmflow.base.text import interval
from tmflow.benchmark.text import state
from tmflow.platform.facts import display_name, platform_facts
from tmflow.runfile.record import MachineState
from tmflow.runner import machine_load

ROUNDS = 7
LINE = 120
OURS = "ours"
DEFAULTS = "hpx.max_idle_loop_count!=1000;hpx.max_idle_backoff_time!=1000"

# What a process has in its environment.
SETTINGS: dict[str, dict[str, str]] = {
    OURS: {},
    "HPX's default: idle threads sleep for up to 1 s": {"TMFLOW_HPX_SETTINGS": DEFAULTS},
    "a stack of 64 KB for each task": {"TMFLOW_HPX_STACK": "small"},
    "a stack of 2 MB for each task": {"TMFLOW_HPX_STACK": "huge"},
}

Times = dict[str, list[dict[str, float]]]  # by setting: what `tests.speed.hpx_process` prints, of each round


def times_of(variables: Mapping[str, str]) -> dict[str, float]:
    """The times of one process with these variables. Raises CalledProcessError if it fails."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **variables}
    command = [sys.executable, "-m", "tests.speed.hpx_process"]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True, timeout=300)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def measure() -> Times:
    times: Times = {name: [] for name in SETTINGS}
    for round_number in range(1, ROUNDS + 1):
        for name in random.Random(round_number).sample(list(SETTINGS), len(SETTINGS)):
            times[name].append(times_of(SETTINGS[name]))
    return times


def report() -> Iterator[str]:
    """The lines of the report."""
    before = machine_load.sample()
    times = measure()
    meanwhile = MachineState(**machine_load.between(before, machine_load.sample()))
    yield "# What HPX's settings cost"
    yield ""
    yield from wrap(
        f"{display_name(platform_facts())}; {utc_now()[:10]}. Written by `python -m tests.speed.hpx_speed`. "
        f"Medians of {ROUNDS} rounds, in which processes with each choice of settings alternate. The slow-down is the "
        "time of a step of TensorFlow's executor (8 chains of 8 products 256x256) beside an idle HPX over that before "
        "HPX started, in the same process. The ratios of the executors are to TensorFlow's in the same process. "
        "Intervals are 95 %.",
        LINE,
    )
    yield ""
    yield from table(times)
    yield ""
    yield f"Meanwhile {state(meanwhile)}; at the end the load average over 5 minutes was {os.getloadavg()[1]:.1f}."


def ratio(of_setting: Sequence[Mapping[str, float]], over: str, under: str) -> str:
    """The ratio of two times of the same processes, with its interval."""
    found = ratio_interval([times[over] for times in of_setting], [times[under] for times in of_setting])
    return interval(found.estimate, found.low, found.high)


def table(times: Times) -> Iterator[str]:
    columns = (
        "processor time while idle, of 1 s", "slow-down of TensorFlow", "1,000 products 8x8 by hpx, ms", "ratio",
        "by hpx_dataflow, ms", "ratio", "32 chains of 8 products 64x64 by hpx, ms", "ratio",
    )  # fmt: skip
    yield f"| settings | {' | '.join(columns)} |"
    yield f"|---|{'--:|' * len(columns)}"
    for name, of_setting in times.items():
        medians = {what: statistics.median(of_round[what] for of_round in of_setting) for what in of_setting[0]}
        cells = [f"{medians['idle']:.3f}", ratio(of_setting, "beside", "before")]
        for ours, theirs in (("small", "small"), ("dataflow", "small"), ("parallel", "parallel")):
            cells += [f"{1e3 * medians[ours]:.3f}", ratio(of_setting, ours, f"{theirs} of TensorFlow")]
        yield f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    parser = command_line.parser()
    parser.add_argument("report", type=command_line.report, help="the Markdown file to write")
    asked = parser.parse_args()
    if "hpx" not in runtime.built():
        parser.error("the executor hpx is not built: run `make hpx`, then `make build`")
    write_text(asked.report, "\n".join(report()) + "\n")
