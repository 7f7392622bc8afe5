"""Adaptive rounds: an experiment gets one more while an interval that decides one of its comparisons is too wide.

What is compared is time: each variant with the first one that runs here, in the order of config.yaml, other factors
being equal. Only what shows time and says something about scaling takes part: experiments of which a figure is one of
time, and measured runs, with the usual measures, on no more workers than hardware threads.

The rule looks at how wide an interval is, never at where it lies: to go on until a difference shows would find one
sooner or later where there is none. It asks the run files alone, so its answer survives any end of the study.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from tmflow.analysis.stats import BOUND, Interval, paired_ratio
from tmflow.runfile.record import Run
from tmflow.spec.strategies import PARAMETERS
from tmflow.spec.trial import TrialSpec
from tmflow.study.plan import Plan, dataset_path, resolved_dataset

TOO_WIDE = math.log1p(BOUND)  # half the 95 % interval of a log ratio


def may_add(plan: Plan, experiments: Iterable[str] | None = None) -> bool:
    """Whether any of these experiments, or of all, has fewer rounds than it may have."""
    names = plan.experiments if experiments is None else experiments
    return any(plan.rounds(name) < plan.rounds_at_most(name) for name in names)


def wanting(plan: Plan, experiments: Iterable[str] | None = None) -> dict[str, int]:
    """Those of these experiments, or of all, that need one more round, and how many that makes.

    Only of those whose rounds are all measured.
    """
    if not dataset_path(plan.results).exists():
        return {}  # which points are the plan's, nobody knows before the data step
    names = plan.experiments if experiments is None else experiments
    return {name: plan.rounds(name) + 1 for name in names if _wants_more(plan, name)}


def comparisons(points: Sequence[TrialSpec], runs: Iterable[Run]) -> list[Interval]:
    """Of each variant's time the ratio to that of the first variant among `points` that has any, paired in rounds."""
    times: dict[TrialSpec, dict[int, float]] = defaultdict(dict)
    for run in runs:
        if run.loop_s is not None and _decides(run):
            times[run.spec][run.round] = run.loop_s
    alike: dict[frozenset[tuple[str, Any]], list[dict[int, float]]] = defaultdict(list)
    for point in points:
        if point in times:
            alike[_setting(point)].append(times[point])
    return [
        ratio
        for baseline, *others in alike.values()
        for other in others
        if (ratio := paired_ratio([other.get(number) for number in baseline], list(baseline.values())))
    ]


def too_wide(ratio: Interval) -> bool:
    """Whether one cannot tell from a ratio of times what is within 5 %; a single round has no interval at all."""
    return not math.log(ratio.high / ratio.low) / 2 <= TOO_WIDE


def _wants_more(plan: Plan, experiment: str) -> bool:
    if plan.rounds(experiment) >= plan.rounds_at_most(experiment):
        return False
    if not (plan.study.shows_time(experiment) and all(path.exists() for path in plan.run_files(experiment))):
        return False
    points = plan.points(experiment, resolved_dataset(plan.results))
    return any(too_wide(ratio) for ratio in comparisons(points, plan.finished_runs(experiment)))


def _decides(run: Run) -> bool:
    known = [n for n in (run.platform.get("threads_logical"), run.environment.get("cpus_allowed")) if n is not None]
    oversubscribed = bool(known) and run.spec.threads > min(known)
    return run.status == "ok" and run.evidence == "measured" and run.spec.measures == "usual" and not oversubscribed


def _setting(point: TrialSpec) -> frozenset[tuple[str, Any]]:
    """The factors that two points share whose variants are compared: all but strategy and parameters."""
    return frozenset((name, value) for name, value in point.factors().items() if name not in ("strategy", *PARAMETERS))
