"""Adaptive rounds: an experiment gets another round while the interval of one of its comparisons is too wide.

The comparisons are of time: each variant with the first variant that runs here, in the order of config.yaml, with all
other factors equal. They include only experiments with a figure of time, and only measured runs with the usual
measures and no more workers than hardware threads.

The rule considers the width of an interval, never its position: to continue until a difference shows would eventually
find one where there is none. It reads only the run files, so its result does not depend on how the study ended.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from tmflow.analysis.repeats import mean_time
from tmflow.analysis.stats import BOUND, Interval, paired_ratio
from tmflow.runfile.record import Run
from tmflow.spec.strategies import PARAMETERS
from tmflow.spec.trial import TrialSpec
from tmflow.study.plan import Plan, dataset_path, resolved_dataset

TOO_WIDE = math.log1p(BOUND)  # half the 95 % interval of a log ratio


def may_add(plan: Plan, experiments: Iterable[str] | None = None) -> bool:
    """Whether any of these experiments (default: all) has fewer rounds than it may have."""
    names = plan.experiments if experiments is None else experiments
    return any(plan.rounds(name) < plan.rounds_at_most(name) for name in names)


def wanting(plan: Plan, experiments: Iterable[str] | None = None) -> dict[str, int]:
    """The experiments (of these, default: all) that need another round, with their new number of rounds.

    Includes only experiments whose rounds are all measured.
    """
    if not dataset_path(plan.results).exists():
        return {}  # the points of the plan are unknown before the data step
    names = plan.experiments if experiments is None else experiments
    return {name: plan.rounds(name) + 1 for name in names if _wants_more(plan, name)}


def comparisons(points: Sequence[TrialSpec], runs: Iterable[Run]) -> list[Interval]:
    """Time ratios of each variant to the first variant with a time, in the order of `points`, paired by round."""
    repeats: dict[TrialSpec, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if run.loop_s is not None and _decides(run):
            repeats[run.spec][run.round].append(run.loop_s)
    times = {
        spec: {number: mean_time(seconds) for number, seconds in rounds.items()} for spec, rounds in repeats.items()
    }
    groups: dict[frozenset[tuple[str, Any]], list[dict[int, float]]] = defaultdict(list)
    for point in points:
        if point in times:
            groups[_setting(point)].append(times[point])
    return [
        ratio
        for baseline, *variants in groups.values()
        for variant in variants
        if (ratio := paired_ratio([variant.get(number) for number in baseline], list(baseline.values())))
    ]


def too_wide(ratio: Interval) -> bool:
    """Whether the interval of a time ratio is too wide to decide about 5 %; always for a single round."""
    return not math.log(ratio.high / ratio.low) / 2 <= TOO_WIDE


def _wants_more(plan: Plan, experiment: str) -> bool:
    if plan.rounds(experiment) >= plan.rounds_at_most(experiment):
        return False
    if not (plan.study.shows_time(experiment) and all(path.exists() for path in plan.run_files(experiment))):
        return False
    points = plan.points(experiment, resolved_dataset(plan.results))
    return any(too_wide(ratio) for ratio in comparisons(points, plan.finished_runs(experiment)))


def _decides(run: Run) -> bool:
    limits = [n for n in (run.platform.get("threads_logical"), run.environment.get("cpus_allowed")) if n is not None]
    oversubscribed = bool(limits) and run.spec.threads > min(limits)
    return run.status == "ok" and run.evidence == "measured" and run.spec.measures == "usual" and not oversubscribed


def _setting(point: TrialSpec) -> frozenset[tuple[str, Any]]:
    """The factors that two compared points share: all except the strategy and its parameters."""
    return frozenset((name, value) for name, value in point.factors().items() if name not in ("strategy", *PARAMETERS))
