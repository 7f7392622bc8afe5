"""Charts of failures, staleness, lost updates and torn reads: stacked shares, bins, and rows."""

from __future__ import annotations

import io
from typing import get_args

import pandas as pd
import pytest
from PIL import Image

from tests.support.drawn import marks, points
from tests.support.frames import grid
from tmflow.analysis import stats, summaries
from tmflow.charts import captions, measure_charts, palette
from tmflow.charts.axes import value_range
from tmflow.charts.figures import Figure, figures_of
from tmflow.spec import abort_codes as aborts
from tmflow.spec.strategies import parameters_of


def of_causes(shares: dict[str, tuple[float, ...]], threads: tuple[int, ...] = (1, 2)) -> pd.DataFrame:
    """A summary of failures with these shares in each of six rounds, slightly more in the later ones."""
    runs = grid(("stm",), threads, **parameters_of("stm"))
    attempts = pd.DataFrame({"uid": runs["uid"], "commits": 100, "fallbacks": None, "attempts": 1000})
    aborts = [
        {
            "uid": row.uid,
            "mechanism": "stm",
            "family": cause,
            "n": round(1000 * share[threads.index(row.threads)]) + row.round,
        }
        for row in runs.itertuples()
        for cause, share in shares.items()
    ]
    return summaries.failures(runs, attempts, pd.DataFrame(aborts))


def test_failures_are_stacked_by_cause_and_the_interval_is_that_of_the_whole() -> None:
    summary = of_causes({"conflict": (0.1, 0.3), "validation": (0.2, 0.4)})
    chart = measure_charts.draw(summary)
    bars = pd.DataFrame(marks(chart, "rect")[-1]["rows"])
    at = {(row.threads, row.cause): (row.bottom, row.top) for row in bars.itertuples()}
    assert at == {
        (1, "conflict"): (0, pytest.approx(0.1035)),
        (1, "validation"): (pytest.approx(0.1035), pytest.approx(0.307)),
        (2, "conflict"): (0, pytest.approx(0.3035)),
        (2, "validation"): (pytest.approx(0.3035), pytest.approx(0.707)),
    }
    (whisker,) = marks(chart, "rule")
    whole = summary[summary["cause"] == summaries.ANY]
    assert [row["estimate"] for row in whisker["rows"]] == pytest.approx([0.307, 0.707])
    assert [row["bar_high"] for row in whisker["rows"]] == pytest.approx(whole["high"].tolist())
    assert value_range(summary)[:2] == (0, 1)
    text = captions.caption(summary, "1").text
    assert "Aborts by family – fig_4_1" in text
    assert "t intervals of all causes together" in text


def test_a_chart_without_an_abort_says_so_and_has_no_legend() -> None:
    """Vega gives a chart with an empty legend an infinite size."""
    summary = of_causes({"conflict": (0.1, 0.3)})
    drawn = Figure(
        measure_charts.draw(summary.assign(estimate=0.0, low=0.0, high=0.0)), captions.caption(summary, "1"), summary
    )
    assert b"No attempt aborted." in drawn.file("svg")
    assert Image.open(io.BytesIO(drawn.file("png"))).width < 4000


def test_few_failures_are_not_shown_on_the_scale_of_all_attempts() -> None:
    assert value_range(of_causes({"conflict": (0.001, 0.02)})).high < 0.05


def test_causes_have_the_same_colour_in_every_chart_and_neighbours_differ() -> None:
    for known in (get_args(aborts.Family), get_args(aborts.TsxClass), get_args(aborts.PowerClass)):
        assert len({palette.CAUSES[cause] for cause in known}) == len(known)


def test_bars_and_points_stay_apart_at_all_the_threads_of_the_study() -> None:
    threads = (1, 2, 4, 8, 16, 26, 32, 48, 64)
    bars = pd.DataFrame(marks(measure_charts.draw(of_causes({"conflict": (0.3,) * 9}, threads)), "rect")[-1]["rows"])
    assert (bars["x"].to_numpy()[1:] > bars["end"].to_numpy()[:-1]).all()
    variants = [grid(("stm",), threads, 2, **parameters_of("stm") | {"chunk": chunk}) for chunk in range(0, 9 * 64, 64)]
    drawn = points(measure_charts.draw(summaries.speedup(pd.concat(variants, ignore_index=True))))
    assert not drawn.duplicated(["x", "variant"]).any()
    assert drawn.groupby("threads")["x"].agg(["min", "max"]).stack().is_monotonic_increasing


def test_long_tails_of_staleness_are_drawn_in_ranges() -> None:
    runs = grid(threads=(2,), rounds=2)
    counts = pd.DataFrame([{"uid": uid, "staleness": s, "steps": 1} for uid in runs["uid"] for s in range(1000)])
    summary = summaries.staleness(runs, counts)
    drawn = points(measure_charts.draw(summary))
    one = drawn[drawn["strategy"] == "tf_lock"]
    assert list(zip(one["staleness"], one["up_to"], strict=True)) == [
        *((s, s) for s in range(5)),
        *((4 * 2**n + 1, 8 * 2**n) for n in range(8)),
    ]
    assert one["estimate"].tolist() == pytest.approx([0.001] * 5 + [0.004 * 2**n for n in range(7)] + [0.487])
    assert sorted(drawn["estimate"]) == sorted(summary["estimate"])  # the CSV's
    axis = marks(measure_charts.draw(summary), "point")[0]["encoding"]["x"]["axis"]
    assert "'5–8', '9–16'" in axis["labelExpr"]
    assert axis["values"] == list(range(13))


