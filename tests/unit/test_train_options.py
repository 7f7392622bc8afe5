"""`tmflow train`: an option for each parameter of a strategy, and what it says of a run."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from tests.sample_runs import EMULATED, SOFTWARE_TM, sample_runs
from tmflow import cli
from tmflow.cli.train import _as_json, _as_line
from tmflow.errors import BadInput
from tmflow.runner.runfile import NO_TIME, TIMES
from tmflow.spec import TrialSpec
from tmflow.strategy_parameters import PARAMETERS, owners
from tmflow.study.config import make_spec

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
    assert "5 with study_tsx, 100 with study_power, 10 with tuned" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--strategy", "lock", "--budget", "5"), "tmflow train: budget belongs to htm, not to lock."),
        (
            ("--strategy", "htm", "--chunk", "-1"),
            "tmflow train: chunk is -1, but should be greater than or equal to 0.",
        ),
        (
            ("--strategy", "htm", "--subscription", "mine"),
            "tmflow train: subscription is 'mine', but should be 'variable' or 'ours'.",
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
        (("--dropout-keep", "0.3"), "tmflow train: dropout_keep belongs to mnist_deep, and mnist_deep needs it."),
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
    told = json.loads(_as_json(run))
    assert [told[name] for name in TIMES] == [None] * 4
    assert [point["elapsed_s"] for point in told["curve"]] == [None] * 3
    assert told["no_time"] == NO_TIME
    assert told["final_accuracy"] == run.final_accuracy
    assert told["counters"] == [row.model_dump() for row in run.counters]


def test_a_measured_run_is_told_with_its_times() -> None:
    for strategy in (SOFTWARE_TM, "tle", "tf_lock"):
        (run,) = sample_runs(strategies=(strategy,), threads=(2,), rounds=1)
        assert f"{run.loop_s:.3f} s, " in _as_line(run)
        assert ("critical sections committed" in _as_line(run)) == (strategy != "tf_lock")
        told = json.loads(_as_json(run))
        assert told == {**run.model_dump(mode="json"), "dataset": "digits"}


def test_what_was_fused_is_told() -> None:
    (run,) = sample_runs(strategies=("lock",), threads=(2,), rounds=1)
    assert "fused" not in _as_line(run)
    assert ", fused updates of fc1_W, fc2_W, " in _as_line(run.model_copy(update={"fused": ["fc1_W", "fc2_W"]}))
