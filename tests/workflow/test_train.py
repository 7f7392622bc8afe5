"""`tmflow train` as a program would call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Tmflow
from tmflow.native.loader import library_dir
from tmflow.runfile import record
from tmflow.store import engine, queries
from tmflow.store.run_filter import RunFilter

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


SMALL = ("--dataset", "digits", "--iterations", "20", "--batch", "5", "--curve-points", "2", "--variables", "resource")


def test_what_is_saved_in_a_file_can_be_stored(tmflow: Tmflow, tmp_path: Path) -> None:
    done = tmflow("train", *SMALL, "--save-file", tmp_path / "runs.jsonl")
    assert done.returncode == 0, done.stderr
    assert "test accuracy" in done.stdout
    url = f"sqlite:///{tmp_path / 'study.db'}"
    for new in (1, 0):
        stored = json.loads(tmflow("ingest", "--json", tmp_path / "runs.jsonl", TMFLOW_DB_URL=url).stdout)
        assert stored["runs_new"] == new
    assert json.loads(tmflow("db", "check", "--json", TMFLOW_DB_URL=url).stdout)["ok"]


def test_what_is_saved_is_in_the_database_and_in_the_results(tmflow: Tmflow, tmp_path: Path) -> None:
    """As the notebooks explain; each round has a run file, from which the database can be recreated."""
    variables = {"TMFLOW_RESULTS_DIR": tmp_path / "results", "TMFLOW_DB_URL": None, "TMFLOW_NATIVE_DIR": library_dir()}
    done = tmflow("train", *SMALL, "--rounds", "2", "--save", "--json", **variables)
    assert done.returncode == 0, done.stderr
    trained = [json.loads(line)["uid"] for line in done.stdout.splitlines()]
    assert (
        done.stderr.splitlines()[-1] == f"tmflow: the runs are stored in database {tmp_path / 'results' / 'study.db'}."
    )
    runs = queries.runs(
        engine.open_reader(engine.sqlite_url(tmp_path / "results" / "study.db")), RunFilter(statuses=["ok"])
    )
    assert (list(runs["uid"]), set(runs["scale"])) == (trained, {"adhoc"})
    files = sorted((tmp_path / "results").glob("runs/adhoc/train/*/round-*.jsonl"))
    assert [run.uid for path in files for run in record.read(path)] == trained


def test_a_database_that_cannot_be_used_is_noticed_before_the_training(tmflow: Tmflow, tmp_path: Path) -> None:
    (tmp_path / "study.db").write_text("this is no database, and that is a long text")
    url = f"sqlite:///{tmp_path / 'study.db'}"
    done = tmflow("train", *SMALL, "--save", TMFLOW_RESULTS_DIR=tmp_path, TMFLOW_DB_URL=url)
    assert (done.returncode, done.stdout) == (2, "")
    assert "study.db" in done.stderr
    assert not (tmp_path / "runs").exists()
