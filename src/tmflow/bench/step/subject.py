"""The configurations whose steps are timed: written as factors, or those of the targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tmflow.errors import BadInput
from tmflow.spec import TrialSpec
from tmflow.study.config import FACTORS, make_spec

# What a model is trained with if not said otherwise. mnist_deep learns nothing at the study's rate of 0.5.
OF_THE_MODEL: dict[str, dict[str, Any]] = {
    "mnist_softmax": {"learning_rate": 0.5},
    "mnist_mlp": {"learning_rate": 0.5, "hidden": 128, "activation": "sigmoid"},
    "mnist_deep": {"learning_rate": 0.01, "dropout_keep": 0.5, "test_images": 1000},
}
# Steps of a trial: half a second's worth or so, hundreds of times what starting the workers takes.
STEPS = {"native": 20_000, "session": 2_000}
DEEP_STEPS = 200


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
    model, driver = str(given.get("model", "mnist_softmax")), str(given.get("driver", "session"))
    steps = DEEP_STEPS if model == "mnist_deep" else STEPS.get(driver, STEPS["session"])
    usual = {"model": model, "batch": 1, "threads": 1, "iterations": steps, **OF_THE_MODEL.get(model, {})}
    return make_spec({"strategy": "lock", **usual, **given, "dataset": dataset}, where)


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
    "MLP, native: model=mnist_mlp driver=native batch=10",
    f"deep, stock: {_DEEP} strategy=tf_lock variables=resource",
    f"deep, fused striped: {_DEEP} strategy=striped kernel=fused",
    f"deep, fused lock: {_DEEP} strategy=lock kernel=fused",
    f"deep, striped: {_DEEP} strategy=striped",
    f"deep, lock: {_DEEP} strategy=lock",
    f"deep, stock on reference variables: {_DEEP} strategy=tf_lock",
)
