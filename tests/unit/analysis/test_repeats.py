"""A round has one value of a point: the average of its repeats, and without repeats exactly what was measured."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support.frames import ended, grid, run
from tmflow.analysis import baseline, summaries
from tmflow.analysis.comparison import Sides, compared
from tmflow.analysis.repeats import average_repeats, averaged, mean_time, spread
from tmflow.analysis.versions import origins
from tmflow.reports.narrative import find_not_slower

SPREAD = (0.8, 1.0, 1.25)  # of the repeats; the geometric mean is 1


def repeated(table: pd.DataFrame, spread: tuple[float, ...] = SPREAD) -> pd.DataFrame:
    """Each run several times: its time times each factor, its accuracy with deviations whose mean is 0."""
    parts = [
        table.assign(
            repeat=number,
            uid=table["uid"] + f"-{number}",
            loop_s=table["loop_s"] * factor,
            final_accuracy=table["final_accuracy"] + 0.01 * (number - (len(spread) + 1) / 2),
        )
        for number, factor in enumerate(spread, 1)
    ]
    return pd.concat(parts, ignore_index=True).sample(frac=1, random_state=3, ignore_index=True)


def numbers(summary: pd.DataFrame) -> pd.DataFrame:
    return summary[["variant", "threads", "estimate", "low", "high", "rounds"]]


@pytest.mark.parametrize(
    "summarise",
    [
        summaries.speedup,
        lambda runs: summaries.speedup(runs, "tf_lock"),
        summaries.step_time,
        summaries.accuracy,
        lambda runs: baseline.speed(runs, "tf_lock", 6),
        lambda runs: baseline.accuracy(runs, "tf_lock", 6),
        lambda runs: baseline.time_ratios(runs, "strategy", "tf_lock"),
    ],
    ids=["speedup", "speedup_vs_tf_lock", "step_time", "accuracy", "speed", "accuracies", "time_ratios"],
)
def test_a_round_with_repeats_has_the_value_of_their_average(summarise: Any) -> None:
    expected, summary = summarise(grid()), summarise(repeated(grid()))
    pd.testing.assert_frame_equal(numbers(summary), numbers(expected), check_exact=False, rtol=1e-12)
    assert set(summary["rounds"]) == {6}


def test_without_repeats_nothing_is_computed() -> None:
    for runs in (grid(), grid().assign(repeat=1), grid()[:0].assign(repeat=1)):
        assert average_repeats(runs) is runs


def test_rounds_of_one_trial_keep_exactly_its_values_beside_rounds_of_several() -> None:
    once = grid(rounds=3).assign(repeat=1)
    several = repeated(grid(rounds=3).assign(round=lambda runs: runs["round"] + 3))
    averages = average_repeats(pd.concat([once, several], ignore_index=True))
    assert len(averages) == 2 * len(once)
    assert averages["loop_s"].head(len(once)).tolist() == once["loop_s"].tolist()
    assert averages["final_accuracy"].head(len(once)).tolist() == once["final_accuracy"].tolist()


def test_an_average_is_disturbed_if_one_repeat_was() -> None:
    runs = repeated(grid(("tf_lock",), (1,), 2))
    runs["disturbed"] = ((runs["round"] == 2) & (runs["repeat"] == 3)).astype("boolean")
    row = summaries.step_time(runs).iloc[0]
    assert (row["rounds"], row["disturbed_rounds"]) == (2, 1)


def test_a_failed_repeat_leaves_the_others_and_is_reported() -> None:
    runs = repeated(grid(("tf_lock",), (1,), 6), (1.0, 1.0))
    ended(runs, (runs["round"] == 2) & (runs["repeat"] == 1), "timeout", "took too long")
    row = summaries.step_time(runs).iloc[0]
    assert row["rounds"] == 6
    assert row["reason"] == "1 of 6 rounds timed out: took too long"
    ended(runs, runs["round"] == 2, "timeout", "took too long")
    row = summaries.step_time(runs).iloc[0]
    assert (row["rounds"], row["reason"]) == (5, "1 of 6 rounds timed out: took too long")
    ended(runs, runs["round"] > 0, "timeout", "took too long")
    row = summaries.step_time(runs).iloc[0]
    assert (row["rounds"], row["reason"]) == (0, "timed out: took too long")


def test_curves_are_averaged_at_each_iteration() -> None:
    runs = pd.DataFrame([run(round=r, repeat=k, curve_points=2) for r in (1, 2) for k in (1, 2)])
    points = pd.DataFrame(
        [
            {"uid": uid, "iteration": n, "elapsed_s": float(n), "accuracy": 0.1 * k + 0.001 * n}
            for uid, k in zip(runs["uid"], runs["repeat"], strict=True)
            for n in (10, 20)
        ]
    )
    curve = summaries.curve(runs, points)
    assert curve["iteration"].tolist() == [10, 20]
    assert curve["estimate"].tolist() == pytest.approx([0.16, 0.17])
    assert curve["rounds"].tolist() == [2, 2]


def test_two_sides_are_paired_by_the_averages_of_their_rounds() -> None:
    def sides(runs: pd.DataFrame) -> Sides:
        runs = runs.assign(software_sha256="s" * 64)
        return Sides(runs[runs["strategy"] == "tf_lock"], runs[runs["strategy"] == "tf_nolock"])

    columns = ["threads", "estimate", "low", "high", "rounds", "rounds_a", "rounds_b"]
    expected = compared(sides(grid()), "speed")[columns]
    pd.testing.assert_frame_equal(compared(sides(repeated(grid())), "speed")[columns], expected, rtol=1e-12)


def test_variants_that_are_not_slower_are_found_by_the_averages() -> None:
    runs = repeated(grid(threads=(2,)))
    assert find_not_slower(runs, "tf_lock", ["tf_nolock"]) == []
    runs.loc[runs["strategy"] == "tf_nolock", "loop_s"] *= 1 / 1.1
    assert find_not_slower(runs, "tf_lock", ["tf_nolock"]) == ["tf_nolock"]


def test_rounds_are_counted_once() -> None:
    (origin,) = origins(repeated(grid()).assign(git_commit=None), "fig_4_1")
    assert origin.rounds == 6


def test_averages_are_geometric_for_times_and_of_the_known_values() -> None:
    values = np.array([1.0, 4.0, math.nan, 9.0, math.nan, 0.1])
    group = np.array([0, 0, 1, 1, 2, 3])
    assert averaged(values, group, on_log=True).tolist() == pytest.approx([2, 9, math.nan, 0.1], nan_ok=True)
    assert averaged(values, group, on_log=False).tolist() == pytest.approx([2.5, 9, math.nan, 0.1], nan_ok=True)
    assert averaged(values[:0], group[:0], on_log=True).tolist() == []


@pytest.mark.parametrize("seconds", [0.1, 1 / 3, 7e-9, 123.456789])
def test_one_time_is_its_own_average_to_the_bit(seconds: float) -> None:
    assert mean_time([seconds]) == seconds
    assert mean_time([seconds / 2, seconds * 2]) == pytest.approx(seconds)


def test_a_spread_is_the_standard_deviation_of_a_group_and_unknown_for_one_value() -> None:
    values, group = np.array([0.5, 0.1, 0.2, 0.6, 0.3]), np.array([0, 1, 1, 0, 2])
    expected = [np.std([0.5, 0.6], ddof=1), np.std([0.1, 0.2], ddof=1), math.nan]
    assert spread(values, group) == pytest.approx(expected, nan_ok=True)
    assert spread(np.array([0.25, 0.25]), np.array([0, 0])) == [0.0]
