"""Measure the cluster driver on this machine: `python -m tests.speed.cluster_speed REPORT.md`.

Strategies alternate on one cluster, in another order each round, so all meet the same moments of the machine. Ratios
are paired within rounds. Not a test, because it needs a quiet machine for some minutes.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

from tests.speed.cluster_counters import BLOCK, PAIRS, cost_of_counters
from tests.support import command_line
from tmflow.analysis.stats import Interval, ratio_interval
from tmflow.base.clock import utc_now
from tmflow.base.files import write_text
from tmflow.base.text import interval
from tmflow.benchmark.text import state
from tmflow.native.registry import resolve
from tmflow.platform.facts import display_name, platform_facts
from tmflow.runfile.record import MachineState
from tmflow.runner import machine_load
from tmflow.spec.models import factors_of
from tmflow.spec.trial import TrialSpec
from tmflow.study.grid import make_spec
from tmflow.training.cluster.driver import POOL, Cluster, Variant
from tmflow.training.cluster.phases import PHASES

ROUNDS = 7
LINE = 120
BASE = "tf_lock"
COUNTED = ("mnist_softmax", "mnist_deep")  # models whose steps are timed with and without counters
STARTED = (1, 4)  # servers and workers whose start is timed
TARGETS = {"start_s": 15.0, "fused": 0.5, "consistent": 0.9, "counters": 1.02}
FACTORS: dict[str, dict[str, Any]] = {
    "tf_lock": {},
    "tf_nolock": {},
    "lock": {},
    "striped": {},
    "combining": {},
    "block_stm": {},
    "lock, fused": {"kernel": "fused"},
}


class Trial(NamedTuple):
    """What a trial took, per step: seconds, and seconds of each phase by the mean of the workers."""

    step_s: float
    phases: Mapping[str, float]


def spec_of(name: str, model: str = "mnist_deep", workers: int = 2) -> TrialSpec:
    """A trial with batches of one image."""
    factors = {
        "model": model, "dataset": "mnist", "driver": "cluster", "strategy": name.partition(",")[0],
        "threads": workers, "batch": 1, "iterations": 300, "learning_rate": 0.01, "test_images": 100,
    }  # fmt: skip
    return make_spec({**factors_of(model), **factors, **FACTORS[name]}, "the benchmark")


def measure() -> dict[str, list[Trial]]:
    """The trials of each strategy, one for each round."""
    specs = {name: spec_of(name) for name in FACTORS}
    variants = {
        name: Variant(spec, resolve(spec.strategy, spec.parameters()), spec.threads) for name, spec in specs.items()
    }
    for name, variant in variants.items():
        variant.warm_up(None, specs[name].batch, specs[name].threads)
    trials: dict[str, list[Trial]] = defaultdict(list)
    for round_number in range(1, ROUNDS + 1):
        for name in random.Random(round_number).sample(list(specs), len(specs)):
            measured = variants[name].run(specs[name], round_number, None)
            phases = {
                phase: statistics.mean(row["seconds"] for row in measured.phases if row["phase"] == phase)
                for phase in PHASES
            }
            trials[name].append(Trial(measured.loop_s / specs[name].iterations, phases))
    return trials


def in_words(ratio: Interval) -> str:
    """A ratio with its interval."""
    return interval(ratio.estimate, ratio.low, ratio.high)


def time_start() -> float:
    """Seconds until 1 server and 4 workers have started."""
    began = time.monotonic()
    Cluster(*STARTED).close()
    return time.monotonic() - began


def report() -> Iterator[str]:
    """The lines of the report."""
    before = machine_load.sample()
    start_s = time_start()
    trials = measure()
    POOL.close()
    counters = {model: cost_of_counters(spec_of(BASE, model, workers=1)) for model in COUNTED}
    meanwhile = MachineState(**machine_load.between(before, machine_load.sample()))
    yield "# How fast a cluster on one machine is"
    yield ""
    yield from wrap(
        f"{display_name(platform_facts())}; {utc_now()[:10]}. Written by `python -m tests.speed.cluster_speed`. "
        f"mnist_deep, batches of one image, 1 server and 2 workers, mode async, {ROUNDS} rounds of "
        f"{spec_of(BASE).iterations} steps; the strategies alternate. The ratio is of the time per step to that of "
        f"{BASE} in the same round, with its 95 % interval. The phases are those of one worker's step, of which two "
        "overlap in time; traced steps take longer than others.",
        LINE,
    )
    yield ""
    yield from table(trials)
    yield ""
    yield from wrap(
        f"Starting {STARTED[0]} server and {STARTED[1]} workers, until all are ready, and ending them took "
        f"{start_s:.1f} s (target: {TARGETS['start_s']:g} s). Targets of the ratio: {TARGETS['fused']:g} with fused "
        f"updates, {TARGETS['consistent']:g} for the best other consistent strategy.",
        LINE,
    )
    yield ""
    costs = " and ".join(f"{in_words(ratio)} for {model}" for model, ratio in counters.items())
    yield from wrap(
        f"With 1 worker, the time of a step of {BASE} with all counters over that without any is {costs} (target: "
        f"{TARGETS['counters']:g}; {PAIRS} pairs of {BLOCK} steps).",
        LINE,
    )
    yield ""
    yield f"Meanwhile {state(meanwhile)}; at the end the load average over 5 minutes was {os.getloadavg()[1]:.1f}."


def table(trials: Mapping[str, Sequence[Trial]]) -> Iterator[str]:
    """The time per step of each strategy, its ratio to the base, and the medians of its phases over rounds."""
    yield f"| strategy | ms per step | ratio | {' | '.join(f'{phase}, ms' for phase in PHASES)} |"
    yield f"|---|--:|--:|{'--:|' * len(PHASES)}"
    base = [trial.step_s for trial in trials[BASE]]
    for name, of in trials.items():
        steps = [trial.step_s for trial in of]
        ratio = "" if name == BASE else in_words(ratio_interval(steps, base))
        phases = [1e3 * statistics.median(trial.phases[phase] for trial in of) for phase in PHASES]
        cells = [name, f"{1e3 * statistics.median(steps):.1f}", ratio, *(f"{ms:.1f}" for ms in phases)]
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    parser = command_line.parser()
    parser.add_argument("report", type=command_line.report, help="the Markdown file to write")
    asked = parser.parse_args()
    write_text(asked.report, "\n".join(report()) + "\n")