@pytest.mark.parametrize("staleness", [*range(70), 128, 129, 10**6])
def test_every_staleness_is_in_one_range(staleness: int) -> None:
    place = summaries.place_of(staleness)
    first, last = summaries.range_at(place)
    assert first <= staleness <= last
    assert summaries.range_at(place + 1)[0] == last + 1


def test_staleness_with_a_long_tail_is_log() -> None:
    runs = grid(threads=(2,), rounds=2)
    for steps, log in ((100, True), (2, False)):
        counts = [{"uid": uid, "staleness": s, "steps": steps if s == 0 else 1} for uid in runs["uid"] for s in (0, 9)]
        shown = value_range(summaries.staleness(runs, pd.DataFrame(counts)))
        assert (shown.log, shown.high <= 1) == (log, True)


def test_rows_tell_who_loses_how_much_and_who_nothing() -> None:
    runs = grid(("lock", "nolock", "spin", "atomic"), (1, 2, 8), measures="full")
    shares = {("nolock", 2): 0.2, ("nolock", 8): 0.3, ("spin", 8): 0.0004}
    share = [shares.get((row.strategy, row.threads), 0.0) + 0.001 * (row.round - 3.5) * (row.strategy == "nolock") *
             (row.threads > 1) for row in runs.itertuples()]  # fmt: skip
    full = pd.DataFrame({"uid": runs["uid"], "lost_fraction": share, "torn_fraction": float("nan")})
    summary = summaries.lost(runs, full)
    chart = measure_charts.draw(summary)
    (said,) = marks(chart, "text")
    assert [(row["row"], row["says"]) for row in said["rows"]] == [
        ("nolock, 1 worker", "0 in 6 rounds"),
        ("nolock, 2 workers", "20 %"),
        ("nolock, 8 workers (oversubscribed)", "30 %"),
        ("spin, 1 worker", "0 in 6 rounds"),
        ("spin, 2 workers", "0 in 6 rounds"),
        ("spin, 8 workers (oversubscribed)", "0.04 %"),
        ("lock", "0 in 6 rounds (1, 2 and 8 workers; oversubscribed: 8)"),
        ("atomic", "0 in 6 rounds (1, 2 and 8 workers; oversubscribed: 8)"),
    ]
    assert said["encoding"]["y"]["sort"] == [row["row"] for row in said["rows"]]
    columns = ["variant", "threads", "estimate", "low", "high"]
    drawn, expected = (rows[columns].sort_values(columns[:2], ignore_index=True) for rows in (points(chart), summary))
    pd.testing.assert_frame_equal(drawn, expected, check_dtype=False)
    (bars, *_) = marks(chart, "rule")
    at = {(row["variant"], row["threads"]): row for row in bars["rows"]}
    assert at["nolock", 8]["bar_low"] < 0.3 < at["nolock", 8]["bar_high"]
    colours = marks(chart, "point")[0]["encoding"]["color"]["scale"]
    assert dict(zip(colours["domain"], colours["range"], strict=True))["nolock"] == palette.look("nolock").colour


@pytest.mark.parametrize("measure", ["accuracy", "commits", "lost"])
def test_the_csv_has_shares_and_intervals_within_0_and_1(measure: str) -> None:
    runs = grid(("stm",), (1, 2), 3, measures="full", **parameters_of("stm"))
    share = (
        runs["round"].map({1: 1.0, 2: 0.5, 3: 1.0}).where(runs["threads"] == 1, runs["round"].map({1: 0, 2: 0.4, 3: 0}))
    )
    runs["final_accuracy"] = share
    counts = pd.DataFrame({"uid": runs["uid"], "commits": 100 * share, "fallbacks": 100 - 100 * share, "attempts": 100})
    full = pd.DataFrame({"uid": runs["uid"], "lost_fraction": share})
    summary = {"accuracy": summaries.accuracy(runs), "commits": summaries.commits(runs, counts),
               "lost": summaries.lost(runs, full)}[measure]  # fmt: skip
    ((_, figure),) = figures_of(measure, summary, "1")
    table = pd.read_csv(io.BytesIO(figure.file("csv")))
    assert stats.mean_interval([1.0, 0.5, 1.0]).high > 1  # the t interval alone is not within
    assert stats.mean_interval([0, 0.4, 0]).low < 0
    assert sorted(table["high"])[-1] == 1
    assert sorted(table["low"])[0] == 0
    assert table[["estimate", "low", "high"]].stack().between(0, 1).all()


def test_lost_and_torn_show_small_shares_from_zero() -> None:
    runs = grid(("lock", "nolock"), (1, 2), measures="full")
    full = pd.DataFrame({"uid": runs["uid"], "lost_fraction": 0.0, "torn_fraction": 0.0})
    full.loc[runs["strategy"] == "nolock", "lost_fraction"] = 0.002
    for summarise, draw in ((summaries.lost, measure_charts.draw), (summaries.torn, measure_charts.draw)):
        summary = summarise(runs, full)
        assert (value_range(summary).low, value_range(summary).high) == (0, 0.01)
        assert len(points(draw(summary))) == 4
