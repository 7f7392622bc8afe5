"""The spec of a user's own model, and its shapes as text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.support.own_runs import ARRAYS, KERAS, own_spec
from tmflow.base.errors import BadInput
from tmflow.native.availability import unfit_reason
from tmflow.native.registry import resolve
from tmflow.spec.factors import DRIVER_FACTORS
from tmflow.spec.shapes import Shape, describe_shapes, parse_shapes, shapes_text
from tmflow.spec.trial import TrialSpec
from tmflow.study.grid import FACTORS, expand, make_spec
from tmflow.training.models import load_network

DIMENSIONS = st.lists(st.integers(1, 9), min_size=1, max_size=8).map(tuple)
SHAPES = st.lists(st.builds(Shape, DIMENSIONS, st.sampled_from([None, 1])), min_size=1, max_size=20)


@given(SHAPES)
def test_shapes_are_read_from_their_text(shapes: list[Shape]) -> None:
    assert parse_shapes(shapes_text(shapes)) == shapes


def test_a_scalar_is_one_element() -> None:
    assert shapes_text([Shape(()), Shape((3, 4))]) == "1,3x4"


@pytest.mark.parametrize("text", ["", "3x", "0", "3x0", "-1", "03", "3,,4", "3 x 4", "1" * 11, "x".join("1" * 9), "٣"])
def test_what_is_no_shape_is_refused_everywhere(text: str) -> None:
    with pytest.raises(BadInput, match="is no shape of a variable; shapes are like 3136x1024,1024"):
        parse_shapes(text)
    with pytest.raises(ValidationError, match="shapes"):
        own_spec(ARRAYS, shapes=text)


def test_many_shapes_are_described_by_their_numbers() -> None:
    assert describe_shapes("100x10,10") == "variables of 100x10,10"
    assert describe_shapes("100x10,10,3,4,5") == "5 variables of 1,022 elements in all"


def test_its_variables_have_numbers_for_names() -> None:
    variables = load_network("own_model").variables(own_spec(KERAS))
    assert [(variable.name, variable.shape) for variable in variables[:2]] == [
        ("variable 1", (20, 16)), ("variable 2", (16,))
    ]  # fmt: skip


def test_specs_of_other_models_are_other_specs() -> None:
    others: list[dict[str, Any]] = [
        {}, {"shapes": "100x10"}, {"step_us": 21.0}, {"measures": "full"}, {"threads": 1}, {"iterations": 3201},
    ]  # fmt: skip
    of_keras: list[dict[str, Any]] = [{}, {"architecture": "b2" * 32}, {"steps_per_call": 8}, {"optimiser": "adam"}]
    specs = [own_spec(ARRAYS | other) for other in others] + [own_spec(KERAS | other) for other in of_keras]
    assert len({spec.sha256 for spec in specs}) == len(specs)
    assert own_spec(ARRAYS, step_us=20).sha256 == own_spec(ARRAYS).sha256


@pytest.mark.parametrize(
    ("subject", "change", "says"),
    [
        (KERAS, {"shapes": None}, "shapes is not given, and model own_model needs it"),
        (KERAS, {"architecture": None}, "architecture is not given, and driver keras needs it"),
        (KERAS, {"architecture": "dense_1"}, "architecture"),
        (KERAS, {"steps_per_call": None}, "steps_per_call is not given, and driver keras needs it"),
        (KERAS, {"step_us": 1.0}, "step_us 1.0 belongs to driver arrays, not to keras"),
        (KERAS, {"dataset": "mnist"}, "dataset mnist does not fit own_model, which allows own"),
        (KERAS, {"curve_points": 1}, "curve_points 1 does not fit own_model, which allows 0: it is only timed"),
        (KERAS, {"matrix": 100}, "matrix 100 does not fit own_model, which allows 784"),
        (KERAS, {"pinning": "cores"}, "pinning cores belongs to driver native"),
        (ARRAYS, {"step_us": None}, "step_us is not given, and driver arrays needs it"),
        (ARRAYS, {"step_us": -1.0}, "step_us"),
        (ARRAYS, {"driver": "session", "step_us": None}, "driver session does not train own_model; it trains alexnet"),
        (ARRAYS, {"shapes": "100000x100000"}, "the variables have 10,000,000,000 elements, more than 1,000,000,000"),
        (ARRAYS, {"shapes": "10x4:11"}, "'10x4:11' updates 11 rows of a variable that has 10"),
        (ARRAYS, {"shapes": ",".join(["1000"] * 1601)}, "shapes"),
    ],
)
def test_what_no_advice_measures_is_refused(subject: dict[str, Any], change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        own_spec(subject | change)


def test_other_models_have_none_of_its_factors() -> None:
    softmax = make_spec(
        {"model": "mnist_softmax", "dataset": "mnist", "strategy": "lock", "threads": 1, "batch": 1, "iterations": 1,
         "learning_rate": 0.5}, "a test",
    )  # fmt: skip
    for name, value in (("shapes", "3x4"), ("architecture", "a1" * 32), ("steps_per_call", 1), ("step_us", 1.0)):
        with pytest.raises(ValidationError, match=f"{name} .* belongs to "):
            TrialSpec.model_validate(softmax.model_dump() | {name: value})
    of_session = dict.fromkeys(DRIVER_FACTORS["session"])
    of_keras = {"driver": "keras", "architecture": "a1" * 32, "steps_per_call": 1}
    with pytest.raises(ValidationError, match="driver keras does not train mnist_softmax; it trains own_model"):
        TrialSpec.model_validate({**softmax.identity(), **of_session, **of_keras})


@pytest.mark.parametrize(
    ("factors", "says"),
    [
        ({"driver": "keras"}, "driver keras is for `tmflow advise`, which measures a user's own model"),
        ({"driver": "arrays"}, "driver arrays is for `tmflow advise`"),
        ({"model": "own_model"}, "model own_model is for `tmflow advise`"),
        ({"shapes": "3x4"}, "unknown factor in a test: 'shapes'; valid: activation"),
        ({"model": "own_modl"}, "unknown model 'own_modl'; valid: alexnet, [^']*vgg16"),
        ({"driver": "kers"}, "driver is 'kers', but should be 'session', 'native' or 'cluster'"),
    ],
)
def test_commands_and_the_study_refuse_it(factors: dict[str, Any], says: str) -> None:
    usual: dict[str, Any] = {
        "model": "mnist_softmax", "strategy": "lock", "threads": 1, "batch": 1, "iterations": 1, "learning_rate": 0.5
    }  # fmt: skip
    with pytest.raises(BadInput, match=says) as error:
        make_spec({**usual, "dataset": "mnist", **factors}, "a test")
    assert "own_model" not in str(error.value).partition("valid:")[2]
    with pytest.raises(BadInput, match=says):
        expand({name: [value] for name, value in {**usual, **factors}.items()}, {"dataset": "mnist"}, "a test")


def test_no_list_of_factors_of_a_study_has_its_factors() -> None:
    assert not {"shapes", "architecture", "steps_per_call", "step_us"} & set(FACTORS)


@pytest.mark.parametrize("subject", [ARRAYS, KERAS])
def test_no_round_runs_it(subject: dict[str, Any]) -> None:
    spec = own_spec(subject)
    reason = unfit_reason(spec, resolve(spec.strategy, spec.parameters()))
    assert reason == f"driver {spec.driver} is for `tmflow advise`, which measures a user's own model"
