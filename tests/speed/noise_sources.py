"""Measure what lowers the noise of trials at its source: `python -m tests.speed.noise_sources REPORT.md`.

Rounds with different settings alternate, each in a fresh process, so all settings meet the same moments of the machine.
The times are in a CSV file beside the report. Not a test, because it needs a quiet machine for a quarter of an hour.
"""

from __future__ import annotations

import math
import os
import random
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pandas as pd
from tqdm import tqdm

from tests.support import command_line
from tmflow.analysis.stats import mean_interval, of_logs
from tmflow.base.canonical_json import sha256_of
from tmflow.base.clock import utc_now
from tmflow.base.files import write_text
from tmflow.base.text import interval
from tmflow.benchmark.text import state
from tmflow.platform.facts import display_name, platform_facts
from tmflow.runfile import record
from tmflow.runfile.record import CampaignRef, ExperimentRef, MachineState
from tmflow.runner import machine_load
from tmflow.runner.supervisor import RoundJob, run_round
from tmflow.spec.trial import TrialSpec

ROUNDS, REPEATS = 7, 4
THREADS = (1, 2)
COMMON = {"dataset": "mnist", "learning_rate": 0.5, "test_images": 100}


class Workload(NamedTuple):
    """Trials as in an experiment of the study: each strategy with each number of workers is a point."""

    name: str
    strategies: tuple[str, ...]
    factors: dict[str, Any]

    def points(self, **changes: Any) -> list[TrialSpec]:
        """The points, with these factors changed; twice the steps if `steps` is 2."""
        steps = changes.pop("steps", 1)
        factors = COMMON | self.factors | {"iterations": steps * self.factors["iterations"]} | changes
        return [TrialSpec(strategy=name, threads=n, **factors) for name in self.strategies for n in THREADS]


WORKLOADS = (
    Workload(
        "softmax, batch 100, session",
        ("tf_lock", "tf_nolock"),
        {"model": "mnist_softmax", "batch": 100, "iterations": 1000},
    ),
    Workload(
        "mnist_deep, batch 1, session",
        ("tf_lock", "tf_nolock"),
        {"model": "mnist_deep", "batch": 1, "iterations": 100, "learning_rate": 0.001, "dropout_keep": 0.5},
    ),
    Workload(
        "softmax, batch 1, native",
        ("lock", "nolock"),
        {"model": "mnist_softmax", "driver": "native", "batch": 1, "iterations": 20_000},
    ),
)


class Setting(NamedTuple):
    """What differs from a study: glibc's tunables, and factors of the points."""

    name: str
    tunables: str = ""
    factors: dict[str, Any] | None = None
    driver: str | None = None
    """The driver to which it applies; None: both."""

    def points(self, workload: Workload) -> list[TrialSpec]:
        """The points of the workload with this setting; none if it does not apply to their driver."""
        applies = self.driver in (None, workload.factors.get("driver", "session"))
        return workload.points(**self.factors or {}) if applies else []


AS_IN_A_STUDY = "as in a study"
SETTINGS = (
    Setting(AS_IN_A_STUDY),
    Setting("huge pages (`glibc.malloc.hugetlb=1`)", "glibc.malloc.hugetlb=1"),
    Setting(
        "freed memory stays mapped (`mmap_threshold` of 32 MiB, `trim_threshold` of 16 GiB, one arena)",
        f"glibc.malloc.mmap_threshold={2**25}:glibc.malloc.trim_threshold={2**34}:glibc.malloc.arena_max=1",
    ),
    Setting("workers pinned to cores", factors={"pinning": "cores"}, driver="native"),
    Setting("twice the steps", factors={"steps": 2}),
)


