"""Charts show the numbers of the summary, separate overlapping points, and mark what might be misread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import altair as alt
import pandas as pd
import pytest

from tests.support.drawn import layers, marks, points, text
from tests.support.frames import ended, grid
from tmflow.analysis import summaries
from tmflow.analysis.variants import STRATEGIES, ordered_variants, panels
from tmflow.charts import captions, explore, measure_charts, palette
from tmflow.charts.axes import Ticks, value_range
from tmflow.charts.figures import figures_of
from tmflow.charts.layout import Layout, default
from tmflow.charts.series import of_variants
from tmflow.charts.tooltips import words_of_divergence

FIVE = ("tf_lock", "tf_nolock", "lock", "nolock", "htm")


@pytest.mark.parametrize(
    ("draw", "summarise"),
    [
        (measure_charts.draw, summaries.speedup),
        (measure_charts.draw, summaries.step_time),
        (measure_charts.draw, summaries.accuracy),
    ],
)
@pytest.mark.parametrize("rounds", [1, 6])
def test_points_are_the_rows_of_the_summary(
    draw: Callable[..., Any], summarise: Callable[..., Any], rounds: int
) -> None:
    summary = summarise(grid(FIVE, rounds=rounds))
    columns = ["strategy", "threads", "estimate", "low", "high", "rounds"]
    drawn = points(draw(summary))[columns].sort_values(columns[:2]).reset_index(drop=True)
    expected = summary[columns].sort_values(columns[:2]).reset_index(drop=True)
    pd.testing.assert_frame_equal(drawn.astype({"low": float, "high": float}), expected, check_dtype=False)


def test_points_stand_at_their_true_x_and_equal_ones_have_a_visible_rim() -> None:
    chart = measure_charts.draw(summaries.accuracy(grid(FIVE, (1, 2, 4, 8))))
    drawn = points(chart)
    assert drawn.groupby("threads")["estimate"].nunique().eq(1).all()  # they do coincide
    assert drawn["x"].tolist() == drawn["threads"].tolist()
    for _, equal in drawn.groupby("x", sort=False):
        assert equal["strategy"].tolist() == list(FIVE)  # drawn in this order
        assert equal["size"].is_monotonic_decreasing
        assert equal["size"].is_unique
        assert equal["beside"].tolist() == [-8, -4, 0, 4, 8]  # px from a point to its interval
    bars = marks(chart, "rule")[0]
    assert bars["mark"]["xOffset"] == {"expr": "datum.beside"}


def test_points_that_differ_have_the_same_size() -> None:
    drawn = points(measure_charts.draw(summaries.step_time(grid(FIVE, (1, 2, 4, 8)))))
    assert drawn.groupby("threads")["size"].max().gt(70).any()
    runs = grid(FIVE, (1, 2, 4, 8))
    runs["loop_s"] *= runs["strategy"].map({name: place + 1 for place, name in enumerate(FIVE)})
    drawn = points(measure_charts.draw(summaries.step_time(runs)))
    assert set(drawn.loc[drawn["threads"] == 1, "size"]) == {70}


def test_names_along_x_are_dodged() -> None:
    summary = summaries.accuracy(grid(FIVE, (1, 2)))
    drawn = points(explore.figure(summary, Layout("threads", "variant"), "1").chart)
    assert set(drawn["x"]) == {1, 2}
    drawn = points(explore.figure(summary, Layout("variant", "threads"), "1").chart)
    assert not drawn.duplicated(["x", "estimate"]).any()


def test_a_point_of_which_rounds_diverged_is_hollow_unconnected_and_says_so() -> None:
    runs = grid(("lock", "nolock"), (1, 2, 4))
    ended(
        runs,
        (runs["strategy"] == "nolock") & (runs["threads"] == 2) & (runs["round"] > 1),
        "failed",
        "Diverged: NaN in W",
    )
    summary = summaries.accuracy(runs)
    chart = measure_charts.draw(summary)
    whole, hollow = marks(chart, "point")
    assert whole["mark"]["filled"]
    assert not hollow["mark"]["filled"]
    assert [(row["strategy"], row["threads"], row["diverged"]) for row in hollow["rows"]] == [
        ("nolock", 2, "5 of 6 diverged")
    ]
    assert "diverged" in {entry["field"] for entry in hollow["encoding"]["tooltip"]}
    assert "diverged" not in {entry["field"] for entry in whole["encoding"]["tooltip"]}
    (line,) = marks(chart, "line")
    assert ("nolock", 2) not in {(row["strategy"], row["threads"]) for row in line["rows"]}
    assert len(line["rows"]) == 5
    assert "hollow and not joined: some of its rounds diverged" in captions.caption(summary, "1").text
    assert "hollow" not in captions.caption(summaries.accuracy(grid()), "1").text


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ("6 of 6", None),
        ("1 of 6 (5 diverged)", "5 of 6 diverged"),
        ("3 of 8 (2 timed out, 3 diverged)", "3 of 8 diverged"),
        ("5 of 6 (1 timed out)", None),
        ("A 5 of 6 (1 diverged), B 6 of 6", "1 of 6 diverged"),
    ],
)
def test_words_of_divergence(results: str, words: str | None) -> None:
    assert words_of_divergence(results) == words


def test_a_chart_of_many_series_begins_with_six_without_bands_and_names_the_others() -> None:
    few, many = (summaries.step_time(grid(STRATEGIES[:n], (1, 2, 4), rounds=2)) for n in (6, 17))
    ((_, whole),), ((_, figure),) = figures_of("step_time", few, "1"), figures_of("step_time", many, "1")
    (choice,) = figure.drawn["params"]
    assert [entry["variant"] for entry in choice["value"]] == list(STRATEGIES[:6])
    assert choice["bind"]["legend"].startswith("click")
    assert marks(figure.chart, "area") == []
    assert len(marks(whole.chart, "area")) == 1
    assert "value" not in whole.drawn["params"][0]
    assert len(points(figure.chart)) == 51  # all are there for the legend to show
    (sentence,) = (line for line in figure.caption.lines if line.startswith("Drawn at first: 6 of the 17 names"))
    assert all(name in sentence for name in STRATEGIES[6:17])
    assert not any(line.startswith("Drawn at first:") for line in whole.caption.lines)
    for layer in filter(lambda layer: layer["rows"], layers(figure.chart)):
        chosen = layer.get("transform") == [{"filter": {"param": "chosen"}}]
        assert chosen == ("variant" in layer["rows"][0])


def test_the_six_have_one_variant_of_each_strategy_before_a_second() -> None:
    names = ["tf_lock", *(f"lock (chunk {n})" for n in range(4)), "nolock", *(f"htm (budget {n})" for n in range(4))]
    series = of_variants(names)
    assert series.first == ["tf_lock", "lock (chunk 0)", "lock (chunk 1)", "nolock", "htm (budget 0)", "htm (budget 1)"]
    assert sorted([*series.first, *series.hidden]) == sorted(names)
    assert sorted(series.places[name] for name in series.first) == list(range(6))


def test_series_of_one_colour_differ_in_their_dashes() -> None:
    drawn = marks(measure_charts.draw(summaries.step_time(grid(STRATEGIES, (1, 2), rounds=2))), "line")[0]
    nth = {row["variant"]: row["nth"] for row in drawn["rows"]}
    looks = {(palette.look(name).colour, nth[name]) for name in STRATEGIES}
    assert len(looks) == len(STRATEGIES)
    assert len({str(dash) for dash in drawn["encoding"]["strokeDash"]["scale"]["range"]}) > max(nth.values())


def test_the_legend_is_above_all_parts() -> None:
    chart = measure_charts.draw(summaries.accuracy(grid(FIVE)))
    assert marks(chart, "point")[0]["encoding"]["color"]["legend"]["orient"] == "top"


@pytest.mark.parametrize(
    ("batches", "threads", "x"),
    [((1, 5, 15), (1, 2), "batch"), ((1, 5), (1, 2), "threads"), ((1, 5), (1, 2, 4), "threads")],
)
def test_x_is_the_factor_that_the_experiment_varies(batches: tuple[int, ...], threads: tuple[int, ...], x: str) -> None:
    summary = summaries.step_time(pd.concat([grid(("lock", "nolock"), threads, 2, batch=batch) for batch in batches]))
    assert default(summary).x == x
    drawn = dict(figures_of("step_time", summary, "1"))
    expected = [f"threads {n}" for n in threads] if x == "batch" else [f"batch {n}" for n in batches]
    assert list(drawn) == expected
    title = marks(drawn[expected[0]].chart, "point")[0]["encoding"]["x"]["title"]
    assert title.startswith("Images per step (batch)" if x == "batch" else "Worker threads")
    assert set(points(drawn[expected[0]].chart)["x"]) == set(batches if x == "batch" else threads)


def test_what_differs_only_together_with_something_else_is_not_varied() -> None:
    """As the emulated runs of figure 4.1, which have fewer steps."""
    emulated = grid(("lock",), (1, 2), 2, evidence="emulated", iterations=100, test_images=5)
    runs = [grid(("lock",), (1, 2), 2), emulated, grid(("lock",), (1, 2), 2, iterations=50, learning_rate=0.1)]
    assert default(summaries.accuracy(pd.concat(runs))).x == "threads"


def test_speedups_over_another_factor_have_no_panel_of_one_worker() -> None:
    runs = pd.concat([grid(("lock",), (1, 2), 2, batch=batch) for batch in (1, 5, 15)])
    assert [label for label, _ in figures_of("speedup", summaries.speedup(runs), "1")] == [""]


def test_points_without_interval_have_no_bar() -> None:
    runs = grid(("tf_lock",), (1, 2))
    chart = measure_charts.draw(summaries.accuracy(runs[(runs["threads"] == 1) | (runs["round"] == 1)]))
    (drawn,) = marks(chart, "point")
    assert {row["threads"] for row in drawn["rows"]} == {1, 2}
    assert {row["threads"] for row in marks(chart, "rule")[0]["rows"]} == {1}


def test_evidence_kinds_have_marks_of_their_own() -> None:
    chart = measure_charts.draw(summaries.accuracy(grid(("tf_lock",), evidence="emulated")))
    (drawn,) = marks(chart, "point")
    assert not drawn["mark"]["filled"]
    assert "emulated" in drawn["encoding"]["opacity"]["legend"]["labelExpr"]


def test_a_point_without_estimate_is_not_drawn_but_named() -> None:
    runs = grid()
    runs = runs[(runs["strategy"] != "tf_nolock") | (runs["threads"] > 1)]
    summary = summaries.speedup(runs)
    assert set(points(measure_charts.draw(summary))["strategy"]) == {"tf_lock"}
    lines = captions.caption(summary, "7").lines
    assert (
        "Not shown: tf_nolock x2, tf_nolock x4, tf_nolock x8: "
        "no round has the same configuration with one worker to compare with."
    ) in lines


def test_a_strategy_without_a_result_is_named_with_the_reason_in_short() -> None:
    runs = grid(("tf_lock", "htm"))
    htm = runs["strategy"] == "htm"
    runs.loc[htm, ["status", "reason"]] = ["failed", f"InvalidArgumentError: {'a long story, ' * 50}."]
    runs.loc[htm, ["loop_s", "final_accuracy"]] = float("nan")
    summary = summaries.accuracy(runs)
    assert set(points(measure_charts.draw(summary))["strategy"]) == {"tf_lock"}
    (line,) = (line for line in captions.caption(summary, "7").lines if "htm" in line)
    assert line.startswith("Not shown: htm x1, htm x2, htm x4, htm x8: failed: InvalidArgumentError: a long story")
    assert line.endswith(" ….")
    assert len(line) < 300


def test_the_oversubscribed_region_is_shaded_and_labelled() -> None:
    chart = measure_charts.draw(summaries.step_time(grid(hardware_threads=4)))
    (shade,) = marks(chart, "rect")
    assert 4 < shade["rows"][0]["x"] < 8 < shade["rows"][0]["end"]
    assert "more than 4 hardware threads" in text(chart)
    (label,) = (layer for layer in marks(chart, "text") if "oversubscribed" in str(layer["mark"]["text"]))
    assert (label["encoding"]["y"]["value"], label["mark"]["baseline"]) == (0, "bottom")  # above the plot
    assert label["mark"]["dy"] < 0


@pytest.mark.parametrize("hardware", [8, None])
def test_nothing_is_shaded_where_nothing_is_known_to_be_oversubscribed(hardware: int | None) -> None:
    chart = measure_charts.draw(summaries.step_time(grid(hardware_threads=hardware)))
    assert marks(chart, "rect") == []


def test_everything_oversubscribed_is_shaded_whole() -> None:
    chart = measure_charts.draw(summaries.step_time(grid(threads=(2, 4), hardware_threads=1)))
    (shade,) = marks(chart, "rect")
    left = chart.to_dict()["layer"][-1]["encoding"]["x"]["scale"]["domain"][0]
    assert shade["rows"][0]["x"] == pytest.approx(max(left, Ticks((2, 4)).between(1, 2)))


def test_the_ideal_line_is_as_many_times_as_workers() -> None:
    chart = measure_charts.draw(summaries.speedup(grid()))
    ideal = next(layer for layer in marks(chart, "line") if "ideal" in layer["rows"][0])
    assert ideal["rows"][0] == {"x": 1, "ideal": 1}
    assert ideal["rows"][-1] == {"x": pytest.approx(8), "ideal": pytest.approx(8)}
    assert "ideal" in text(chart)


def test_axis_titles_have_units() -> None:
    def titles(chart: alt.LayerChart) -> tuple[str, str]:
        encoding = marks(chart, "point")[0]["encoding"]
        return encoding["x"]["title"], encoding["y"]["title"]

    assert titles(measure_charts.draw(summaries.step_time(grid()))) == (
        "Worker threads (log scale)",
        "Wall time per step (µs)",
    )
    linear = grid(threads=(1, 2, 3, 4))
    assert titles(measure_charts.draw(summaries.speedup(linear)))[0] == "Worker threads"
    assert (
        titles(measure_charts.draw(summaries.speedup(linear, "tf_lock")))[1] == "Speedup over tf_lock with one worker"
    )


def test_ranges_start_at_zero_zoom_on_fractions_and_turn_log() -> None:
    runs = grid()
    assert value_range(summaries.speedup(runs)).low == 0
    zoomed = value_range(summaries.accuracy(runs))
    assert (0.88 < zoomed.low < 0.9035 < zoomed.high < 0.93, zoomed.cuts) == (True, False)
    runs.loc[runs["strategy"] == "tf_nolock", "loop_s"] *= 50
    assert value_range(summaries.step_time(runs)).log
    assert not value_range(summaries.speedup(runs, "tf_lock")).log


def test_a_huge_interval_is_cut_and_the_caption_says_so() -> None:
    runs = grid(("tf_lock",), (1, 2), rounds=2)
    runs["loop_s"] = [1.0, 1.0, 0.4, 0.9]
    summary = summaries.speedup(runs)
    assert summary["high"].max() > 100
    assert value_range(summary).high < 5
    assert "bars that leave the chart end in an arrow" in captions.caption(summary, "7").text


@pytest.mark.parametrize(
    ("values", "log"),
    [((1, 2, 4, 8), True), ((1, 2, 3, 4), False), (range(1, 17), False), ((1, 2), False), ((4,), False)],
)
def test_threads_get_the_scale_that_keeps_them_apart(values: tuple[int, ...], log: bool) -> None:
    ticks = Ticks(values)
    assert ticks.log is log
    left, right = ticks.scale().domain
    assert left < ticks.first <= ticks.last < right


def test_captions_tell_what_the_numbers_are() -> None:
    text = captions.caption(summaries.accuracy(grid(scale="quick")), "42").text
    for part in (
        "fig_4_1",
        "mnist_softmax on mnist",
        "A box; measured on real hardware",
        "6 rounds",
        "quick scale",
    ):
        assert part in text
    assert "Newest run 2026-01-06; database revision 42." in text


def test_disturbed_rounds_are_in_the_caption() -> None:
    runs = grid()
    assert "disturbed" not in captions.caption(summaries.accuracy(runs), "1").text
    runs.loc[runs["round"] < 3, "disturbed"] = True
    assert "up to 2 disturbed rounds in a point" in captions.caption(summaries.accuracy(runs), "1").text


def test_looks_are_distinct_fixed_and_the_same_in_every_chart() -> None:
    assert len(set(palette.LOOKS.values())) == len(palette.LOOKS)
    known = set(palette.LOOKS.values())
    assert palette.look("some_new_strategy") == palette.look("some_new_strategy")
    assert palette.look("some_new_strategy") not in known
    assert ordered_variants(["zebra", "htm", "tf_lock", "ant", "htm"]) == ["tf_lock", "htm", "ant", "zebra"]
    for strategies in (("nolock",), FIVE):
        scale = marks(measure_charts.draw(summaries.accuracy(grid(strategies))), "point")[0]["encoding"]["color"][
            "scale"
        ]
        assert dict(zip(scale["domain"], scale["range"], strict=True))["nolock"] == palette.look("nolock").colour


@pytest.mark.parametrize(
    "drawn_together",
    [
        [*FIVE, "stm", "itm", "tle"],
        ["lock", "nolock", "atomic", "striped", "combining", "block_stm", "leashed", "adaptive"],
    ],
    ids=["of the study", "beyond it"],
)
def test_strategies_that_are_drawn_together_have_colours_of_their_own(drawn_together: list[str]) -> None:
    assert len({palette.look(strategy).colour for strategy in drawn_together}) == len(drawn_together)


def test_curve_and_staleness_draw_every_step() -> None:
    runs = grid(threads=(2,), rounds=2, curve_points=3)
    runs.loc[runs["strategy"] == "tf_nolock", ["status", "reason"]] = ["failed", "boom"]
    rows = [{"uid": uid, "iteration": i, "accuracy": i / 2000} for uid in runs["uid"] for i in (0, 500, 1000)]
    drawn = points(measure_charts.draw(summaries.curve(runs, pd.DataFrame(rows))))
    assert sorted(set(drawn["iteration"])) == [0, 500, 1000]
    counts = [{"uid": uid, "staleness": s, "steps": 10} for uid in runs["uid"] for s in (0, 1, 5)]
    drawn = points(measure_charts.draw(summaries.staleness(runs, pd.DataFrame(counts))))
    assert drawn.groupby("strategy")["estimate"].sum().to_dict() == pytest.approx({"tf_lock": 1})


def test_a_bar_is_cut_at_the_edge_of_a_log_axis_too() -> None:
    runs = grid(("tf_lock", "stm"), (1, 2), rounds=2)
    runs.loc[runs["strategy"] == "stm", "loop_s"] *= 100
    summary = summaries.step_time(runs)
    chart, shown = measure_charts.draw(summary), value_range(summary)
    assert shown.log
    assert summary["high"].max() > shown.high  # two rounds that differ by half: a very wide interval
    bars = marks(chart, "rule")[0]["rows"]
    assert len(bars) == 4
    assert all(shown.low <= bar["bar_low"] < bar["bar_high"] <= shown.high for bar in bars)
    for caps, end in zip(marks(chart, "tick"), ("low", "high"), strict=True):
        assert all(shown.low <= row[end] <= shown.high for row in caps["rows"])


def test_variants_of_a_strategy_have_its_colour_and_shapes_of_their_own() -> None:
    names = ["tf_lock", "htm (budget 0)", "htm (budget 5)", "htm (budget 100)", "tle"]
    looks = palette.looks(names)
    assert len(set(looks)) == len(names)
    assert [look.colour for look in looks[1:4]] == [palette.look("htm").colour] * 3
    assert looks[1] == palette.look("htm")
    assert palette.looks(["lock", "nolock"]) == [palette.look("lock"), palette.look("nolock")]
    assert ordered_variants(reversed(names)) == names


def test_a_caption_tells_the_versions_of_the_software_if_there_are_several() -> None:
    runs = grid()
    assert "software" not in captions.caption(summaries.speedup(runs), "r1").text
    lock = runs["strategy"] == "tf_lock"
    runs.loc[lock, "software"] = "tmflow 0.2.0 at aaaaaaaaaa"
    sentence = "Measured by 2 versions of the software (claims never pool versions): "
    sentence += "tmflow 0.1.0 at 0123456789; tmflow 0.2.0 at aaaaaaaaaa; "
    assert (
        f"{sentence}no point pools rounds of several versions." in captions.caption(summaries.speedup(runs), "r1").lines
    )
    runs.loc[lock & (runs["round"] > 3) & (runs["threads"] == 2), "software"] = "tmflow 0.1.0 at 0123456789"
    summary = summaries.step_time(runs)
    assert f"{sentence}rounds of several versions are pooled in 1 of 8 points." in captions.caption(summary, "r1").lines
    assert (summary["software"] == "tmflow 0.1.0 at 0123456789 + tmflow 0.2.0 at aaaaaaaaaa").sum() == 1
    runs.loc[~lock, ["status", "reason"]] = ["failed", "boom"]
    assert summaries.step_time(runs)["software"].isna().sum() == 4


def test_variants_are_drawn_and_captioned() -> None:
    own = {"provider": "rtm", "spending": "study_tsx", "chunk": 64}
    runs = pd.concat([grid(("tf_lock",)), *(grid(("htm",), budget=budget, **own) for budget in (0, 5))])
    runs.loc[(runs["budget"] == 0) & (runs["threads"] == 8), ["status", "reason"]] = ["failed", "boom"]
    ((_, panel),) = panels(summaries.accuracy(runs))
    drawn = points(measure_charts.draw(panel))
    assert drawn.groupby("variant").size().to_dict() == {"tf_lock": 4, "htm (budget 0)": 3, "htm (budget 5)": 4}
    lines = captions.caption(panel, "r1").lines
    assert "htm: chunk 64." in lines
    assert "Not shown: htm (budget 0) x8: failed: boom." in lines


def test_an_update_in_chunks_is_captioned_with_the_consistency_of_a_block() -> None:
    ((_, panel),) = panels(summaries.step_time(pd.concat([grid(("lock", "striped")), grid(("lock",), chunk=64)])))
    assert (
        "Consistency of updates (compare speeds only at equal consistency): block: lock (chunk 64), striped; "
        "tensor: lock."
    ) in captions.caption(panel, "r1").lines


def test_speed_is_captioned_with_consistency_where_they_differ() -> None:
    own = {"kernel": "plain", "optimisation": "O3"}
    adaptive = [grid(("adaptive",), promise=promise, **own) for promise in ("block", "tensor")]
    runs = pd.concat([grid(("tf_lock", "tf_nolock")), *adaptive], ignore_index=True)
    sentence = (
        "Consistency of updates (compare speeds only at equal consistency): none: tf_nolock; "
        "block: adaptive (promise block); tensor: tf_lock, adaptive (promise tensor)."
    )
    for summary in (summaries.step_time(runs), summaries.speedup(runs), summaries.speedup(runs, "tf_lock")):
        ((_, panel),) = panels(summary)
        assert sentence in captions.caption(panel, "1").lines
    assert "Guarantees" not in captions.caption(summaries.accuracy(runs), "1").text
    assert "Guarantees" not in captions.caption(summaries.step_time(grid(("tf_lock",))), "1").text


def test_captions_tell_how_runs_ran() -> None:
    usual = captions.caption(summaries.step_time(grid()), "1").text
    assert "session driver, ref variables." in usual
    assert "Fully instrumented" not in usual
    mlp = {"model": "mnist_mlp", "hidden": 16, "activation": "relu", "driver": "native", "pinning": "cores"}
    ways = {"reading": "consistent", "layout": "joined", "measures": "full"}
    text = captions.caption(summaries.step_time(grid(("lock",), **mlp, **ways)), "1").text
    assert "784 pixels, 16 hidden relu units, " in text
    assert "native driver, reading consistent, layout joined, pinned to cores." in text
    assert "not comparable with those of usual runs" in text


def test_the_time_to_a_target_names_it_and_who_never_was_there() -> None:
    runs = grid(("lock", "nolock"), (1, 2), curve_points=2)
    curves = [
        {"uid": row.uid, "iteration": i, "elapsed_s": i / 100, "accuracy": a - 0.5 * (row.strategy == "nolock")}
        for row in runs.itertuples()
        for i, a in ((100, 0.8), (200, 0.95))
    ]
    parts = dict(panels(summaries.time_to_accuracy(runs, pd.DataFrame(curves))))
    assert list(parts) == ["target 0.9", "target 0.97"]
    chart = measure_charts.draw(parts["target 0.9"])
    assert set(points(chart)["strategy"]) == {"lock"}
    assert marks(chart, "point")[0]["encoding"]["y"]["title"] == "Seconds to 90% test accuracy"
    text = captions.caption(parts["target 0.9"], "1").text
    assert "Not shown: nolock x1, nolock x2: 6 of 6 rounds never reached 90%." in text
    assert "interpolated linearly" in text
