"""The noise of a platform: its estimates agree with simulated spreads."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.support.frames import grid
from tmflow.analysis.noise import BINS, deviations, histogram, noise
from tmflow.charts.measure_charts import draw_noise, noise_caption


def measured(own: float, shared: float = 0.0, **changes: object) -> pd.DataFrame:
    """40 rounds of 8 points, with noise of each run and noise shared by the runs of a round."""
    runs = grid(rounds=40, **changes).assign(software_sha256="s")
    rng = np.random.default_rng(7)
    of_round = rng.normal(0, shared, 41)[runs["round"]]
    point = runs["threads"] * (1 + 10 * (runs["strategy"] == "tf_lock"))  # no noise: points differ in their times
    return runs.assign(loop_s=np.exp(rng.normal(0, own, len(runs)) + of_round) / point)


def test_the_spread_over_all_rounds_is_found_whatever_the_points_times() -> None:
    found = noise(deviations(measured(0.03), 8))
    assert (found.runs, found.points, found.rounds) == (320, 8, 40)
    assert found.total == pytest.approx(0.03, rel=0.1)
    assert found.within == pytest.approx(0.03, rel=0.1)


def test_what_a_round_does_to_all_is_no_noise_within_it() -> None:
    found = noise(deviations(measured(0.01, shared=0.1), 8))
    assert found.total == pytest.approx(0.1, rel=0.25)
    assert found.within == pytest.approx(0.01, rel=0.1)


def test_only_measured_usual_runs_that_fit_are_looked_at() -> None:
    runs = measured(0.03)
    assert set(deviations(runs, 4)["threads"]) == {1, 2, 4}
    assert set(deviations(runs, None)["threads"]) == {1, 2, 4, 8}
    assert deviations(runs.assign(measures="full"), 8).empty
    assert deviations(runs.assign(evidence="emulated"), 8).empty
    assert deviations(runs[runs["round"] == 1], 8).empty  # one round shows no spread
    later = runs.assign(software_sha256=[f"software-{number}" for number in runs["round"]])
    assert deviations(later, 8).empty  # nor do rounds of different software


def test_too_few_rounds_tell_no_spread() -> None:
    found = noise(deviations(measured(0.03).head(0), 8))
    assert found == (0, 0, 0, None, None)


def test_the_bars_hold_every_run() -> None:
    found = deviations(measured(0.03), 8)
    bins = histogram(found)
    assert len(bins) == BINS
    assert bins["runs"].sum() == len(found)
    assert bins["share"].sum() == pytest.approx(1)
    assert (bins["high"] > bins["low"]).all()
    drawn = next(iter(draw_noise(bins).to_dict()["datasets"].values()))
    assert [row["runs"] for row in drawn] == bins["runs"].tolist()
    described = noise_caption(noise(found), found, bins, "A box", "all 320 runs of it", "0a1b2c3d")
    assert "320 runs of 8 points in 40 rounds; all 320 runs of it." in described.lines
    assert f"include all deviations beyond {bins['high'].iloc[-1]:.1f} %" in described.text


@pytest.mark.parametrize("same", [0.5, 2.0])
def test_runs_of_equal_time_are_drawn_too(same: float) -> None:
    bins = histogram(deviations(measured(0).assign(loop_s=same), 8))
    assert bins.loc[BINS // 2, "share"] == 1
