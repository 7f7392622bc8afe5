"""Rounds of training: in each, all configurations once, in a fresh process and in shuffled order."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from tmflow.analysis import stats
from tmflow.base.errors import BadInput, unknown
from tmflow.benchmark.left_out import LeftOut
from tmflow.benchmark.step_saved import SavedSteps, Step
from tmflow.benchmark.step_subject import StepSubject
from tmflow.benchmark.subjects import promised
from tmflow.native import registry
from tmflow.runfile.record import Run
from tmflow.study.adhoc import check_rounds, rounds_of


def check(subjects: Sequence[StepSubject], rounds: int, reference: str | None) -> None:
    """Raises BadInput for what cannot be compared."""
    check_rounds(rounds)
    if not subjects:
        raise BadInput("bench step needs a configuration: --step 'factor=value ...', or --targets.")
    seen: dict[str, str] = {}
    for subject in subjects:
        for identity in (subject.name, subject.spec.sha256):
            if identity in seen:
                raise BadInput(f"'{subject.name}' and '{seen[identity]}' are the same configuration: once is enough.")
            seen[identity] = subject.name
        if subject.spec.evidence == "emulated":
            raise BadInput(f"'{subject.name}' has emulated transactions, which take no time that means anything.")
    names = [subject.name for subject in subjects]
    if reference is not None and reference not in names:
        raise unknown("reference", reference, names)


def measure(subjects: Sequence[StepSubject], rounds: int, reference: str | None) -> SavedSteps:
    """Train every configuration in every round. Ratios are to `reference`, the first one if None."""
    by_round: list[dict[str, Run]] = []
    points = [subject.spec for subject in subjects]
    definition = {"points": [point.factors() for point in points]}
    with tempfile.TemporaryDirectory(prefix="tmflow-") as folder:
        told = rounds_of("bench step", points, definition, rounds, Path(folder))
        for runs in tqdm(told, total=rounds, disable=None, leave=False, file=sys.stderr, unit="round"):
            by_round.append({run.spec.sha256: run for run in runs})
    return summarised(subjects, by_round, reference or subjects[0].name)


def summarised(subjects: Sequence[StepSubject], by_round: Sequence[dict[str, Run]], reference: str) -> SavedSteps:
    """What the runs say; each round's are by the hash of their spec."""
    runs = {subject.name: [its[subject.spec.sha256] for its in by_round] for subject in subjects}
    times = {name: [_us(run) for run in its] for name, its in runs.items()}
    ran = [subject for subject in subjects if any(us is not None for us in times[subject.name])]
    first = next(iter(by_round[0].values()))
    return SavedSteps(
        measured_at_utc=first.started_at_utc,
        rounds=len(by_round),
        dataset=first.spec.dataset,
        cpus_allowed=len(os.sched_getaffinity(0)),
        platform=first.platform,
        environment=first.environment,
        software=first.software,
        rows=[_step(subject, runs[subject.name], times[subject.name], reference, times) for subject in ran],
        left_out=[_left_out(subject.name, runs[subject.name]) for subject in subjects if subject not in ran],
    )


def _us(run: Run) -> float | None:
    return None if run.loop_s is None or run.status != "ok" else 1e6 * run.loop_s / run.spec.iterations


def _step(
    subject: StepSubject,
    runs: Sequence[Run],
    us_by_round: list[float | None],
    reference: str,
    times: dict[str, list[float | None]],
) -> Step:
    done = [us for us in us_by_round if us is not None]
    us, us_low, us_high = stats.bounded(stats.ratio_interval(done, [1.0] * len(done)))
    over = stats.paired_ratio(us_by_round, times[reference])
    ratio, ratio_low, ratio_high = stats.bounded(over) if over else (None, None, None)
    return Step(
        name=subject.name,
        factors=subject.spec.factors(),
        promise=_promise(subject),
        us_per_step=us,
        us_low=us_low,
        us_high=us_high,
        us_by_round=us_by_round,
        ratio_to=reference,
        ratio=ratio,
        ratio_low=ratio_low,
        ratio_high=ratio_high,
        accuracy=float(np.mean([run.final_accuracy for run in runs if run.final_accuracy is not None])),
        rounds=len(done),
        disturbed_rounds=sum(bool(run.machine and run.machine.disturbed) for run in runs),
    )


def _promise(subject: StepSubject) -> str:
    """Of updates of the model's large variables: those for which blocks are made."""
    strategy = subject.spec.strategy
    return promised(strategy, registry.require(strategy).promise_updates or "", subject.spec.parameters(), sys.maxsize)


def _left_out(name: str, runs: Sequence[Run]) -> LeftOut:
    return LeftOut(name=name, reason=runs[0].reason or "", failed=any(run.status != "unsupported" for run in runs))
