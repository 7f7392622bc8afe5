"""The variance components of simulated times are those that made them, with repeats and without."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support.frames import grid
from tmflow.analysis.variance import (
    Components,
    Variance,
    as_json,
    as_text,
    by_experiment,
    components,
    paired_log_ratios,
    trial_noise,
    variance,
)

BOX = ("box-1", "fig_4_1", "full", "d" * 64)


def simulated(
    repeats: int, trial: float, of_round: float = 0.0, alone: float = 0.0, rounds: int = 400, **changes: Any
) -> pd.DataFrame:
    """Eight points whose log times have noise of each trial, of each round, and of each round on each point alone."""
    once = grid(rounds=rounds, **changes)
    rng = np.random.default_rng(11)
    shared = rng.normal(0, of_round, rounds + 1)[once["round"]] + rng.normal(0, alone, len(once))
    runs = [once.assign(repeat=k, log=shared + rng.normal(0, trial, len(once))) for k in range(1, repeats + 1)]
    table = pd.concat(runs, ignore_index=True)
    point = table["threads"] * (1 + 10 * (table["strategy"] == "tf_lock"))
    return table.assign(loop_s=np.exp(table["log"]) / point)


def close(value: float) -> Any:
    return pytest.approx(value, rel=0.1)


def components_of(of: Variance) -> tuple[Components, Components]:
    assert of.times is not None
    assert of.ratios is not None
    return of.times, of.ratios


def test_repeats_separate_what_a_round_does_to_a_point_from_its_trials() -> None:
    times, ratios = components_of(variance(simulated(3, trial=0.06, of_round=0.04, alone=0.03)))
    assert (times.method, ratios.method) == ("repeats", "repeats")
    assert times.within == close(0.06)
    assert times.between == close(math.hypot(0.04, 0.03))
    assert ratios.within == close(0.06 * math.sqrt(2))
    assert ratios.between == close(0.03 * math.sqrt(2)), "what the round does to all cancels out"
    for k in (1, 2, 4):
        assert ratios.of_round(k) == close(math.sqrt(2 * (0.03**2 + 0.06**2 / k)))


def test_without_repeats_the_residuals_stand_for_the_trials() -> None:
    times, ratios = components_of(variance(simulated(1, trial=0.06, of_round=0.04)))
    assert (times.method, ratios.method) == ("residuals", "residuals")
    assert times.within == close(0.06)
    assert times.between == pytest.approx(0.04, rel=0.15)  # 400 rounds: its standard error is 5 %
    assert (ratios.within, ratios.between) == (close(0.06 * math.sqrt(2)), None)
    assert ratios.of_round(4) == pytest.approx(ratios.within / 2)


def test_without_repeats_what_a_round_does_to_a_point_alone_is_not_separable() -> None:
    times, _ = components_of(variance(simulated(1, trial=0.06, of_round=0.04, alone=0.03)))
    assert (times.within, times.between) == (close(math.hypot(0.06, 0.03)), close(0.04))


@pytest.mark.parametrize("repeats", [1, 2])
def test_estimates_are_unbiased_in_studies_of_six_rounds_with_gaps(repeats: int) -> None:
    """Squares are unbiased, not roots; a tenth of the trials is missing."""
    squares = []
    rng = np.random.default_rng(5)
    point, round_, _ = (places.ravel() for places in np.indices((10, 6, repeats)))
    for _ in range(2000):
        kept = rng.random(point.size) < 0.9
        logs = rng.normal(0, 0.05, 6)[round_] + rng.normal(0, 0.08, point.size) + point
        found = components(logs[kept], point[kept], round_[kept])
        assert found is not None
        assert found.between is not None
        squares.append((found.within**2, found.between**2))
    within, between = np.mean(squares, axis=0)
    assert within == pytest.approx(0.08**2, rel=0.02)
    assert between == pytest.approx(0.05**2, rel=0.1)


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_negative_variance_is_reported_as_none_at_all(repeats: int) -> None:
    found = [variance(simulated(repeats, trial=0.06, rounds=6, campaign_uid=f"c{n}")) for n in range(3)]
    rng = np.random.default_rng(2)
    for of in found:
        assert components_of(of)[0].between is not None
    point, round_, _ = (places.ravel() for places in np.indices((4, 6, repeats)))
    logs = [rng.normal(0, 0.06, point.size) for _ in range(200)]
    between = [found.between for sample in logs if (found := components(sample, point, round_))]
    assert 0.0 in between
    assert min(value for value in between if value is not None) == 0.0


def test_trials_are_compared_with_the_first_variant_of_their_round_and_repeat() -> None:
    runs = grid(("tf_nolock", "tf_lock", "lock"), (1, 2), 2).assign(repeat=1)
    ratios = paired_log_ratios(runs)
    # The law of `grid`: strategy k takes 1 + k/10; tf_lock comes first whatever the order of the table.
    assert sorted(np.exp(ratios["log_ratio"])) == pytest.approx([1 / 1.1] * 4 + [1.2 / 1.1] * 4)
    assert ratios["point"].nunique() == 4
    assert paired_log_ratios(runs[runs["strategy"] == "lock"]).empty


def test_only_timed_runs_that_fit_and_have_several_rounds_count() -> None:
    runs = simulated(1, trial=0.05, rounds=6)
    assert set(by_experiment(runs)) == {BOX}
    assert by_experiment(runs)[BOX][:3] == (6, 6, 36), "eight threads on four hardware threads say nothing"
    unknown = runs.assign(hardware_threads=pd.array([pd.NA] * len(runs), dtype="Int64"))
    assert by_experiment(unknown)[BOX].points == 8
    for changes in ({"measures": "full"}, {"evidence": "emulated"}, {"status": "failed"}, {"loop_s": np.nan}):
        assert by_experiment(runs.assign(**changes)) == {}
    assert by_experiment(runs[runs["round"] == 1]) == {}
    assert by_experiment(runs.assign(software=[f"version {n}" for n in runs["round"]])) == {}
    assert len(by_experiment(pd.concat([runs, runs.assign(platform="box-2")]))) == 2


def test_one_point_has_no_ratios_and_no_model() -> None:
    runs = simulated(1, trial=0.05, rounds=6)
    of = variance(runs[(runs["strategy"] == "lock") | ((runs["strategy"] == "tf_lock") & (runs["threads"] == 1))])
    assert (of.times, of.ratios) == (None, None)
    assert list(as_text({BOX: of}))[-1].split() == ["fig_4_1", "dddd", "1", "6", "6", "too", "few", *"-----"]
    assert as_json(BOX, of)["ratio_of_round_by_repeats"] is None


def test_the_table_is_in_per_cent_and_predicts_the_noise_of_a_round() -> None:
    table = by_experiment(simulated(2, trial=0.06, of_round=0.04))
    platform, header, row = as_text(table)
    assert platform.startswith("box-1, full scale")
    assert len(header) == len(row)
    *_, method, between, within, one, two, four = row.split()
    assert method == "repeats"
    expected = (4.0, 6.0, 8.5, 6.0, 4.2)
    assert [float(cell) for cell in (between, within, one, two, four)] == pytest.approx(expected, rel=0.15)
    document = as_json(BOX, table[BOX])
    assert document["ratio_of_round_by_repeats"] == {
        "1": close(0.06 * math.sqrt(2)),
        "2": close(0.06),
        "4": close(0.03 * math.sqrt(2)),
    }


def test_the_noise_of_trials_is_pooled_over_rounds_and_unknown_without_repeats() -> None:
    point, round_ = np.array([0, 0, 0, 1, 1]), np.array([1, 1, 2, 1, 1])
    values = np.array([0.0, 2.0, 9.0, 5.0, 5.0])
    assert trial_noise(values, point, round_) == (pytest.approx(1.0), pytest.approx((1 / 2 + 1 + 1 / 2) / 3))
    assert trial_noise(values[1:3], point[1:3], round_[1:3]) == (0.0, 1.0)
