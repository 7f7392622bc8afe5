"""The spec: ranges, factors that fit together, and an identity that does not move."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tmflow.spec import TrialSpec, sha256_of
from tmflow.strategy_parameters import owners

SOFTMAX = {
    "model": "mnist_softmax",
    "dataset": "mnist",
    "strategy": "lock",
    "threads": 2,
    "batch": 100,
    "iterations": 1000,
    "learning_rate": 0.5,
}


def test_identity_is_stable_across_versions() -> None:
    # If this changes, every run ever recorded loses its identity: add factors as None, never as a value.
    assert TrialSpec(**SOFTMAX).sha256 == "9ba8c1819f294b14b36de0a3af572a729a2d59df66c2665872e99e87e91f27b5"


def test_a_whole_number_is_a_learning_rate() -> None:
    whole, fraction = (TrialSpec.model_validate({**SOFTMAX, "learning_rate": rate}) for rate in (1, 1.0))
    assert whole.sha256 == fraction.sha256


@pytest.mark.parametrize(
    ("factor", "value"),
    [
        ("threads", 0),
        ("threads", -1),
        ("batch", -5),
        ("batch", 0),
        ("matrix", 785),
        ("matrix", 0),
        ("iterations", 1),  # fewer than threads
        ("learning_rate", 0.0),
        ("learning_rate", float("nan")),
        ("model", "mnist_softmx"),
        ("driver", "native2"),
        ("variables", "reference"),
        ("test_images", 10_001),
        ("curve_points", 1001),
        ("dropout_keep", 0.5),  # mnist_softmax has no dropout
        ("thread", 2),  # unknown
        ("threads", True),  # would count as 1
        ("threads", 2.0),
        ("threads", "2"),
        ("learning_rate", True),
        ("learning_rate", "0.5"),
        ("pinning", "cores"),
    ],
)
def test_bad_factor_is_refused(factor: str, value: object) -> None:
    with pytest.raises(ValidationError) as error:
        TrialSpec.model_validate({**SOFTMAX, factor: value})
    assert factor in str(error.value)


def test_parameters_belong_to_their_strategy() -> None:
    htm = {**SOFTMAX, "strategy": "htm"}
    parameters = {"provider": "rtm", "budget": 0, "spending": "tuned", "chunk": 64}
    spec = TrialSpec.model_validate({**htm, **parameters})
    assert spec.parameters() == parameters
    assert TrialSpec.model_validate(SOFTMAX).parameters() == {}
    assert len({TrialSpec.model_validate({**htm, "budget": budget}).sha256 for budget in (None, 0, 5)}) == 3
    for name, value in parameters.items():
        with pytest.raises(ValidationError, match=f"{name} belongs to {', '.join(owners(name))}, not to lock"):
            TrialSpec.model_validate({**SOFTMAX, name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("provider", "tsx"), ("budget", -1), ("budget", 1_000_001), ("spending", "x"), ("chunk", -1), ("chunk", 1e3)],
)
def test_bad_parameter_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValidationError, match=name):
        TrialSpec.model_validate({**SOFTMAX, "strategy": "htm", name: value})


def test_deep_needs_dropout_and_all_pixels() -> None:
    deep = {**SOFTMAX, "model": "mnist_deep", "dropout_keep": 0.5}
    TrialSpec.model_validate(deep)
    with pytest.raises(ValidationError, match="dropout_keep"):
        TrialSpec.model_validate({**deep, "dropout_keep": None})
    with pytest.raises(ValidationError, match="matrix 100"):
        TrialSpec.model_validate({**deep, "matrix": 100})


@given(st.integers(1, 64), st.integers(1, 64))
def test_different_factors_have_different_identities(one: int, other: int) -> None:
    first, second = (TrialSpec.model_validate({**SOFTMAX, "threads": n}) for n in (one, other))
    assert (first.sha256 == second.sha256) == (one == other)


def test_hash_ignores_the_order_of_keys() -> None:
    assert sha256_of({"a": 1, "b": 2}) == sha256_of({"b": 2, "a": 1})
