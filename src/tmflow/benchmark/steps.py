"""The benchmark of training steps: the configurations, and rounds of fresh processes in shuffled order."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tmflow.analysis import stats
from tmflow.base.errors import BadInput, unknown
from tmflow.benchmark.comparison import geometric_mean, interval_fields
from tmflow.benchmark.storage import LeftOut, SavedSteps, Step
from tmflow.native import registry
from tmflow.native.automatic import consistency_of
from tmflow.runfile.record import Run
from tmflow.spec.models import MODELS, trained_models
from tmflow.spec.trial import TrialSpec
from tmflow.study.adhoc import check_rounds, rounds_of
from tmflow.study.grid import FACTORS, make_spec


def check(subjects: Sequence[StepSubject], rounds: int, reference: str | None) -> None:
    """Raise BadInput if the configurations cannot be compared."""
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
            raise BadInput(f"'{subject.name}' has emulated transactions, whose times mean nothing.")
    names = [subject.name for subject in subjects]
    if reference is not None and reference not in names:
        raise unknown("reference", reference, names)


def measure(subjects: Sequence[StepSubject], rounds: int, reference: str | None) -> SavedSteps:
    """Train every configuration in every round. Ratios are relative to `reference`; default: the first one."""
    by_round: list[dict[str, Run]] = []
    points = [subject.spec for subject in subjects]
    definition = {"points": [point.factors() for point in points]}
    with tempfile.TemporaryDirectory(prefix="tmflow-") as folder:
        rounds_run = rounds_of("bench step", points, definition, rounds, Path(folder))
        for runs in tqdm(rounds_run, total=rounds, disable=None, leave=False, file=sys.stderr, unit="round"):
            by_round.append({run.spec.sha256: run for run in runs})
    return summarised(subjects, by_round, reference or subjects[0].name)


def summarised(subjects: Sequence[StepSubject], by_round: Sequence[dict[str, Run]], reference: str) -> SavedSteps:
    """Summarise the runs; `by_round` has the runs of each round by the hash of their spec."""
    runs_of = {subject.name: [runs[subject.spec.sha256] for runs in by_round] for subject in subjects}
    times = {name: [_us(run) for run in runs] for name, runs in runs_of.items()}
    rows, left_out = [], []
    for subject in subjects:
        name, spec, runs, us_by_round = subject.name, subject.spec, runs_of[subject.name], times[subject.name]
        n_rounds = sum(us is not None for us in us_by_round)
        if not n_rounds:
            failed = any(run.status != "unsupported" for run in runs)
            left_out.append(LeftOut(name=name, reason=runs[0].reason or "", failed=failed))
            continue
        consistency = registry.require(spec.strategy).update_consistency or ""
        step = Step(
            name=name,
            factors=spec.factors(),
            # The model's large variables are split into blocks.
            consistency=consistency_of(spec.strategy, consistency, spec.parameters(), sys.maxsize),
            **interval_fields("us_per_step", geometric_mean(us_by_round), "us"),
            us_by_round=us_by_round,
            ratio_to=reference,
            **interval_fields("ratio", stats.paired_ratio(us_by_round, times[reference])),
            accuracy=float(np.mean([run.final_accuracy for run in runs if run.final_accuracy is not None])),
            rounds=n_rounds,
            disturbed_rounds=sum(bool(run.machine and run.machine.disturbed) for run in runs),
        )
        rows.append(step)
    first = next(iter(by_round[0].values()))
    return SavedSteps(
        measured_at_utc=first.started_at_utc,
        rounds=len(by_round),
        dataset=first.spec.dataset,
        cpus_allowed=len(os.sched_getaffinity(0)),
        platform=first.platform,
        environment=first.environment,
        software=first.software,
        rows=rows,
        left_out=left_out,
    )


def _us(run: Run) -> float | None:
    return None if run.loop_s is None or run.status != "ok" else 1e6 * run.loop_s / run.spec.iterations


# Steps of a trial: about half a second, hundreds of times the start-up of the workers.
STEPS = {"native": 20_000, "session": 2_000}
# A model is slow if its step takes longer than this; then a trial has fewer steps, and fewer images to classify.
SLOW_STEP_US = 1000
IF_SLOW = {"iterations": 200, "test_images": 1000}


@dataclass(frozen=True)
class StepSubject:
    """A configuration; its name is its label, or its factors as written."""

    name: str
    spec: TrialSpec


def parse_step(text: str, dataset: str) -> StepSubject:
    """Parse a configuration "factor=value factor=value", optionally preceded by "label:"."""
    label, colon, factors = text.partition(":")
    if not colon or "=" in label:
        label, factors = text, text
    if not factors.split():
        raise BadInput(f"--step '{text}' has no factor: write it as 'strategy=lock threads=2'.")
    given: dict[str, Any] = {}
    for word in factors.split():
        name, equals, value = word.partition("=")
        if not equals or not name or not value:
            raise BadInput(f"--step '{text}': '{word}' is not of the form factor=value.")
        if name in given:
            raise BadInput(f"--step '{text}' has the factor '{name}' twice: once is enough.")
        given[name] = _value(value)
    where = f"--step '{text}'"
    if "dataset" in given:
        raise BadInput(f"{where}: the dataset is that of all steps; valid: {', '.join(sorted(FACTORS))}.")
    return make_subject(" ".join(label.split()), given, dataset, where)


def make_subject(label: str, given: Mapping[str, Any], dataset: str, where: str) -> StepSubject:
    """The configuration with these factors, and the usual values of the others. Raises BadInput if it is invalid."""
    name, driver = str(given.get("model", "mnist_softmax")), str(given.get("driver", "session"))
    steps = STEPS.get(driver, STEPS["session"])
    usual: dict[str, Any] = {"model": name, "strategy": "lock", "batch": 1, "threads": 1, "iterations": steps}
    if name in trained_models():
        model = MODELS[name]
        usual |= {"learning_rate": model.learning_rate, **model.factors}
        usual |= IF_SLOW if sum(model.step_us["session"]) > SLOW_STEP_US else {}
    return StepSubject(label, make_spec({**usual, **given, "dataset": dataset}, where))


def _value(text: str) -> str | int | float:
    if text.isdecimal():
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


_DEEP = "model=mnist_deep batch=1 threads=2"
_MLP = "model=mnist_mlp activation=sigmoid driver=native"
_COPIES = "strategy=local_steps every=16 reading=consistent"  # workers see each other's updates late
# A step takes 2 to 5 us, so that the usual number of them would take less than a virtual machine may need to let two
# workers run at once.
_SOFTMAX = "model=mnist_softmax driver=native iterations=300000"

# The configurations of the targets (see `targets`), by label.
OF_THE_TARGETS = (
    "softmax, session: model=mnist_softmax driver=session",
    f"softmax, native: {_SOFTMAX}",
    f"softmax, fused native: {_SOFTMAX} kernel=fused",
    f"softmax, fused native, 2 workers: {_SOFTMAX} kernel=fused threads=2",
    f"softmax, fused local steps: {_SOFTMAX} kernel=fused {_COPIES}",
    f"softmax, fused local steps, 2 workers: {_SOFTMAX} kernel=fused {_COPIES} threads=2",
    f"MLP, native: {_MLP} batch=10",
    f"MLP, fused native: {_MLP} batch=10 kernel=fused",
    f"MLP, fused striped, 2 workers: {_MLP} batch=10 kernel=fused strategy=striped threads=2",
    f"MLP, fused combining, 2 workers: {_MLP} batch=10 kernel=fused strategy=combining threads=2",
    f"MLP, fused local steps, 2 workers: {_MLP} batch=10 kernel=fused {_COPIES} threads=2",
    f"MLP, fused nolock, 2 workers: {_MLP} batch=10 kernel=fused strategy=nolock threads=2",
    f"MLP of one image, native: {_MLP}",
    f"MLP of one image, fused native: {_MLP} kernel=fused",
    f"deep, stock: {_DEEP} strategy=tf_lock variables=resource",
    f"deep, fused striped: {_DEEP} strategy=striped kernel=fused",
    f"deep, fused lock: {_DEEP} strategy=lock kernel=fused",
    f"deep, striped: {_DEEP} strategy=striped",
    f"deep, lock: {_DEEP} strategy=lock",
    f"deep, stock on reference variables: {_DEEP} strategy=tf_lock",
)
