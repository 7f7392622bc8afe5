"""The databases for measuring the portal's speed are as complete as one filled by a study."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.speed.many_runs import make
from tmflow.store import engine, queries, schema
from tmflow.store.engine import sqlite_url
from tmflow.store.run_filter import RunFilter

N = 1500


@pytest.mark.deep
def test_a_database_of_many_runs_is_whole_and_no_two_platforms_are_alike(tmp_path: Path) -> None:
    make(N, tmp_path / "many.db")
    url = sqlite_url(tmp_path / "many.db")
    assert schema.check(url).problems == ()
    reader = engine.open_reader(url)
    counts = queries.counts(reader)
    runs = queries.runs(reader, RunFilter(newest_definitions=True))
    assert len(runs) == counts["n_runs"].sum() == N
    assert {"measured", "emulated"} <= set(runs["evidence"])
    assert {"ok", "unsupported", "failed"} <= set(runs["status"])
    assert {"full", "quick"} <= set(runs["scale"])
    timed = runs["loop_s"].dropna()
    assert timed.nunique() == len(timed)
    assert runs["platform"].nunique() > 4