def trials(setting: Setting, number: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Run one round of a setting in a fresh process; yield the time per step of each trial."""
    points = {point: workload.name for workload in WORKLOADS for point in setting.points(workload)}
    definition = {"setting": setting.name}
    job = RoundJob(
        campaign=CampaignRef(uid=str(uuid.uuid4()), created_at_utc=utc_now()),
        experiment=ExperimentRef(
            name="noise-sources", scale="adhoc", definition_sha256=sha256_of(definition), definition=definition
        ),
        number=number,
        points=list(points),
        repeats=REPEATS,
        trial_timeout_s=600,
        run_file=folder / f"{SETTINGS.index(setting)}-{number}.jsonl",
    )
    with mock.patch.dict(os.environ, {"GLIBC_TUNABLES": setting.tunables} if setting.tunables else {}):
        run_round(job)
    for run in record.read(job.run_file):
        if run.loop_s is None:
            raise SystemExit(f"noise_sources: a trial of '{setting.name}' failed: {run.reason}")
        yield {
            "setting": setting.name,
            "workload": points[run.spec],
            "point": f"{run.spec.strategy} {run.spec.threads}",
            "round": number,
            "step_us": 1e6 * run.loop_s / run.spec.iterations,
        }


def noise_of_rounds(times: pd.DataFrame) -> pd.Series:
    """The log of the standard deviation between a point's trials in a round, pooled over points, for each round."""
    logs = times.assign(log=times["step_us"].map(math.log))
    variances = logs.groupby(["round", "point"])["log"].var(ddof=1)
    return variances.groupby("round").mean().map(lambda variance: math.log(variance) / 2)


def row(times: pd.DataFrame, base: pd.DataFrame) -> list[str]:
    """The cells of a setting and workload: noise, its ratio to that of the base, and the ratio of the times."""
    noise, time = noise_of_rounds(times), times["step_us"].map(math.log).groupby(times["round"]).mean()
    cells = [f"{math.exp(noise.mean()):.1%}"]
    if base is times:
        return [*cells, "1", "1"]
    time_before = base["step_us"].map(math.log).groupby(base["round"]).mean()
    for change in (noise - noise_of_rounds(base), time - time_before):
        cells.append(interval(*of_logs(mean_interval(change.to_numpy()))[:3]))
    return cells


def table(times: pd.DataFrame) -> Iterator[str]:
    """The rows of the report, workload by workload."""
    for workload in WORKLOADS:
        of_workload = times[times["workload"] == workload.name]
        by_setting = dict(list(of_workload.groupby("setting")))
        for setting in SETTINGS:
            if setting.name in by_setting:
                cells = row(by_setting[setting.name], by_setting[AS_IN_A_STUDY])
                yield f"| {workload.name} | {setting.name} | {' | '.join(cells)} |"


def main(report: Path) -> None:
    before, order = machine_load.sample(), random.Random(2017)
    rows: list[dict[str, Any]] = []
    plan = [(number, setting) for number in range(1, ROUNDS + 1) for setting in order.sample(SETTINGS, len(SETTINGS))]
    with tempfile.TemporaryDirectory(prefix="tmflow-noise-") as folder:
        for number, setting in tqdm(plan, desc="rounds"):
            rows += trials(setting, number, Path(folder))
    meanwhile = MachineState(**machine_load.between(before, machine_load.sample()))
    times = pd.DataFrame(rows)
    write_text(report.with_suffix(".csv"), times.round(4).to_csv(index=False))
    lines = [
        "# What lowers the noise of trials",
        "",
        f"{display_name(platform_facts())}, {len(os.sched_getaffinity(0))} CPUs, {utc_now()}; {state(meanwhile)}.",
        "",
        f"{ROUNDS} rounds of each setting, alternating, each in a fresh process. A round runs each point {REPEATS} "
        f"times: two strategies with {' and '.join(map(str, THREADS))} workers. The noise is the standard deviation "
        "between the trials of a point in a round, of the log time, pooled over points; its mean is that of the logs. "
        "Ratios are to the same round as in a study, with 95 % t intervals over rounds. "
        "`python -m tests.speed.noise_sources` measures again.",
        "",
        f"| workload | setting | noise | noise over that of '{AS_IN_A_STUDY}' | time per step over that |",
        "| --- | --- | ---: | ---: | ---: |",
        *table(times),
    ]
    write_text(report, "\n".join(lines) + "\n")


if __name__ == "__main__":
    parser = command_line.parser()
    parser.add_argument("report", type=command_line.report, help="docs/speed/noise-sources.md")
    main(parser.parse_args().report)
