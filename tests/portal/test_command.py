"""The command that the portal shows for a run requests exactly that run."""

from __future__ import annotations

import shlex

import pytest
import typer

from tests.support.own_runs import ARRAYS, KERAS, own_spec
from tmflow import cli
from tmflow.spec.trial import TrialSpec
from tmflow.study.campaign import advise_command, train_command

SPECS = [
    TrialSpec(model="mnist_softmax", dataset="digits", strategy="tf_lock", threads=3, batch=7, matrix=100,
              iterations=50, learning_rate=0.123456789, seed=5, step_call="callable", curve_points=2),
    TrialSpec(model="mnist_deep", dataset="mnist", strategy="nolock", variables="resource", threads=1, batch=1,
              iterations=1, learning_rate=1e-5, dropout_keep=0.25, intra_op_threads=0, test_images=10),
    TrialSpec(model="mnist_softmax", dataset="mnist", strategy="htm", threads=2, batch=1, iterations=2,
              learning_rate=0.5, provider="power", budget=0, spending="study_power", chunk=64),
    *(
        TrialSpec.model_validate({"model": "mnist_softmax", "dataset": "mnist", "threads": 2, "batch": 1,
                                  "iterations": 2, "learning_rate": 0.5, **variant})
        for variant in (
            {"strategy": "htm", "provider": "emulated", "profile": "intel-tsx-study", "subscription": "ours"},
            {"strategy": "stm", "design": "wt", "manager": "timestamp", "instrumentation": "all", "chunk": 7},
            {"strategy": "itm", "method": "gl_wt", "library": "/opt/my tm/lib$itm.so", "optimisation": "O0"},
            {"strategy": "tle", "tunables": "custom", "kernel": "eigen"},
            {"strategy": "block_stm", "block": 64, "manager": "delay", "driver": "native", "pinning": "cores"},
            {"strategy": "adaptive", "promise": "block", "reading": "consistent", "layout": "joined"},
            {"strategy": "striped", "block": 1, "kernel": "fused", "measures": "full", "model": "mnist_mlp",
             "hidden": 7, "activation": "sigmoid"},
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.model}-{spec.strategy}")
def test_every_factor_reaches_the_command_line(spec: TrialSpec) -> None:
    program, name, *words = shlex.split(train_command(spec.model_dump(), round=4))
    assert (program, name) == ("tmflow", "train")
    command = typer.main.get_command(cli.app).commands[name]  # type: ignore[attr-defined]
    asked = command.make_context(name, words).params
    expected = spec.factors()
    assert {option: asked[option] for option in expected} == {**expected, "seed": spec.seed + 3}
    assert asked["rounds"] == 1


def test_a_users_own_model_is_measured_by_another_command() -> None:
    definition = {"workers": 4, "consistency": "tensor"}
    for threads in (4, 1):  # one worker is measured for comparison
        asked = advise_command(own_spec(ARRAYS, threads=threads).model_dump(), definition)
        assert asked == "tmflow advise --variables 100x10,10 --step-us 20 --workers 4 --consistency tensor --save"
        command = typer.main.get_command(cli.app).commands["advise"]  # type: ignore[attr-defined]
        params = command.make_context("advise", shlex.split(asked)[2:]).params
        assert (params["workers"], params["consistency"], params["save"]) == (4, "tensor", True)
    asked = advise_command(own_spec(KERAS).model_dump(), {"workers": "$(ls)"})
    assert asked == "tmflow advise FILE.py:FUNCTION --workers '$(ls)' --save"
