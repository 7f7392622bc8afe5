"""Impossible times that a database can hold: every interval is a number, and no exception is raised."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.sample_runs import sample_runs
from tmflow.analysis import stats
from tmflow.analysis.summaries import speedup, step_time
from tmflow.runfile import record
from tmflow.store import engine, queries
from tmflow.store.ingest import ingest

TIMES = st.floats(min_value=5e-324, max_value=1.7e308)


@given(st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=4))
@example([(5e-324, 1.7e308), (1.7e308, 5e-324)])
@example([(1.7e308, 5e-324), (1.0, 1.0)])
def test_a_ratio_of_any_times_has_an_interval(pairs: list[tuple[float, float]]) -> None:
    above, below = np.array(pairs).T
    for between in (stats.ratio_interval, stats.independent_ratio_interval):
        interval = between(above, below)
        assert 0 < interval.estimate <= stats.BEYOND * (1 + 1e-12)
        bounds = [bound for bound in (interval.low, interval.high) if not math.isnan(bound)]
        assert len(bounds) == (0 if len(pairs) == 1 else 2)
        assert all(0 < bound < math.inf for bound in bounds)


@pytest.mark.parametrize("seconds", [5e-324, 1e-300, 1e300, 1.7e308])
def test_summaries_of_times_that_no_run_has(seconds: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("times")
    runs = sample_runs(strategies=("tf_lock", "nolock"), threads=(1, 2), rounds=6)
    record.write(folder / "runs.jsonl", runs)
    url = engine.sqlite_url(folder / "study.db")
    ingest(url, [folder / "runs.jsonl"])
    table = queries.runs(engine.open_reader(url))
    table.loc[table.index % 3 == 0, "loop_s"] = seconds  # which the queries would show as an invalid run
    for summary in (speedup(table), step_time(table)):
        assert np.isfinite(summary["estimate"].to_numpy(float)).all()
        assert (summary["low"] <= summary["high"]).all()
