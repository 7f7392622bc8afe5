"""`tmflow train`: an option for each parameter of a strategy, and its description of a run."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from tests.support.sample_runs import EMULATED, FULL, SOFTWARE_TM, sample_runs
from tmflow import cli
from tmflow.base.errors import BadInput
from tmflow.cli.train import _as_json, _as_line
from tmflow.runfile.record import NO_TIME, TIMES
from tmflow.spec.factors import DRIVER_FACTORS
from tmflow.spec.strategies import PARAMETERS, WITHOUT_OPTIMISER_STATE, owners
from tmflow.spec.trial import TrialSpec
from tmflow.study.grid import make_spec

SOFTMAX = {"model": "mnist_softmax", "dataset": "mnist", "threads": 1, "batch": 1, "iterations": 1, "learning_rate": 1}


def refusal(*arguments: str) -> str:
    result = CliRunner().invoke(cli.app, ["train", *arguments])
    assert isinstance(result.exception, BadInput)
    return str(result.exception)


def test_help_names_each_parameter_and_the_strategies_that_have_it() -> None:
    result = CliRunner().invoke(cli.app, ["train", "--help"])
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    for name in PARAMETERS:
        says = re.escape(f"{', '.join(owners(name))}: {TrialSpec.model_fields[name].description}")
        assert re.search(rf"--{name} <(int|str)> {says}", text), name
    assert "if not given, 5 with study_tsx, 100 with study_power, 10 with tuned." in text
    assert "if not given, suicide with stm, backoff with block_stm." in text
    assert "if not given, 0 with htm_if_fits and striped and combining, 4096 with block_stm." in text
    assert "if not given, plain." in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--strategy", "lock", "--budget", "5"), "tmflow train: budget belongs to htm, htm_if_fits, not to lock."),
        (
            ("--strategy", "htm", "--chunk", "-1"),
            "tmflow train: chunk is -1, but should be greater than or equal to 0.",
        ),
        (
            ("--strategy", "htm", "--subscription", "mine"),
            "tmflow train: subscription is 'mine', but should be 'variable', 'slots' or 'ours'.",
        ),
        (
            ("--strategy", "htm", "--provider", "emulated", "--profile", "intel-tsx"),
            "unknown profile in tmflow train: 'intel-tsx' (did you mean 'intel-tsx-study'?); valid: ibm-power8-s822, ",
        ),
        (
            ("--strategy", "htm", "--provider", "emulated"),
            "tmflow train: provider emulated needs a profile; valid: ibm-power8-s822, ",
        ),
        (
            ("--strategy", "htm", "--provider", "rtm", "--profile", "intel-tsx-study"),
            "tmflow train: profile belongs to provider emulated, and provider emulated needs one.",
        ),
        (
            ("--dropout-keep", "0.3"),
            "tmflow train: dropout_keep 0.3 belongs to model mnist_deep, not to mnist_softmax.",
        ),
        (
            ("--hidden", "16"),
            "tmflow train: hidden 16 belongs to model mnist_mlp, mnist_sigmoid, not to mnist_softmax.",
        ),
        (
            ("--model", "mnist_mlp", "--activation", "tanh"),
            "tmflow train: activation is 'tanh', but should be 'sigmoid' or 'relu'.",
        ),
        (
            ("--driver", "native", "--variables", "ref"),
            "tmflow train: variables ref belongs to driver session, not to native.",
        ),
        (("--pinning", "cores"), "tmflow train: pinning cores belongs to driver native; driver session allows none: "),
        (
            ("--optimiser", "nadam"),
            "tmflow train: optimiser is 'nadam', but should be 'sgd', 'momentum', 'adagrad' or 'adam'.",
        ),
        (
            ("--optimiser", "adam", "--passes", "forward"),
            "tmflow train: optimiser adam does not go with passes forward, which makes no update.",
        ),
        *(
            (
                ("--driver", "native", "--optimiser", "momentum", "--strategy", strategy),
                f"tmflow train: optimiser momentum does not go with strategy {strategy}, which allows sgd: ",
            )
            for strategy in WITHOUT_OPTIMISER_STATE
        ),
        (
            ("--driver", "native", "--optimiser", "momentum", "--strategy", "lock", "--kernel", "fused"),
            "tmflow train: kernel fused belongs to optimiser sgd; optimiser momentum allows plain: ",
        ),
        (
            ("--driver", "native", "--optimiser", "adam", "--model", "sparse_logistic"),
            "tmflow train: optimiser adam does not fit sparse_logistic, which updates rows: ",
        ),
        (("--reading", "torn"), "tmflow train: reading is 'torn', but should be 'plain' or 'consistent'."),
        (("--layout", "one"), "tmflow train: layout is 'one', but should be 'separate' or 'joined'."),
        (("--measures", "all"), "tmflow train: measures is 'all', but should be 'usual' or 'full'."),
        (
            ("--driver", "native", "--model", "mnist_deep"),
            "tmflow train: driver native does not train mnist_deep; it trains matrix_factorisation, mnist_mlp, "
            "mnist_softmax, skipgram, sparse_logistic.",
        ),
        (("--model", "mnist_deep", "--dropout-keep", "0"), "tmflow train: dropout_keep is 0.0, but should be greater"),
    ],
)
def test_a_bad_parameter_is_one_sentence(arguments: tuple[str, ...], says: str) -> None:
    assert refusal(*arguments).startswith(says)


@pytest.mark.parametrize(
    ("given", "budget"),
    [
        ({}, 5),
        ({"spending": "study_power"}, 100),
        ({"spending": "tuned", "budget": None}, 10),
        ({"spending": "study_power", "budget": 5}, 5),
    ],
)
def test_the_budget_follows_the_spending(given: dict[str, object], budget: int) -> None:
    assert make_spec({**SOFTMAX, "strategy": "htm", **given}, "here").budget == budget


def test_an_emulated_run_is_told_without_its_times() -> None:
    (run,) = sample_runs(strategies=(EMULATED,), threads=(2,), rounds=1)
    line = _as_line(run)
    assert line.startswith(f"round 1: {NO_TIME}, 95.0 % of 2000 critical sections committed, test accuracy 0.90")
    assert line.endswith("on digits (emulated: intel-tsx-study)")
    assert " us " not in line
    document = json.loads(_as_json(run))
    assert [document[name] for name in TIMES] == [None] * 4
    assert [point["elapsed_s"] for point in document["curve"]] == [None] * 3
    assert document["no_time"] == NO_TIME
    assert document["final_accuracy"] == run.final_accuracy
    assert document["counters"] == [row.model_dump() for row in run.counters]


def asked_for(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> TrialSpec:
    """The spec that the command line would train with."""
    asked: list[TrialSpec] = []
    monkeypatch.setattr("tmflow.study.adhoc.train_rounds", lambda spec, *_: iter(asked.append(spec) or ()))
    result = CliRunner().invoke(cli.app, ["train", "--dataset", "digits", *arguments])
    assert result.exit_code == 0, result.exception
    return asked[0]


def test_a_model_needs_no_more_than_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    mlp = asked_for(monkeypatch, "--model", "mnist_mlp")
    assert (mlp.hidden, mlp.activation, mlp.dropout_keep) == (128, "relu", None)
    assert {name: getattr(mlp, name) for name in DRIVER_FACTORS["session"]} == DRIVER_FACTORS["session"]
    own = asked_for(monkeypatch, "--model", "mnist_mlp", "--hidden", "10", "--activation", "sigmoid")
    assert (own.hidden, own.activation) == (10, "sigmoid")


def test_the_learning_rate_has_its_name_and_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for option in ("--learning-rate", "--lr"):
        assert asked_for(monkeypatch, option, "0.25").learning_rate == 0.25


def test_the_native_driver_takes_its_options_and_none_of_the_session_s(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"pinning": "cores", "reading": "consistent", "layout": "joined", "measures": "full", "optimiser": "adam"}
    options = [word for name, value in given.items() for word in (f"--{name}", value)]
    spec = asked_for(monkeypatch, "--driver", "native", *options)
    assert {name: getattr(spec, name) for name in given} == given
    assert {getattr(spec, name) for name in DRIVER_FACTORS["session"]} == {None}


def test_what_full_measures_found_is_told() -> None:
    for strategy in ("lock", EMULATED):
        factors = FULL if strategy == "lock" else {"measures": "full"}
        (run,) = sample_runs(strategies=(strategy,), threads=(2,), rounds=1, **factors)
        line = _as_line(run)
        assert ", 2.50 % of updates lost, 10.00 % of reads torn, " in line
        assert ("of time waiting for locks" in line) == (strategy == "lock")
        counters = json.loads(_as_json(run))["counters"]
        assert {row["lock_held_s"] for row in counters} == {0.002 if strategy == "lock" else None}
    (whole,) = sample_runs(strategies=("lock",), threads=(2,), rounds=1, **FULL)
    assert whole.loop_s
    waited = f"{100 * 2 * 2 * 0.001 / (2 * whole.loop_s):.2f} % of time waiting for locks"
    assert waited in _as_line(whole)
    (usual,) = sample_runs(strategies=("lock",), threads=(2,), rounds=1)
    assert not re.search("lost|torn|locks", _as_line(usual))


def test_a_measured_run_is_told_with_its_times() -> None:
    for strategy in (SOFTWARE_TM, "tle", "tf_lock"):
        (run,) = sample_runs(strategies=(strategy,), threads=(2,), rounds=1)
        assert f"{run.loop_s:.3f} s, " in _as_line(run)
        assert ("critical sections committed" in _as_line(run)) == (strategy != "tf_lock")
        document = json.loads(_as_json(run))
        assert document == {**run.model_dump(mode="json"), "dataset": "digits"}


def test_what_was_fused_is_told() -> None:
    (run,) = sample_runs(strategies=("lock",), threads=(2,), rounds=1)
    assert "fused" not in _as_line(run)
    assert ", fused updates of fc1_W, fc2_W, " in _as_line(run.model_copy(update={"fused": ["fc1_W", "fc2_W"]}))
