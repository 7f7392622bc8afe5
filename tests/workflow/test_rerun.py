"""The command that pages show for a figure runs exactly its experiment."""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path

import pytest

from tests.conftest import TINY, Checkout, Tmflow
from tmflow.study.campaign import rerun

pytestmark = pytest.mark.slow


def test_one_figure_takes_the_rounds_of_its_source_and_nothing_else(
    tmp_path: Path, tmflow: Tmflow, checkout_at: type[Checkout]
) -> None:
    config = deepcopy(TINY)
    factors = {"model": "mnist_softmax", "batch": 10, "iterations": 30, "threads": [1]}
    config["experiments"]["other"] = {"question": "Does the other run?", "factors": factors}
    config["experiments"]["fig-4.2"] = {"question": "And how accurate?", "runs_of": "other", "shows": ["accuracy"]}
    checkout = checkout_at(tmp_path / "checkout", config)
    program, *words = rerun("fig-4.2").split()
    assert program == ".venv/bin/tmflow"
    done = tmflow(*words, "--dry-run", **checkout.variables)
    assert done.returncode == 0, done.stderr
    planned = done.stdout + done.stderr
    assert set(re.findall(r"runs/full/([^/]+)/", planned)) == {"other"}
    assert re.search(r"^figures +1$", planned, re.MULTILINE)
    assert not re.search(r"^(report|notebook) +[0-9]+$", planned, re.MULTILINE)
