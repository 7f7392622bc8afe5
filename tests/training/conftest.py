"""Fixtures of the training tests: MNIST, read once, and trials with either driver."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from tmflow import datasets
from tmflow.native.registry import ResolvedStrategy, resolve
from tmflow.runfile import record
from tmflow.runner.round import make_variant
from tmflow.spec.models import MODELS
from tmflow.spec.trial import TrialSpec
from tmflow.training.data import TrialData
from tmflow.training.measurement import Measurement

SEED = 5
Run = Callable[[TrialSpec], Any]
Train = Callable[..., Any]


def make_spec(model: str = "mnist_softmax", **factors: Any) -> TrialSpec:
    """A short trial on MNIST with one worker, or on the model's synthetic images; `factors` replace its factors."""
    dataset = "synthetic" if MODELS[model].synthetic else "mnist"
    defaults = {
        "dataset": dataset, "strategy": "lock", "threads": 1, "batch": 20, "iterations": 50, "learning_rate": 0.5,
        "matrix": 784, "test_images": 2000, **MODELS[model].factors,
    }  # fmt: skip
    return TrialSpec.model_validate({**defaults, "model": model, **factors})


def strategy_of(spec: TrialSpec) -> ResolvedStrategy:
    """The strategy of a spec, with its parameters."""
    return resolve(spec.strategy, spec.parameters())


ROWS: dict[str, type[BaseModel]] = {
    "curve": record.CurvePoint,
    "counters": record.Counters,
    "aborts": record.Abort,
    "staleness": record.Staleness,
    "retries": record.Retries,
    "failed_publications": record.FailedPublications,
    "taken_blocks": record.TakenBlocks,
    "reads": record.Reads,
    "lost": record.Lost,
}


def checked(measured: Measurement) -> Any:
    """The measurement, with its rows validated like those of a run."""
    rows = {name: [kind(**row) for row in getattr(measured, name)] for name, kind in ROWS.items()}
    return SimpleNamespace(**{**vars(measured), **rows})


@pytest.fixture(scope="session")
def mnist() -> datasets.Dataset:
    return datasets.load("mnist")


@pytest.fixture(scope="session")
def trial_data(mnist: datasets.Dataset) -> TrialData:
    """All pixels, in the order of SEED."""
    return TrialData.make(mnist, 784, SEED)


@pytest.fixture(scope="session")
def run(mnist: datasets.Dataset, trial_data: TrialData) -> Run:
    """Train according to a spec, with either driver."""
    truncated = lru_cache(1)(lambda matrix: TrialData.make(mnist, matrix, SEED))

    def run(spec: TrialSpec) -> Any:
        variant = make_variant(spec, strategy_of(spec), spec.threads, SEED)
        try:
            return checked(variant.run(spec, SEED, trial_data if spec.matrix == 784 else truncated(spec.matrix)))
        finally:
            variant.close()

    return run


@pytest.fixture(scope="session")
def train(run: Run) -> Train:
    """Train with these factors."""
    return lambda **factors: run(make_spec(**factors))
