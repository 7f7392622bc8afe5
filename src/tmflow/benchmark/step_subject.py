"""The configurations whose steps are timed: written as factors, or those of the targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tmflow.base.errors import BadInput
from tmflow.spec.trial import TrialSpec
from tmflow.study.config import FACTORS, make_spec
from tmflow.training.models import MODELS

# Steps of a trial: half a second's worth or so, hundreds of times what starting the workers takes.
STEPS = {"native": 20_000, "session": 2_000}
# A model is slow if its step takes longer than this; then a trial has fewer steps, and fewer images to classify.
SLOW_STEP_US = 1000
IF_SLOW = {"iterations": 200, "test_images": 1000}


@dataclass(frozen=True)
class StepSubject:
    """A configuration by its name: its label, or its factors as they were written."""

    name: str
    spec: TrialSpec


def parse_step(text: str, dataset: str) -> StepSubject:
    """The configuration written as "factor=value factor=value", with "label:" before it if it is to have a name."""
    label, colon, factors = text.partition(":")
    if not colon or "=" in label:
        label, factors = text, text
    given: dict[str, Any] = {}
    if not factors.split():
        raise BadInput(f"--step '{text}' has no factor: write it as 'strategy=lock threads=2'.")
    for word in factors.split():
        name, equals, value = word.partition("=")
        if not equals or not name or not value:
            raise BadInput(f"--step '{text}': '{word}' is not of the form factor=value.")
        if name in given:
            raise BadInput(f"--step '{text}' has the factor '{name}' twice: once is enough.")
        given[name] = _value(value)
    return StepSubject(" ".join(label.split()), _spec(given, dataset, f"--step '{text}'"))


def _spec(given: dict[str, Any], dataset: str, where: str) -> TrialSpec:
    if "dataset" in given:
        raise BadInput(f"{where}: the dataset is that of all steps; valid: {', '.join(sorted(FACTORS))}.")
    name, driver = str(given.get("model", "mnist_softmax")), str(given.get("driver", "session"))
    steps = STEPS.get(driver, STEPS["session"])
    usual: dict[str, Any] = {"model": name, "strategy": "lock", "batch": 1, "threads": 1, "iterations": steps}
    if model := MODELS.get(name):
        usual |= {"learning_rate": model.learning_rate, **model.factors}
        usual |= IF_SLOW if sum(model.step_us["session"]) > SLOW_STEP_US else {}
    return make_spec({**usual, **given, "dataset": dataset}, where)


def _value(text: str) -> str | int | float:
    if text.isdecimal():
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


_DEEP = "model=mnist_deep batch=1 threads=2"

# The configurations of the targets (see `targets`), by label.
OF_THE_TARGETS = (
    "softmax, session: model=mnist_softmax driver=session",
    "softmax, native: model=mnist_softmax driver=native",
    "MLP, native: model=mnist_mlp activation=sigmoid driver=native batch=10",
    f"deep, stock: {_DEEP} strategy=tf_lock variables=resource",
    f"deep, fused striped: {_DEEP} strategy=striped kernel=fused",
    f"deep, fused lock: {_DEEP} strategy=lock kernel=fused",
    f"deep, striped: {_DEEP} strategy=striped",
    f"deep, lock: {_DEEP} strategy=lock",
    f"deep, stock on reference variables: {_DEEP} strategy=tf_lock",
)
