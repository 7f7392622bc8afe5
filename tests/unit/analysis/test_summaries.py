"""Summaries of runs with known answers: pairing, grouping, and reported gaps."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from tests.support.frames import ended, grid, run
from tmflow.analysis import summaries
from tmflow.analysis.stats import ratio_interval
from tmflow.analysis.variants import panels, variants
from tmflow.base.errors import BadInput


def point(summary: pd.DataFrame, **where: Any) -> pd.Series:
    """The one row of a summary with these values."""
    rows = summary
    for column, value in where.items():
        rows = rows[rows[column] == value]
    assert len(rows) == 1
    return rows.iloc[0]


def test_speedup_is_paired_within_the_round() -> None:
    # All times in round r are r times as long; paired, that cancels out and the interval has no width.
    summary = summaries.speedup(grid())
    row = point(summary, strategy="tf_nolock", threads=4)
    assert row[["estimate", "low", "high"]].tolist() == pytest.approx([4, 4, 4])
    assert row["rounds"] == 6
    assert (row["measure"], row["unit"]) == ("speedup", "1")
    assert summary.loc[summary["threads"] == 1, "estimate"].tolist() == [1, 1]


def test_speedup_against_tf_lock_shows_the_cost_of_the_strategy_itself() -> None:
    summary = summaries.speedup(grid(), "tf_lock")
    assert point(summary, strategy="tf_nolock", threads=1)["estimate"] == pytest.approx(1 / 1.1)
    assert point(summary, strategy="tf_nolock", threads=4)["estimate"] == pytest.approx(4 / 1.1)
    assert set(summary["measure"]) == {"speedup_vs_tf_lock"}


def test_speedup_never_pairs_across_campaigns() -> None:
    slow_day = grid(campaign_uid="campaign-2")
    slow_day["loop_s"] *= 100
    row = point(summaries.speedup(pd.concat([grid(), slow_day])), strategy="tf_lock", threads=2)
    assert (row["rounds"], row["low"], row["high"]) == (12, pytest.approx(2), pytest.approx(2))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("platform", "box-2"),
        ("evidence", "published"),
        ("dataset", "digits"),
        ("dataset_sha256", "b" * 64),
        ("experiment", "fig_4_4"),
        ("definition_sha256", "e" * 64),
        ("scale", "quick"),
        ("batch", 1),
        ("matrix", 100),
        ("iterations", 500),
        ("learning_rate", 0.01),
        ("intra_op_threads", 0),
        ("step_call", "callable"),
        ("variables", "resource"),
    ],
)
def test_nothing_is_pooled(column: str, value: Any) -> None:
    one, other = grid(("tf_lock",), (1, 2)), grid(("tf_lock",), (1, 2), **{column: value})
    both = pd.concat([one, other])
    for summarise in (summaries.speedup, summaries.step_time, summaries.accuracy):
        assert summarise(both)["rounds"].tolist() == [6] * 4
    assert len(list(panels(summaries.accuracy(both)))) == 2


def test_a_baseline_of_another_kind_is_no_baseline() -> None:
    mixed = pd.concat([grid(("tf_lock",), (1,), batch=1), grid(("tf_lock",), (2,), batch=100)])
    row = point(summaries.speedup(mixed), threads=2)
    assert math.isnan(row["estimate"])
    assert row["rounds"] == 0
    assert row["reason"] == "no round has the same configuration with one worker to compare with"


def test_factors_that_do_not_apply_still_pair() -> None:
    # dropout_keep is NULL for softmax: NULL must match NULL, in a table that also has numbers there.
    deep = {"model": "mnist_deep", "dropout_keep": 0.5}
    summary = summaries.speedup(pd.concat([grid(), grid(**deep)]))
    assert summary["estimate"].notna().all()
    assert len(summary) == 16


def test_a_round_without_baseline_is_counted_and_named() -> None:
    runs = grid()
    lost = (runs["strategy"] == "tf_lock") & (runs["threads"] == 1) & (runs["round"] == 3)
    row = point(summaries.speedup(runs[~lost]), strategy="tf_lock", threads=2)
    assert row["rounds"] == 5
    assert row["reason"] == "1 of 6 rounds with a result lack the same configuration with one worker"


def test_one_round_gives_an_estimate_without_bounds() -> None:
    for summary in (summaries.speedup(grid(rounds=1)), summaries.accuracy(grid(rounds=1))):
        assert summary["estimate"].notna().all()
        assert summary[["low", "high"]].isna().all(axis=None)


def test_disturbed_runs_are_kept_and_counted() -> None:
    runs = grid(("tf_lock",), (1, 2), rounds=3)
    runs["disturbed"] = [True, False, None, False, True, None]
    same = summaries.speedup(runs)
    assert point(same, threads=1)["disturbed_rounds"] == 1
    assert point(same, threads=2)["disturbed_rounds"] == 2  # round 2 itself, and round 1 through its baseline
    assert same["rounds"].tolist() == [3, 3]
    assert summaries.step_time(runs)["disturbed_rounds"].tolist() == [1, 1]


def test_step_time_is_the_loop_over_all_steps() -> None:
    row = point(summaries.step_time(grid(rounds=2)), strategy="tf_lock", threads=2)
    expected = ratio_interval([1e6 * 0.5, 1e6 * 1.0], [1000, 1000])
    assert row[["estimate", "low", "high"]].tolist() == pytest.approx(list(expected[:3]))
    assert row["unit"] == "us"


def test_time_per_node_and_images_per_second() -> None:
    times = [1e6 * 0.5, 1e6 * 1.0]
    row = point(
        summaries.node_time(grid(rounds=2, model="ops_chain", dataset="synthetic", nodes=100)),
        strategy="tf_lock",
        threads=2,
    )
    assert row[["estimate", "low", "high"]].tolist() == pytest.approx(list(ratio_interval(times, [100_000] * 2)[:3]))
    assert row["unit"] == "us"
    assert summaries.node_time(grid(rounds=2)).empty
    row = point(summaries.image_rate(grid(rounds=2, batch=5)), strategy="tf_lock", threads=2)
    assert row[["estimate", "low", "high"]].tolist() == pytest.approx(list(ratio_interval([5000] * 2, [0.5, 1.0])[:3]))


def test_accuracy_bounds_are_those_of_a_share() -> None:
    runs = pd.DataFrame([run(round=1, final_accuracy=0.9), run(round=2, final_accuracy=1.0)])
    row = summaries.accuracy(runs).iloc[0]
    assert row["estimate"] == pytest.approx(0.95)
    assert row["high"] == 1


def in_sections_of(strategies: tuple[str, ...], factor: str, *sizes: int) -> pd.DataFrame:
    """A critical section of n elements takes 1/n of the time of one with a single element."""
    parts = [grid(strategies, (1, 2), **{factor: size}) for size in sizes]
    return pd.concat([part.assign(loop_s=part["loop_s"] / size) for part, size in zip(parts, sizes, strict=True)])


def test_a_time_is_over_that_of_a_lock_with_sections_of_the_same_size() -> None:
    locks, stripes = in_sections_of(("lock", "nolock"), "chunk", 16, 64), in_sections_of(("striped",), "block", 64, 256)
    summary = summaries.time_over_lock(pd.concat([locks, stripes, grid(("lock",))], ignore_index=True))
    assert set(summary["variant"]) == {"lock", "nolock", "striped"}  # the grain takes the place of chunk and block
    for name, ratio in {"lock": 1, "nolock": 1.1, "striped": 1}.items():
        row = point(summary, strategy=name, threads=2, grain=64)
        assert row[["estimate", "low", "high"]].tolist() == pytest.approx([ratio] * 3)  # paired by round
        assert row["rounds"] == 6
    assert set(summary.loc[summary["strategy"] != "striped", "results"]) == {"6 of 6"}
    alone = point(summary, strategy="striped", threads=2, grain=256)
    assert alone["reason"] == "6 of 6 rounds with a result lack lock"
    assert math.isnan(alone["estimate"])
    assert len(summary) == 2 * (2 + 2 + 2)  # none of the lock around the whole variable


def test_a_section_whose_runs_failed_has_a_row_that_says_so_and_no_other_has() -> None:
    runs = in_sections_of(("lock", "nolock"), "chunk", 16, 64).reset_index(drop=True)
    ended(runs, (runs["strategy"] == "nolock") & (runs["chunk"] == 64), "failed", "boom")
    summary = summaries.time_over_lock(runs)
    assert point(summary, strategy="nolock", threads=2, grain=64)["reason"] == "failed: boom"
    assert summary.loc[(summary["strategy"] == "lock") | (summary["grain"] == 16), "reason"].isna().all()


def test_locks_that_are_all_held_during_the_update_are_one_critical_section() -> None:
    locks, together = in_sections_of(("lock",), "chunk", 64), in_sections_of(("block_stm",), "block", 64)
    summary = summaries.time_over_lock(pd.concat([locks, together], ignore_index=True))
    assert set(summary["strategy"]) == {"lock"}


EVERY = {
    "speedup": summaries.speedup,
    "speedup_vs_tf_lock": lambda runs: summaries.speedup(runs, "tf_lock"),
    "step_time": summaries.step_time,
    "accuracy": summaries.accuracy,
}


@pytest.mark.parametrize("measure", EVERY)
def test_a_point_without_a_result_has_a_row_that_says_why(measure: str) -> None:
    runs = grid(("tf_lock", "htm"), (1, 2))
    ended(runs, runs["strategy"] == "htm", "unsupported", "no such hardware")
    summary = EVERY[measure](runs)
    assert len(summary) == 4
    assert len(list(panels(summary))) == 1  # a missing hash of the dataset does not separate it
    row = point(summary, strategy="htm", threads=2)
    assert row[["estimate", "low", "high"]].isna().all()
    assert (row["rounds"], row["reason"]) == (0, "unsupported: no such hardware")
    assert row["last_run_utc"] == "2026-01-06T10:00:00Z"
    assert summary.loc[summary["strategy"] == "tf_lock", "reason"].isna().all()


@pytest.mark.parametrize("measure", EVERY)
def test_rounds_without_a_result_are_counted_and_named(measure: str) -> None:
    runs = grid(("tf_lock",), (1, 2))
    two = runs["threads"] == 2
    ended(runs, two & runs["round"].isin([2, 3]), "failed", "out of memory")
    ended(runs, two & (runs["round"] == 5), "timeout", "took longer than 60 s")
    row = point(EVERY[measure](runs), threads=2)
    assert row["rounds"] == 3
    assert math.isfinite(row["estimate"])
    assert row["reason"] == "2 of 6 rounds failed: out of memory; 1 of 6 rounds timed out: took longer than 60 s"
    assert pd.isna(point(EVERY[measure](runs), threads=1)["reason"])


def test_a_baseline_without_a_result_is_no_baseline() -> None:
    runs = grid(("tf_lock",), (1, 2), rounds=2)
    ended(runs, runs["threads"] == 1, "failed", "out of memory")
    row = point(summaries.speedup(runs), threads=2)
    assert (row["rounds"], row["reason"]) == (
        0, "no round has the same configuration with one worker to compare with",
    )  # fmt: skip


def test_a_dataset_is_not_guessed_where_its_hash_is_ambiguous() -> None:
    runs = pd.concat([grid(("tf_lock",), (1,)), grid(("tf_lock",), (1,), dataset_sha256="b" * 64)])
    lost = run(strategy="htm", status="failed", reason="boom", dataset_sha256=None, final_accuracy=None)
    summary = summaries.accuracy(pd.DataFrame([*runs.to_dict("records"), lost]))
    assert pd.isna(point(summary, strategy="htm")["dataset_sha256"])


def test_curve_and_staleness_say_what_is_missing() -> None:
    runs = grid(("tf_lock", "htm"), (2,), rounds=2, curve_points=1)
    ended(runs, runs["strategy"] == "htm", "failed", "boom")
    ended(runs, (runs["strategy"] == "tf_lock") & (runs["round"] == 2), "failed", "boom")
    uid = runs["uid"].iloc[0]
    points = pd.DataFrame([{"uid": uid, "iteration": 500, "accuracy": 0.5}])
    counts = pd.DataFrame([{"uid": uid, "staleness": 0, "steps": 10}])
    for summary, along in (
        (summaries.curve(runs, points), "iteration"),
        (summaries.staleness(runs, counts), "staleness"),
    ):
        assert summary["strategy"].tolist() == ["tf_lock", "htm"]
        assert summary["rounds"].tolist() == [1, 0]
        assert summary["reason"].tolist() == ["1 of 2 rounds failed: boom", "failed: boom"]
        assert summary[along].isna().tolist() == [False, True]
    assert summaries.curve(runs.assign(curve_points=0), points).empty


def test_oversubscribed_is_more_workers_than_hardware_threads() -> None:
    summary = summaries.step_time(grid(("tf_lock",), (1, 4, 5, 8)))
    assert summary["oversubscribed"].tolist() == [False, False, True, True]
    assert summaries.step_time(grid(hardware_threads=None))["oversubscribed"].isna().all()


def test_an_empty_table_gives_an_empty_summary() -> None:
    nothing = grid()[:0]
    for summary in (summaries.speedup(nothing), summaries.step_time(nothing), summaries.accuracy(nothing)):
        assert summary.empty
        assert {"estimate", "low", "high", "rounds", "oversubscribed"} <= set(summary.columns)
        assert not list(panels(summary))


def test_an_unknown_baseline_is_bad_input() -> None:
    with pytest.raises(BadInput, match="unknown baseline 'lock'"):
        summaries.speedup(grid(), "lock")  # type: ignore[arg-type]


def test_panels_name_what_tells_them_apart() -> None:
    summary = summaries.accuracy(pd.concat([grid(), grid(batch=1), grid(batch=1, matrix=100)]))
    parts = dict(panels(summary))
    assert list(parts) == ["batch 1, matrix 100", "batch 1, matrix 784", "batch 100, matrix 784"]
    assert [label for label, _ in panels(summaries.accuracy(grid()))] == [""]


def test_curve_averages_each_iteration_over_rounds() -> None:
    runs = grid(("tf_lock",), (1,), rounds=2, curve_points=2)
    points = pd.DataFrame(
        [
            {"uid": uid, "iteration": i, "accuracy": a}
            for uid, row in zip(runs["uid"], [(0.1, 0.8), (0.3, 0.9)], strict=True)
            for i, a in zip((0, 500), row, strict=True)
        ]
    )
    summary = summaries.curve(runs, points)
    assert summary["iteration"].tolist() == [0, 500]
    assert summary["estimate"].tolist() == pytest.approx([0.2, 0.85])
    assert summary["rounds"].tolist() == [2, 2]


def test_staleness_is_a_share_of_steps() -> None:
    runs = grid(("tf_lock",), (2,), rounds=2)
    first, second = runs["uid"]
    counts = pd.DataFrame(
        [
            {"uid": first, "worker": 0, "staleness": 0, "steps": 30},
            {"uid": first, "worker": 1, "staleness": 0, "steps": 10},
            {"uid": first, "worker": 1, "staleness": 1, "steps": 60},
            {"uid": second, "worker": 0, "staleness": 1, "steps": 50},
        ]
    )
    summary = summaries.staleness(runs, counts)
    assert summary["staleness"].tolist() == [0, 1]
    assert summary["estimate"].tolist() == pytest.approx([0.2, 0.8])
    assert summary["estimate"].sum() == pytest.approx(1)


def htm(budget: int, **changes: Any) -> pd.DataFrame:
    own = {"provider": "rtm", "budget": budget, "spending": "study_tsx", "chunk": 0}
    return grid(("htm",), (1, 2), **own, **changes)


def test_variants_of_a_strategy_share_a_panel_and_are_told_apart() -> None:
    summary = summaries.accuracy(pd.concat([htm(100), grid(("lock", "tf_lock"), (1, 2)), htm(5)], ignore_index=True))
    ((label, part),) = panels(summary)
    assert label == ""
    assert part["variant"].tolist() == [
        "tf_lock", "tf_lock", "lock", "lock",
        "htm (budget 5)", "htm (budget 5)", "htm (budget 100)", "htm (budget 100)",
    ]  # fmt: skip
    assert part["threads"].tolist() == [1, 2] * 4
    assert part["rounds"].tolist() == [6] * 8


def test_a_lone_variant_has_the_name_of_its_strategy() -> None:
    apart = pd.concat([htm(5, batch=1), htm(7, batch=100)])
    assert [set(part["variant"]) for _, part in panels(summaries.accuracy(apart))] == [{"htm"}, {"htm"}]


def test_variants_are_compared_with_themselves_or_with_tf_lock() -> None:
    slow = htm(0)
    slow["loop_s"] *= 4
    runs = pd.concat([grid(("tf_lock",), (1, 2)), htm(5), slow])
    same, over_tf_lock = summaries.speedup(runs), summaries.speedup(runs, "tf_lock")
    for budget, expected in ((5, 2), (0, 0.5)):
        assert point(same, budget=budget, threads=2)["estimate"] == pytest.approx(2)
        assert point(over_tf_lock, budget=budget, threads=2)["estimate"] == pytest.approx(expected)


WAYS = [
    {},
    {"driver": "native"},
    {"reading": "consistent"},
    {"layout": "joined"},
    {"measures": "full"},
    {"driver": "native", "model": "mnist_mlp", "hidden": 16, "activation": "relu"},
]


def test_runs_that_ran_in_other_ways_are_never_pooled_and_never_in_one_panel() -> None:
    runs = pd.concat([grid(("lock",), threads=(1, 2), rounds=2, **way) for way in WAYS], ignore_index=True)
    summary = summaries.step_time(runs)
    assert len(summary) == 2 * len(WAYS)
    assert set(summary["rounds"]) == {2}
    parts = dict(panels(summary))
    assert len(parts) == len(WAYS)
    assert {tuple(set(part["variant"])) for part in parts.values()} == {("lock",)}
    (of_mlp,) = (label for label in parts if "mnist_mlp" in label)
    assert "hidden 16" in of_mlp
    assert "activation relu" in of_mlp
    speedup = summaries.speedup(runs)
    assert speedup.loc[speedup["threads"] == 2, "estimate"].tolist() == pytest.approx([2] * len(WAYS))


def test_names_in_one_table_tell_how_runs_ran() -> None:
    table = pd.concat([grid(("lock",), threads=(1,), rounds=1, **way) for way in WAYS[:5]], ignore_index=True)
    labels = [
        "lock",
        "lock (driver native)",
        "lock (reading consistent)",
        "lock (layout joined)",
        "lock (measures full)",
    ]
    assert variants(table).tolist() == labels
    assert set(variants(table[:1])) == {"lock"}


def test_names_tell_blocks_consistency_and_a_fused_kernel_apart() -> None:
    plain = {"kernel": "plain", "optimisation": "O3"}
    variants = [
        {"strategy": "striped", "block": 2048, **plain},
        {"strategy": "striped", "block": 64, **plain},
        {"strategy": "adaptive", "promise": "block", **plain},
        {"strategy": "adaptive", "promise": "tensor", **plain},
        {"strategy": "block_stm", "block": 4096, "manager": "delay", **plain},
        {"strategy": "block_stm", "block": 4096, "manager": "delay", **plain, "kernel": "fused"},
    ]
    runs = [run(threads=threads, **variant) for variant in variants for threads in (1, 2)]
    ((_, panel),) = panels(summaries.step_time(pd.DataFrame(runs)))
    assert set(panel["variant"]) == {
        "striped (block 2048)",
        "striped (block 64)",
        "adaptive (promise block)",
        "adaptive (promise tensor)",
        "block_stm (kernel plain)",
        "block_stm (kernel fused)",
    }


def test_whole_numbers_stay_whole_where_some_have_none() -> None:
    runs = pd.concat([grid(("lock",), rounds=1, **way) for way in (WAYS[0], WAYS[5])], ignore_index=True)
    summary = summaries.step_time(runs)
    assert {str(summary[name].dtype) for name in ("hidden", "block", "intra_op_threads", "budget")} == {"Int64"}


def test_rounds_that_diverged_or_failed_are_counted_beside_the_mean() -> None:
    runs = grid(("lock",), (1, 2, 4, 8))
    ended(runs, (runs["threads"] == 2) & (runs["round"] == 3), "failed", "Diverged: NaN in W")
    ended(runs, (runs["threads"] == 4) & (runs["round"] < 3), "failed", "Diverged: NaN in W")
    ended(runs, (runs["threads"] == 4) & (runs["round"] == 5), "timeout", "took longer than 60 s")
    ended(runs, (runs["threads"] == 8), "unsupported", "no RTM")
    table = summaries.accuracy(runs).set_index("threads")
    assert table["results"].tolist() == [
        "6 of 6", "5 of 6 (1 diverged)", "3 of 6 (2 diverged, 1 timed out)", "0 of 6 (6 unsupported)",
    ]  # fmt: skip
    assert table["reason"].fillna("").tolist() == [
        "", "1 of 6 rounds diverged: NaN in W",
        "2 of 6 rounds diverged: NaN in W; 1 of 6 rounds timed out: took longer than 60 s", "unsupported: no RTM",
    ]  # fmt: skip
    assert table["rounds"].tolist() == [6, 5, 3, 0]


def test_a_curve_counts_each_round_once() -> None:
    runs = grid(("lock",), (2,), rounds=3, curve_points=2)
    ended(runs, runs["round"] == 2, "failed", "Diverged: NaN in W")
    points = [{"uid": uid, "iteration": i, "accuracy": 0.5} for uid in runs["uid"].iloc[[0, 2]] for i in (100, 200)]
    assert summaries.curve(runs, pd.DataFrame(points))["results"].tolist() == ["2 of 3 (1 diverged)"] * 2


def test_a_round_that_stalls_hardly_moves_the_median() -> None:
    runs = grid(("lock",), (1, 2)).assign(loop_s=1.0)
    runs.loc[runs["threads"] == 2, "loop_s"] = [0.5, 0.51, 0.49, 0.5, 0.5, 20.0]
    table = summaries.step_time(runs).set_index("threads")
    assert table.loc[2, "estimate"] == pytest.approx(1e3 * (0.5 * 0.51 * 0.49 * 0.5 * 0.5 * 20) ** (1 / 6))
    assert table.loc[2, ["median", "median_low", "median_high"]].tolist() == pytest.approx([500, 490, 20_000])
    assert table.loc[2, "farthest"] == pytest.approx(40)
    assert table.loc[1, ["median", "median_low", "median_high", "farthest"]].tolist() == pytest.approx(
        [1e3, 1e3, 1e3, 1]
    )
    speedup = summaries.speedup(runs).set_index("threads")
    assert speedup.loc[2, ["median", "median_low", "median_high"]].tolist() == pytest.approx([2, 0.05, 1 / 0.49])
    assert "median" not in summaries.accuracy(runs)


def test_five_rounds_have_a_median_without_an_interval() -> None:
    runs = grid(("lock",), (1, 2))
    ended(runs, (runs["threads"] == 1) & (runs["round"] == 6), "failed", "boom")
    table = summaries.speedup(runs).set_index("threads")
    assert table["median"].tolist() == pytest.approx([1, 2])
    assert table[["median_low", "median_high"]].isna().all().all()  # the pairs of both are five
    emulated = summaries.step_time(runs.assign(evidence="emulated"))
    assert emulated[["median", "farthest"]].isna().all().all()  # its time is never shown


def test_rounds_without_a_count_of_losses_are_mentioned() -> None:
    runs = grid(("lock",), (2,), measures="full")
    full = pd.DataFrame({"uid": runs["uid"], "lost_fraction": 0.25, "torn_fraction": 0.0})
    full.loc[2, "lost_fraction"] = math.nan
    row = summaries.lost(runs, full).iloc[0]
    assert (row["rounds"], row["reason"]) == (5, "1 of 6 rounds with a result did not measure it")
