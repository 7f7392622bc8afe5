"""A model is one file and one entry, and is then available everywhere. Both are the examples of docs/add-a-model.md."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, TINY, Checkout, Tmflow
from tests.workflow.conftest import Portal
from tmflow.spec.models import trained_models

pytestmark = pytest.mark.slow

LAST = "    }\n)\n"  # the end of the table of models


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory, checkout_at: type[Checkout]) -> Checkout:
    """A checkout with the model of the docs: its file and its entry."""
    checkout = checkout_at(tmp_path_factory.mktemp("toy") / "checkout", _with_models("mnist_softmax", "toy"))
    shutil.copytree(ROOT / "src", checkout.root / "src")
    network, entry = re.findall("```python\n(.*?)```", (ROOT / "docs" / "add-a-model.md").read_text(), re.DOTALL)
    package = checkout.root / "src" / "tmflow"
    (package / "training" / "models" / "toy.py").write_text(network, encoding="utf-8")
    facts = package / "spec" / "models.py"
    text = facts.read_text(encoding="utf-8")
    assert text.count(LAST) == 1
    facts.write_text(text.replace(LAST, entry + LAST), encoding="utf-8")
    return checkout


@pytest.fixture(scope="module")
def variables(extended: Checkout) -> dict[str, str | Path | None]:
    return {**extended.variables, "PYTHONPATH": extended.root / "src"}


def test_help_and_errors_name_it(tmflow: Tmflow, variables: dict[str, Any]) -> None:
    said = " ".join(tmflow("train", "--help", **variables).stdout.split())
    assert "; toy: one hidden layer of tanh units." in said
    assert (
        "--hidden <int> mnist_mlp, mnist_sigmoid, toy: units of the hidden layer; if not given, 128 with mnist_mlp, "
        "100 with mnist_sigmoid, 32 with toy." in said
    )
    refused = tmflow("train", "--model", "toys", **variables)
    assert refused.returncode == 2
    models = ", ".join(sorted([*trained_models(), "toy"]))
    assert f"unknown model 'toys' (did you mean 'toy'?); valid: {models}." in refused.stderr
    unfit = tmflow("train", "--model", "toy", "--driver", "native", **variables)
    assert unfit.returncode == 2
    assert "driver native does not train toy; it trains matrix_factorisation, mnist_mlp, mnist_so" in unfit.stderr


def test_the_config_takes_it_and_the_plan_has_its_cost(
    extended: Checkout, tmflow: Tmflow, variables: dict[str, Any]
) -> None:
    estimates = {}
    for models in (("mnist_softmax",), ("mnist_softmax", "toy")):
        extended.configure(_with_models(*models))
        done = tmflow("study", "plan", "--json", **variables)
        assert done.returncode == 0, done.stderr
        (row,) = json.loads(done.stdout)
        estimates[models] = row["estimated_s"], row["trials"]
    (alone_s, alone), (both_s, both) = estimates.values()
    assert both == 3 * alone  # two widths of the toy model, and one point of softmax
    assert both_s > alone_s


def test_it_trains_and_the_portal_filters_by_it(
    tmflow: Tmflow, variables: dict[str, Any], tmp_path: Path, portal_at: Portal
) -> None:
    runs, url = [], f"sqlite:///{tmp_path / 'study.db'}"
    small = ("--dataset", "digits", "--iterations", "300", "--batch", "10", "--lr", "0.1", "--threads", "2")
    for model, driver in (("mnist_softmax", "native"), ("toy", "session")):
        runs.append(tmp_path / f"{model}.jsonl")
        how = ("--driver", driver, "--kernel", "fused", "--save-file", runs[-1], "--json")
        done = tmflow("train", "--model", model, *small, *how, **variables)
        assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert run["spec"]["hidden"] == 32
    assert run["fused"] == ["fc1_W", "fc2_W"]
    assert run["final_accuracy"] > 0.7
    stored = tmflow("ingest", *runs, **{**variables, "TMFLOW_DB_URL": url})
    assert stored.returncode == 0, stored.stderr

    (models,) = (box for box in portal_at(url, "runs").multiselect if box.label == "Model")
    assert models.options == ["mnist_softmax (1)", "toy (1)"]
    (listing,) = portal_at(url, "runs", model="toy").dataframe
    assert listing.value["final_accuracy"].tolist() == [run["final_accuracy"]]


def _with_models(*names: str) -> dict[str, Any]:
    factors = TINY["experiments"]["tiny"]["factors"] | {"model": list(names)}
    if "toy" in names:
        factors |= {"hidden": [8, 16]}
    return TINY | {"experiments": {"tiny": TINY["experiments"]["tiny"] | {"factors": factors}}}
