"""`tmflow train`, as a program would call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Tmflow

pytestmark = pytest.mark.slow

SOFTMAX = ("--model", "mnist_softmax", "--batch", "100", "--iterations", "1000", "--lr", "0.5", "--dataset", "mnist")


@pytest.mark.parametrize("strategy", ["lock", "tf_lock"])
def test_softmax_reaches_the_accuracy_of_the_study(tmflow: Tmflow, strategy: str) -> None:
    done = tmflow("train", *SOFTMAX, "--strategy", strategy, "--threads", "2", "--rounds", "2", "--json")
    assert done.returncode == 0, done.stderr
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rounds) == 2
    for number, run in enumerate(rounds, start=1):
        assert 0.91 <= run["final_accuracy"] <= 0.925
        assert run["loop_s"] > 0
        assert (run["round"], run["status"], run["evidence"], run["dataset"]) == (number, "ok", "measured", "mnist")
        assert run["spec"]["strategy"] == strategy
        assert sum(row["steps"] for row in run["staleness"]) == 1000
    if strategy == "lock":
        assert sum(row["updates"] for row in rounds[0]["counters"] if row["variable"] == "W") == 1000


def test_what_is_saved_can_be_stored(tmflow: Tmflow, tmp_path: Path) -> None:
    small = (
        "--dataset",
        "digits",
        "--iterations",
        "20",
        "--batch",
        "5",
        "--curve-points",
        "2",
        "--variables",
        "resource",
    )
    done = tmflow("train", *small, "--save", tmp_path / "runs.jsonl")
    assert done.returncode == 0, done.stderr
    assert "test accuracy" in done.stdout
    url = f"sqlite:///{tmp_path / 'study.db'}"
    for new in (1, 0):
        stored = json.loads(tmflow("ingest", "--json", tmp_path / "runs.jsonl", TMFLOW_DB_URL=url).stdout)
        assert stored["runs_new"] == new
    assert json.loads(tmflow("db", "check", "--json", TMFLOW_DB_URL=url).stdout)["ok"]
