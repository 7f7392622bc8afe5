"""The spec: ranges, consistent factors, and a stable identity."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tmflow.base.canonical_json import sha256_of
from tmflow.spec.factors import DRIVER_FACTORS, VALUES_BEFORE
from tmflow.spec.strategies import owners, parameters_of
from tmflow.spec.trial import TrialSpec

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
    # If this changes, every recorded run loses its identity: add factors as None, never as a value.
    assert TrialSpec(**SOFTMAX).sha256 == "9ba8c1819f294b14b36de0a3af572a729a2d59df66c2665872e99e87e91f27b5"


# Specs as hashed by the version before the native driver, and their differences from SOFTMAX.
BEFORE: list[tuple[str, dict[str, object]]] = [
    (
        "172a2c5aefe4c21319533366a2adcb8ebc15425368ee48229ecad3893dcc9661",
        {"variables": "resource", "step_call": "callable", "intra_op_threads": 0, "inter_op_threads": 4}
        | {"kernel": "eigen", "optimisation": "O0"},
    ),
    (
        "63875e1bf0e46cb82327218f94ff24a93a995e1787ebb4f81551d8dcb936c97a",
        {"model": "mnist_deep", "strategy": "tf_lock", "batch": 1, "dropout_keep": 0.5},
    ),
    (
        "533ed89e927f018b17d1f36fb50d57bd874a682937129a57d0943b7269104b51",
        {"strategy": "htm", "provider": "emulated", "profile": "intel-tsx-study", "budget": 5, "kernel": "plain"}
        | {"spending": "study_tsx", "subscription": "variable", "chunk": 0, "optimisation": "O3"},
    ),
    (
        "c791fbb20a0d0728b1e36d5d19343e2917cf61711558b030efd28a1d17b4dad0",
        {"dataset": "digits", "strategy": "stm", "design": "wb_etl", "manager": "suicide", "instrumentation": "shared"}
        | {"chunk": 0, "optimisation": "O3", "curve_points": 3, "test_images": 500, "seed": 7, "matrix": 100},
    ),
]


@pytest.mark.parametrize(("sha256", "factors"), BEFORE)
def test_specs_keep_the_identity_that_they_had_before_the_native_driver(
    sha256: str, factors: dict[str, object]
) -> None:
    assert TrialSpec.model_validate(SOFTMAX | factors).sha256 == sha256
    assert TrialSpec.model_validate(SOFTMAX | factors | VALUES_BEFORE).sha256 == sha256


def test_every_new_factor_makes_another_spec() -> None:
    native = {**SOFTMAX, "driver": "native"}
    mlp = {**native, "model": "mnist_mlp", "hidden": 128, "activation": "relu"}
    specs = [
        SOFTMAX,
        *({**SOFTMAX, name: value} for name, value in (("reading", "consistent"), ("layout", "joined"))),
        {**SOFTMAX, "measures": "full"},
        {**SOFTMAX, "gradient_cost": 2},
        *({**SOFTMAX, "executor": executor} for executor in ("tf_pool", "std_pool", "tbb")),
        {**CLUSTER, "transport": "df"},
        native,
        {**native, "pinning": "cores"},
        mlp,
        {**mlp, "hidden": 10},
        {**mlp, "activation": "sigmoid"},
        *({**SOFTMAX, "strategy": "striped", "block": block} for block in (None, 1, 2048)),
        *({**SOFTMAX, "strategy": "adaptive", "promise": promise} for promise in ("block", "tensor")),
        *({**SOFTMAX, "kernel": kernel} for kernel in ("plain", "fused", "skip_zero")),
    ]
    assert len({TrialSpec.model_validate(spec).sha256 for spec in specs}) == len(specs)


@pytest.mark.parametrize("driver", ["session", "native", "cluster"])
def test_only_its_driver_has_a_factor(driver: str) -> None:
    spec = TrialSpec.model_validate({**SOFTMAX, "driver": driver})
    for owner, factors in DRIVER_FACTORS.items():
        expected = factors if owner == driver else dict.fromkeys(factors)
        assert {name: getattr(spec, name) for name in factors} == expected
        assert bool(set(spec.factors()) & set(factors)) == (owner == driver and bool(factors))


NATIVE = {**SOFTMAX, "driver": "native"}
CLUSTER = {**SOFTMAX, "driver": "cluster", "threads": 2}
MLP = {**SOFTMAX, "model": "mnist_mlp", "hidden": 128, "activation": "relu"}
SPLIT = {**MLP, "driver": "cluster", "mode": "model_parallel"}


@pytest.mark.parametrize(
    ("factors", "says"),
    [
        ({**NATIVE, "gradient_cost": 2}, "gradient_cost 2 belongs to driver session; driver native allows 1"),
        *(({**SOFTMAX, "gradient_cost": cost}, "gradient_cost") for cost in (0, 101, None, 1.5)),
        (
            {**NATIVE, "executor": "tf_pool"},
            "executor tf_pool belongs to drivers session and cluster; driver native allows tensorflow",
        ),
        (
            {**CLUSTER, "executor": "std_pool"},
            "executor std_pool does not go with transport grpc, which allows tensorflow",
        ),
        (
            {**SOFTMAX, "strategy": "htm", **parameters_of("htm"), "subscription": "slots"},
            "subscription slots does not go with optimiser sgd, which has no slots",
        ),
        ({**SOFTMAX, "transport": "df"}, "transport df belongs to driver cluster; driver session allows grpc"),
        ({**CLUSTER, "transport": "mpi"}, "transport"),
        ({**SOFTMAX, "executor": "none"}, "executor"),
        (
            {**SOFTMAX, "executor": "std_pool", "inter_op_threads": 2},
            "inter_op_threads 2 belongs to executors tensorflow and tf_pool; std_pool allows 0",
        ),
        ({**NATIVE, "variables": "ref"}, "variables ref belongs to driver session, not to native"),
        ({**NATIVE, "intra_op_threads": 0}, "intra_op_threads 0 belongs to driver session, not to native"),
        ({**NATIVE, "step_call": "run"}, "step_call run belongs to driver session, not to native"),
        ({**SOFTMAX, "pinning": "cores"}, "pinning cores belongs to driver native; driver session allows none"),
        (
            {**NATIVE, "model": "mnist_deep", "dropout_keep": 0.5},
            "driver native does not train mnist_deep; it trains matrix_factorisation",
        ),
        ({**CLUSTER, "threads": 0}, "threads"),
        ({**CLUSTER, "servers": 0}, "servers"),
        ({**CLUSTER, "servers": 3}, "servers 3 is more than the 2 variables of mnist_softmax"),
        ({**CLUSTER, "servers": 2, "layout": "joined"}, "servers 2 is more than the 1 variable of mnist_softmax"),
        ({**SOFTMAX, "servers": 2}, "servers 2 belongs to driver cluster, not to session"),
        ({**CLUSTER, "variables": "ref"}, "variables ref belongs to driver session, not to cluster"),
        ({**CLUSTER, "pinning": "cores"}, "pinning cores belongs to driver native; driver cluster allows none"),
        ({**CLUSTER, "backup_workers": 1}, "backup_workers 1 belongs to mode sync; mode async allows 0"),
        ({**CLUSTER, "mode": "sync", "backup_workers": 2}, "leaves no worker to wait for: of 2 workers at most 1"),
        ({**CLUSTER, "mode": "sync", "threads": 3, "iterations": 100}, "100 cannot be split over 3 workers"),
        ({**CLUSTER, "mode": "sync", "kernel": "fused"}, "kernel fused belongs to modes async and model_parallel"),
        ({**CLUSTER, "mode": "model_parallel"}, "splits layers over workers, and mnist_softmax has only one"),
        ({**SPLIT, "threads": 1}, "threads 1 does not fit mode model_parallel"),
        ({**SPLIT, "threads": 3}, "splits the 2 layers of mnist_mlp over 2 to 2 workers"),
        ({**SPLIT, "slowdown": 2}, "slowdown 2 belongs to modes async and sync: in mode model_parallel worker 0 takes"),
        ({**SPLIT, "backup_workers": 1}, "backup_workers 1 belongs to mode sync; mode model_parallel allows 0"),
        ({**CLUSTER, "strategy": "leashed"}, "strategy leashed belongs to drivers session and native"),
        ({**CLUSTER, "strategy": "local_steps", "every": 16}, "strategy local_steps belongs to drivers session and"),
        ({**SOFTMAX, "strategy": "local_steps", "every": 0}, "every"),
        ({**SOFTMAX, "every": 4}, "every belongs to local_steps, not to lock"),
        ({**SOFTMAX, "strategy": "block_stm", "block": 0}, r"block 0 \(as fits the variable\) belongs to combining"),
        (
            {**CLUSTER, "strategy": "htm", "provider": "emulated", "profile": "x"},
            "provider emulated belongs to drivers session and native",
        ),
        ({**SOFTMAX, "hidden": 128}, "hidden 128 belongs to model mnist_mlp, mnist_sigmoid, not to mnist_softmax"),
        ({**SOFTMAX, "activation": "relu"}, "activation relu belongs to model mnist_mlp, not to mnist_softmax"),
        ({**MLP, "hidden": None}, "hidden is not given, and model mnist_mlp needs it"),
        ({**MLP, "activation": None}, "activation is not given, and model mnist_mlp needs it"),
        ({**MLP, "hidden": 0}, "hidden"),
        ({**MLP, "activation": "tanh"}, "activation"),
        ({**SOFTMAX, "reading": "atomic"}, "reading"),
        ({**SOFTMAX, "layout": "split"}, "layout"),
        ({**SOFTMAX, "measures": "all"}, "measures"),
        ({**SOFTMAX, "reading": None}, "reading"),
        ({**SOFTMAX, "block": 1}, "block belongs to htm_if_fits, striped, combining, block_stm, not to lock"),
        ({**SOFTMAX, "strategy": "striped", "block": -1}, "block"),
        ({**SOFTMAX, "strategy": "adaptive", "promise": "step"}, "promise"),
        ({**SOFTMAX, "strategy": "htm_if_fits", "fits": -1}, "fits"),
        ({**SOFTMAX, "strategy": "htm", "fits": 1}, "fits belongs to htm_if_fits, not to htm"),
        ({**SOFTMAX, "promise": "block"}, "promise belongs to adaptive, not to lock"),
    ],
)
def test_what_does_not_fit_together_is_told(factors: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        TrialSpec.model_validate(factors)


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
    other = {**SOFTMAX, "strategy": "lock_pthread"}
    for name, value in parameters.items():
        with pytest.raises(ValidationError, match=f"{name} belongs to {', '.join(owners(name))}, not to lock_pthread"):
            TrialSpec.model_validate({**other, name: value})


@pytest.mark.parametrize("strategy", ["lock", "spin", "nolock"])
def test_a_strategy_whose_whole_update_is_its_section_has_one_way_to_say_so(strategy: str) -> None:
    """Two specs of the same trial would be two points."""
    of = {**SOFTMAX, "strategy": strategy}
    assert TrialSpec.model_validate({**of, "chunk": 64}).parameters() == {"chunk": 64}
    assert TrialSpec.model_validate(of).parameters() == {}
    with pytest.raises(ValidationError, match=f"chunk 0 does not fit {strategy}: leave chunk out"):
        TrialSpec.model_validate({**of, "chunk": 0})


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


def test_a_spec_needs_nothing_that_is_slow_to_import() -> None:
    slow = {"tensorflow", "scipy", "pandas", "sqlalchemy"}
    program = f"import sys, tmflow.spec.trial; print(*sorted({slow} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_hash_ignores_the_order_of_keys() -> None:
    assert sha256_of({"a": 1, "b": 2}) == sha256_of({"b": 2, "a": 1})
