"""Comparison of two sides: known answers, Welch's test of SciPy, and no result where none is justified."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats as oracle

from tests.support.frames import ended, grid
from tmflow.analysis.comparison import Sides, compared, joint_sentence, pairing_sentence, parts, sentence
from tmflow.analysis.stats import joint_confidence, ratio_interval
from tmflow.charts.comparison import caption, chart, range_of
from tmflow.runfile.record import NO_TIME


def sides(a: pd.DataFrame, b: pd.DataFrame) -> Sides:
    return Sides(*(side.assign(software_sha256=side.get("software_sha256", "5" * 64)) for side in (a, b)))


def noisy(runs: pd.DataFrame, seed: int, sd: float = 0.02) -> pd.DataFrame:
    noise = np.exp(np.random.default_rng(seed).normal(0, sd, len(runs)))
    return runs.assign(loop_s=runs["loop_s"] * noise)


def test_rounds_that_both_have_are_paired_and_what_they_did_cancels_out() -> None:
    both = sides(grid(("lock",)), grid(("nolock",)).assign(loop_s=lambda runs: runs["loop_s"] / 2))
    assert both.paired
    table = compared(both, "speed")  # round r takes r times as long, for both
    assert table["threads"].tolist() == [1, 2, 4, 8]
    assert table[["estimate", "low", "high", "joint_low", "joint_high"]].to_numpy().ravel() == pytest.approx(2)
    assert set(table["same"]) == {"no"}
    assert table[["rounds", "rounds_a", "rounds_b"]].to_numpy().ravel().tolist() == [6] * 12
    assert table["oversubscribed"].tolist() == [False, False, False, True]
    assert sentence(table.iloc[0]) == "B is 2.00 [2.00, 2.00] times as fast as A; equivalent within 5 %: no."
    assert "Paired" in pairing_sentence(both)
    assert "B is faster with 1, 2, 4 and 8" in joint_sentence(table)


@pytest.mark.parametrize(
    "elsewhere",
    [{"platform": "box-2"}, {"campaign_uid": "campaign-2"}, {"experiment": "fig_4_4"}, {"definition_sha256": "e" * 64}],
)
def test_rounds_of_other_processes_are_not_paired(elsewhere: dict[str, str]) -> None:
    """A round belongs to one campaign and one definition of one experiment, whatever its number."""
    campaign = {"campaign_uid": "campaign-2"} if "platform" in elsewhere else {}
    a, b = noisy(grid(("lock",)), 1), noisy(grid(("lock",), **elsewhere, **campaign), 2)
    both = sides(a, b)
    assert not both.paired
    assert "Not paired" in pairing_sentence(both)
    point = compared(both, "speed").iloc[1]
    times = [np.log(side.loc[side["threads"] == 2, "loop_s"]) for side in (a, b)]
    expected = oracle.ttest_ind(*times, equal_var=False).confidence_interval(0.95)
    assert (point["low"], point["high"]) == pytest.approx((math.exp(expected.low), math.exp(expected.high)))
    assert point["same"] == "inconclusive"  # rounds differ by up to 6 times


def test_joint_intervals_hold_for_all_comparisons_with_one_side() -> None:
    a, c = noisy(grid(("lock",)), 1), noisy(grid(("nolock",)), 2)
    ended(c, c["threads"] == 8, "failed", "boom")
    one, third = sides(a, c), replace(sides(a, c), letter="C", comparisons=3)
    alone, table = compared(one, "speed"), compared(third, "speed")
    pd.testing.assert_frame_equal(alone[["estimate", "low", "high"]], table[["estimate", "low", "high"]])
    point = table.iloc[1]
    times = [side.loc[side["threads"] == 2, "loop_s"] for side in (a, c)]
    joint = ratio_interval(*times, joint_confidence(3 * 3))  # three points of each of three comparisons
    assert (point["joint_low"], point["joint_high"]) == pytest.approx((joint.low, joint.high))
    assert (table["joint_low"] < alone["joint_low"]).sum() == 3
    assert sentence(point).startswith("C is ")
    assert "jointly at 95 % (Bonferroni over 3 points of each of 3 comparisons)" in joint_sentence(table)
    assert table["results"].iloc[3] == "A 6 of 6, C 0 of 6 (6 failed)"
    assert table["reason"].iloc[3].startswith("C: ")


def test_equivalence_and_the_curve_as_a_whole() -> None:
    table = compared(
        sides(noisy(grid(("lock",), rounds=9), 3, 0.01), noisy(grid(("nolock",), rounds=9), 4, 0.01)), "speed"
    )
    assert set(table["same"]) == {"yes"}
    assert (table["joint_low"] < table["low"]).all()
    assert (table["high"] < table["joint_high"]).all()
    assert "undecided" in joint_sentence(table)
    assert "Each point by itself: equivalent within 5 % with 1, 2, 4 and 8." in joint_sentence(table)


def test_accuracies_are_differences() -> None:
    a, b = grid(("lock",)), grid(("nolock",)).assign(final_accuracy=lambda runs: runs["final_accuracy"] - 0.01)
    table = compared(sides(a, b), "accuracy")
    assert table["estimate"].tolist() == pytest.approx([-0.01] * 4)
    assert set(table["unit"]) == {"fraction"}
    assert table["same"].isna().all()
    assert sentence(table.iloc[0]) == "The accuracy of B minus that of A is -1.00 [-1.00, -1.00] percentage points."
    assert "B is lower with 1, 2, 4 and 8" in joint_sentence(table)


def test_what_is_missing_is_said() -> None:
    a, b = grid(("lock",), (1, 2, 4)), grid(("nolock",), (1, 2, 8))
    ended(b, (b["threads"] == 2), "failed", "it crashed")
    ended(b, (b["threads"] == 1) & (b["round"] < 3), "failed", "it crashed")
    table = compared(sides(a, b), "speed").set_index("threads")
    assert table["estimate"].notna().tolist() == [True, False, False, False]
    assert table["reason"].tolist() == [
        "rounds with only one of the two: 2 of 6; B: 2 of 6 rounds failed: it crashed", "B: failed: it crashed",
        "B was not run there", "A was not run there",
    ]  # fmt: skip
    assert (table.loc[1, "rounds"], table.loc[1, "rounds_a"], table.loc[1, "rounds_b"]) == (4, 6, 4)
    assert table["results"].tolist() == [
        "A 6 of 6, B 4 of 6 (2 failed)", "A 6 of 6, B 0 of 6 (6 failed)", "A 6 of 6", "B 6 of 6",
    ]  # fmt: skip
    other_day = compared(sides(a, b.assign(campaign_uid="another")), "speed").set_index("threads")
    assert other_day["reason"].iloc[0] == "B: 2 of 6 rounds failed: it crashed"
    assert sentence(table.loc[2]) == "Nothing: B: failed: it crashed."


def test_an_emulated_side_has_no_speed_but_an_accuracy() -> None:
    a, b = (grid((name,), evidence="emulated").assign(loop_s=math.nan) for name in ("htm", "lock"))
    assert set(compared(sides(a, b), "speed")["reason"]) == {NO_TIME}
    assert compared(sides(a, b), "accuracy")["estimate"].notna().all()


def test_a_single_round_has_no_interval() -> None:
    table = compared(sides(grid(("lock",), rounds=1), grid(("nolock",), rounds=1)), "speed")
    assert table["estimate"].tolist() == pytest.approx([1] * 4)
    assert table[["low", "high", "joint_low", "joint_high"]].isna().all(axis=None)
    assert set(table["same"]) == {"inconclusive"}
    assert "as a whole is inconclusive" in joint_sentence(table)


def test_only_what_differs_in_nothing_else_is_matched_and_parts_are_told_apart() -> None:
    a = pd.concat([grid(("lock",), (1, 2), batch=batch) for batch in (1, 10, 100)], ignore_index=True)
    b = pd.concat([grid(("nolock",), (1, 2), batch=batch) for batch in (1, 100)], ignore_index=True)
    found = parts(compared(sides(a, b), "speed"))
    assert [label for label, _ in found] == ["batch 1", "batch 100", "batch 10"]
    alone = compared(sides(noisy(a[a["batch"] == 1], 8), noisy(b[b["batch"] == 1], 9)), "speed")
    among = compared(sides(noisy(a, 8), noisy(b, 9)), "speed").query("batch == 1")
    assert "Bonferroni over 2" in joint_sentence(among)  # each curve separately, however many there are
    width = [
        np.log(table["joint_high"] / table["joint_low"]) / np.log(table["high"] / table["low"])
        for table in (alone, among)
    ]
    assert width[0].tolist() == pytest.approx(width[1].tolist())
    assert [part["estimate"].notna().all() for _, part in found] == [True, True, False]


def test_sides_are_named_by_what_tells_them_apart() -> None:
    lock, nolock = grid(("lock",)), grid(("nolock",))
    assert sides(lock, nolock).names == ("lock", "nolock")
    assert sides(lock, nolock.assign(platform="box-2")).names == ("lock on box-1", "nolock on box-2")
    assert sides(lock, lock.assign(experiment="other")).names == ("lock in fig_4_1", "lock in other")
    assert sides(lock, lock.assign(software_sha256="6" * 64)).names == ("lock by 55555555", "lock by 66666666")
    assert sides(lock, lock).names == ("lock (A)", "lock (B)")


def test_the_chart_shows_every_estimate_the_band_and_the_line_at_1() -> None:
    both = sides(noisy(grid(("lock",)), 5), noisy(grid(("nolock",)), 6).assign(loop_s=lambda r: r["loop_s"] / 1.5))
    table = compared(both, "speed")
    shown = range_of(table)
    assert shown.low < 1 / 1.05
    assert shown.high > table["estimate"].max()
    spec = chart(table).to_dict()
    drawn = [row for rows in spec["datasets"].values() for row in rows]
    assert {"y": 1, "low": pytest.approx(1 / 1.05), "high": pytest.approx(1.05)} in drawn
    estimates = {row["threads"]: row["estimate"] for row in drawn if "estimate" in row}
    assert estimates == pytest.approx(dict(zip(table["threads"], table["estimate"], strict=True)))
    sentences = caption(both, table, "0a1b2c3d").text
    assert "Speed of nolock against lock" in sentences
    assert "oversubscribed" in spec["description"] or "worker threads" in spec["description"]
    assert "database revision 0a1b2c3d" in sentences
