"""Limits of few rounds: no share is certain, none is below 0, a clipped bar differs from the end of one."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.support.drawn import marks, points
from tests.support.frames import ended, grid
from tmflow.analysis import baseline, stats, summaries
from tmflow.charts import captions, dot_plots, measure_charts
from tmflow.charts.axes import value_range
from tmflow.reports import narrative


def lost(rounds: int = 6, shares: tuple[float, ...] = (0.01, 0.0, 0.05, 0.0, 0.0, 0.0)) -> pd.DataFrame:
    """lock loses nothing in any round; nolock loses the given shares, by round."""
    runs = grid(("lock", "nolock"), (2,), rounds, measures="full")
    fraction = [shares[row.round - 1] if row.strategy == "nolock" else 0.0 for row in runs.itertuples()]
    full = pd.DataFrame({"uid": runs["uid"], "lost_fraction": fraction, "torn_fraction": fraction})
    return summaries.lost(runs, full)


@pytest.mark.parametrize(("rounds", "most"), [(2, 0.842), (3, 0.708), (6, 0.459), (12, 0.265)])
def test_nothing_seen_in_few_rounds_is_not_certainly_nothing(rounds: int, most: float) -> None:
    """Clopper and Pearson: 1 - 0.025^(1/n)."""
    nothing, everything = (stats.share_interval([share] * rounds) for share in (0.0, 1.0))
    assert (nothing.estimate, nothing.low, nothing.high) == (0, 0, pytest.approx(most, abs=1e-3))
    assert (everything.low, everything.high) == (pytest.approx(1 - most, abs=1e-3), 1)


def test_no_share_has_an_interval_of_width_0_or_below_0() -> None:
    table = lost().set_index("strategy")
    assert table.loc["lock", ["low", "high"]].tolist() == [0, pytest.approx(0.459, abs=1e-3)]
    assert table.loc["nolock", "low"] == 0  # the t interval alone extends below it
    assert stats.mean_interval((0.01, 0.0, 0.05, 0.0, 0.0, 0.0)).low < 0
    single = lost(1)
    assert single["low"].isna().all()
    runs = grid(("lock",), (2,), 3)
    counts = [{"uid": uid, "staleness": n, "steps": 1 if n else 99} for n, uid in enumerate(runs["uid"])]
    assert (summaries.staleness(runs, pd.DataFrame(counts))["low"] >= 0).all()


def test_words_tell_what_no_loss_in_few_rounds_leaves_open() -> None:
    sentences = narrative.describe_losses(lost(), "here")
    assert "under every other strategy none (at most 46 % of rounds lose any, with 95 % confidence)" in sentences


def test_rows_without_any_loss_have_no_bar_but_the_number_of_rounds() -> None:
    summary = lost()
    chart = measure_charts.draw(summary)
    assert {row["strategy"] for mark in marks(chart, "rule") for row in mark["rows"]} == {"nolock"}
    said = {row["says"] for mark in marks(chart, "text") for row in mark["rows"]}
    assert "0 in 6 rounds (2 workers)" in said
    assert (
        "no bar if no round had any: with 95 % confidence at most 46 % of rounds have"
        in captions.caption(summary, "1").text
    )


@pytest.mark.parametrize("kind", ["speedup", "lost", "failures", "against"])
def test_a_bar_that_leaves_the_chart_ends_in_an_arrow_and_has_no_cap(kind: str) -> None:
    if kind == "lost":
        summary, across = lost(shares=(0.9, 0, 0, 0, 0, 0.001)), "x"
        chart, arrow, caps = measure_charts.draw(summary), "triangle-right", "vertical"
    elif kind == "speedup":
        runs = grid(("lock",), (1, 2), 2)
        wild = (runs["threads"] == 2) & (runs["round"] == 2)
        summary, across = summaries.speedup(runs.assign(loop_s=runs["loop_s"].mask(wild, runs["loop_s"] / 9))), "y"
        chart, arrow, caps = measure_charts.draw(summary), "triangle-up", "horizontal"
    elif kind == "against":
        runs = grid(("tf_lock", "nolock"), (2,), 3)
        wild = (runs["strategy"] == "nolock") & (runs["round"] == 2)
        runs = runs.assign(loop_s=runs["loop_s"].mask(wild, runs["loop_s"] / 9))
        summary, across = baseline.speed(runs, "tf_lock", 1), "x"
        chart, arrow, caps = dot_plots.draw_comparison(summary, "tf_lock"), "triangle-right", "vertical"
    else:
        runs = grid(("stm",), (2,), 2)
        attempts = pd.DataFrame({"uid": runs["uid"], "commits": 1, "fallbacks": None, "attempts": 1000})
        aborted = pd.DataFrame({"uid": runs["uid"], "mechanism": "stm", "family": "conflict", "n": [300, 900]})
        summary, across = summaries.failures(runs, attempts, aborted), "y"
        summary = summary.assign(high=summary["high"].where(summary["cause"] != "any", 1.2))
        chart, arrow, caps = measure_charts.draw(summary), "triangle-up", "horizontal"
    shown = value_range(summary)
    (cut,) = summary.loc[(summary["high"] > shown.high) & (summary["estimate"] > 0), "high"].unique()
    (drawn,) = [mark for mark in marks(chart, "point") if mark["mark"].get("shape") == arrow]
    assert {row["high"] for row in drawn["rows"]} == {cut}
    assert {row["bar_high"] for row in drawn["rows"]} == {shown.high}
    ends = [
        row["high"]
        for mark in marks(chart, "tick")
        if mark["mark"]["orient"] == caps and mark["encoding"][across]["field"].endswith("high")
        for row in mark["rows"]
    ]
    assert cut not in ends


@pytest.mark.parametrize("same", [True, False])
def test_the_interval_of_the_equivalence_test_is_drawn_where_it_shows_equivalence(same: bool) -> None:
    runs = grid(("tf_lock", "nolock"), (2,))
    runs["loop_s"] = 1 + 0.001 * runs["round"] + (runs["strategy"] == "nolock") * (0.01 * (runs["round"] % 3))
    if not same:
        runs.loc[runs["strategy"] == "nolock", "loop_s"] *= 2
    summary = baseline.speed(runs, "tf_lock", 6)
    (row,) = summary.to_dict("records")
    assert (row["ranking"] == "same") == same
    of_test = [mark for mark in marks(dot_plots.draw_comparison(summary, "tf_lock"), "rule") if "x" in mark["encoding"]
               and mark["encoding"]["x"]["field"] == "test_low"]  # fmt: skip
    assert len(of_test) == same
    assert pd.isna(row["test_low"]) != same
    if same:
        base, own = (runs.loc[runs["strategy"] == name, "loop_s"] for name in ("tf_lock", "nolock"))
        narrow = stats.ratio_interval(base, own, 0.90)
        assert (row["test_low"], row["test_high"]) == pytest.approx((narrow.low, narrow.high))
        assert row["low"] < row["test_low"] < row["test_high"] < row["high"]
        assert {entry["test_high"] for entry in of_test[0]["rows"]} == {row["test_high"]}
    assert "thick: the 90 % interval of the equivalence test" in captions.caption(summary, "1").text


def test_a_line_of_staleness_does_not_run_through_what_was_never_seen() -> None:
    runs = grid(("lock",), (2,), 2)
    counts = [{"uid": uid, "staleness": n, "steps": 10} for uid in runs["uid"] for n in (0, 1, 4, 5)]
    drawn = points(measure_charts.draw(summaries.staleness(runs, pd.DataFrame(counts)))).sort_values("staleness")
    assert drawn["staleness"].tolist() == [0, 1, 4, 5]
    first, second, third, last = drawn["line"]
    assert first == second != third == last
    chart = measure_charts.draw(summaries.staleness(runs, pd.DataFrame(counts)))
    assert all(mark["encoding"]["detail"]["field"] == "line" for mark in marks(chart, "line"))


def test_the_caption_and_the_tooltip_tell_how_rounds_without_a_result_ended() -> None:
    runs = grid(("lock",), (1, 2))
    ended(runs, (runs["threads"] == 2) & (runs["round"] == 4), "failed", "Diverged: NaN in W")
    summary = summaries.step_time(runs)
    assert "Incomplete: lock x2: 1 of 6 rounds diverged: NaN in W." in captions.caption(summary, "1").lines
    drawn = points(measure_charts.draw(summary)).set_index("threads")["results"]
    assert drawn.to_dict() == {1: "6 of 6", 2: "5 of 6 (1 diverged)"}


def test_the_caption_gives_the_medians_of_points_with_a_round_that_stalled() -> None:
    runs = grid(("lock", "nolock"), (1, 2)).assign(loop_s=1.0)
    assert "median" not in captions.caption(summaries.step_time(runs), "1").text
    stalled = (runs["strategy"] == "lock") & (runs["threads"] == 2) & (runs["round"] == 3)
    runs.loc[stalled, "loop_s"] = 1.49
    assert "median" not in captions.caption(summaries.step_time(runs), "1").text
    runs.loc[stalled, "loop_s"] = 1.51
    assert (
        "A round differs from the median of its point by more than a factor of 1.5 in 1 point, as after a stall, so "
        "the bar there may be wrong. Medians with 95 % intervals by rank: lock x2 1000 [1000, 1510]."
    ) in captions.caption(summaries.step_time(runs), "1").lines
    assert "medians" not in captions.caption(summaries.accuracy(runs), "1").text.lower()
    runs["loop_s"] = runs["round"].map({1: 1, 2: 2, 3: 1, 4: 2, 5: 1, 6: 9}) / runs["threads"]
    assert "and 1 more in the table." in captions.caption(summaries.step_time(runs), "1").text
