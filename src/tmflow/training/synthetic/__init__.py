"""Synthetic data, a function of the seed: images without meaning, and examples of rows with a planted truth.

Images are measured for the time of a step only. Examples of rows are what recommenders, text classifiers and embeddings
of words train on: each has a few of many things, and a model has a row of numbers for each thing. A model can learn
from them, and what the best model would predict is known. The frequencies of things follow Zipf's law (`zipf`).
"""

from __future__ import annotations

from typing import Protocol

from tmflow.base.canonical_json import sha256_of
from tmflow.spec.models import MODELS
from tmflow.spec.trial import TrialSpec
from tmflow.training.data import TrialData
from tmflow.training.synthetic import contexts, features, images, ratings


class Source(Protocol):
    """A module of this package. IDENTITY has everything but the factors that determines its data."""

    IDENTITY: dict[str, str | int | float]
    TRAIN: int
    TEST: int

    def of_spec(self, spec: TrialSpec, seed: int) -> TrialData:
        """The data of a trial with this seed, made once for the trials of a round."""


_OF_ROWS: dict[str, Source] = {"matrix_factorisation": ratings, "skipgram": contexts, "sparse_logistic": features}


def source_of(model: str) -> Source:
    """What makes the synthetic data of a model."""
    return _OF_ROWS[model] if MODELS[model].by_rows else images


def of_spec(spec: TrialSpec, seed: int) -> TrialData:
    """The synthetic data of a trial with this seed, made once for the trials of a round."""
    return source_of(spec.model).of_spec(spec, seed)


def sha256(spec: TrialSpec) -> str:
    """The hash that identifies what makes the synthetic data of a spec."""
    return sha256_of(source_of(spec.model).IDENTITY)


def tests(spec: TrialSpec) -> int:
    """The number of test examples, or test images, in the synthetic data of a spec."""
    return source_of(spec.model).TEST
