"""`tmflow study noise` prints the variance components of the stored runs, or says why there are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import URL
from typer.testing import CliRunner

from tests.support.sample_runs import sample_runs
from tmflow.base.errors import BadInput
from tmflow.cli import app
from tmflow.runfile import record
from tmflow.store import schema
from tmflow.store.ingest import ingest

RUNNER = CliRunner()


@pytest.fixture
def stored(sqlite: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> URL:
    monkeypatch.setenv("TMFLOW_DB_URL", sqlite.render_as_string(hide_password=False))
    first = sample_runs(strategies=("tf_lock", "lock"), threads=(1, 2), rounds=4)
    slower = {run.uid: 1 + run.round * (0.02 if run.spec.strategy == "lock" else 0.01) for run in first}
    further = [
        run.model_copy(update={"uid": f"{run.uid}-2", "repeat": 2, "loop_s": (run.loop_s or 1) * slower[run.uid]})
        for run in first
    ]
    record.write(tmp_path / "round-001.jsonl", [*first, *further])
    schema.upgrade(sqlite)
    ingest(sqlite, [tmp_path / "round-001.jsonl"])
    return sqlite


def test_the_components_of_stored_runs(stored: URL) -> None:
    done = RUNNER.invoke(app, ["study", "noise"])
    assert done.exit_code == 0, done.output
    assert "fig_4_1" in done.output
    assert "repeats" in done.output.splitlines()[-1]
    (row,) = json.loads(RUNNER.invoke(app, ["study", "noise", "--json"]).output)
    assert (row["points"], row["rounds"], row["trials"], row["times"]["method"]) == (4, 4, 32, "repeats")
    by_repeats = row["ratio_of_round_by_repeats"]
    assert by_repeats["1"] > by_repeats["2"] > by_repeats["4"]


def test_nothing_measured_is_one_sentence(stored: URL) -> None:
    with pytest.raises(BadInput, match="no measured point with two rounds"):
        RUNNER.invoke(app, ["study", "noise", "--scale", "quick"], catch_exceptions=False)
    with pytest.raises(BadInput, match="platform 'nowhere'"):
        RUNNER.invoke(app, ["study", "noise", "--platform", "nowhere"], catch_exceptions=False)
    assert json.loads(RUNNER.invoke(app, ["study", "noise", "--scale", "quick", "--json"]).output) == []
