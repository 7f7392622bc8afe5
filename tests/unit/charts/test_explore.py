"""Any measure over any factor: the axes, the description of all other factors, and no silent averages or omissions."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.support.drawn import marks, points, text
from tests.support.frames import ended, grid, records
from tmflow.analysis import summaries
from tmflow.analysis.run_table import Loaded
from tmflow.charts import explore, palette
from tmflow.charts.layout import COLOURS, LINES, NONE, PARTS, Layout, default, dimensions, facet_of
from tmflow.spec.abort_codes import describe

HTM = {"provider": "rtm", "budget": 5, "spending": "study_tsx", "subscription": "variable"}


def together(*runs: pd.DataFrame) -> pd.DataFrame:
    return pd.concat(runs, ignore_index=True)


def chunked(*chunks: int) -> pd.DataFrame:
    return together(*(grid(("htm",), (1, 2), 2, chunk=chunk, **HTM) for chunk in chunks))


def said(summary: pd.DataFrame, layout: Layout) -> str:
    return explore.figure(summary, layout, "1").caption.text


def test_only_what_differs_may_be_on_an_axis() -> None:
    alike = summaries.accuracy(grid())
    assert dimensions(alike) == ["threads", "variant"]
    several = summaries.accuracy(together(grid(), grid(batch=1), grid(platform="b", platform_name="B")))
    assert dimensions(several) == ["threads", "variant", "platform", "batch"]
    chunks = summaries.accuracy(together(grid(("tf_lock",)), chunked(0, 64)))
    assert dimensions(chunks) == ["threads", "variant", "strategy", "chunk"]


def test_the_default_is_the_figure_of_an_experiment() -> None:
    summary = summaries.accuracy(grid())
    assert default(summary) == Layout("threads", "variant")
    assert facet_of(summary, default(summary)) == NONE
    at_one = summaries.accuracy(together(*(grid(threads=(2,), batch=batch) for batch in (1, 5))))
    assert default(at_one).x == "batch"


def test_what_changes_all_that_is_measured_comes_apart() -> None:
    summary = summaries.accuracy(together(grid(), grid(batch=1)))
    assert facet_of(summary, default(summary)) == "batch"
    assert facet_of(summary, Layout("batch", "variant")) == "threads"
    assert facet_of(summary, Layout("batch", "threads")) == NONE


def test_points_of_what_is_on_no_axis_are_lines_of_their_own_and_told() -> None:
    summary = summaries.accuracy(together(*(grid(batch=batch) for batch in (1, 5, 15))))
    chart = explore.figure(summary, Layout("threads", "variant"), "1").chart
    drawn = points(chart)
    assert len(drawn) == len(summary)
    assert drawn.groupby("line")["batch"].nunique().eq(1).all()
    assert drawn["line"].nunique() == 6
    assert "batch" in {entry["field"] for entry in marks(chart, "point")[0]["encoding"]["tooltip"]}
    text = said(summary, Layout("threads", "variant"))
    assert "Lines of one colour also differ in batch (1, 5 and 15)." in text
    assert "the chart has 6 lines for 2 names of the legend" in text
    assert "also differ in" not in said(summary, Layout("threads", "variant", "batch"))


def test_a_parameter_on_an_axis_is_not_in_the_names_of_variants() -> None:
    summary = summaries.accuracy(chunked(0, 16, 64))
    assert summary["variant"].nunique() == 3
    drawn = points(explore.figure(summary, Layout("chunk", "variant"), "1").chart)
    assert set(drawn["variant"]) == {"htm"}


def test_numbers_are_joined_and_names_are_not() -> None:
    summary = summaries.accuracy(together(*(grid(learning_rate=rate) for rate in (0.001, 0.1, 0.5))))
    chart = explore.figure(summary, Layout("learning_rate", "variant", log_x=True), "1").chart
    assert marks(chart, "line")
    assert len(marks(chart, "area")[0]["rows"]) == len(summary)
    x = marks(chart, "point")[0]["encoding"]["x"]
    assert (x["scale"]["type"], x["axis"]["values"]) == ("log", [0.001, 0.1, 0.5])
    named = explore.figure(summary, Layout("variant", "learning_rate"), "1").chart
    assert not marks(named, "line") + marks(named, "area")
    assert '["tf_lock", "tf_nolock"]' in marks(named, "point")[0]["encoding"]["x"]["axis"]["labelExpr"]


def test_a_number_that_stands_for_something_is_a_name() -> None:
    chart = explore.figure(summaries.accuracy(chunked(0, 16)), Layout("chunk", "variant"), "1").chart
    assert '["0 (whole variable)", "16"]' in marks(chart, "point")[0]["encoding"]["x"]["axis"]["labelExpr"]


def test_who_has_no_place_on_an_axis_is_told() -> None:
    summary = summaries.accuracy(together(grid(("tf_lock",), (1, 2), 2), chunked(8, 64)))
    text = said(summary, Layout("chunk", "variant"))
    assert "Not on this axis, because they have no chunk: tf_lock." in text


def test_what_has_no_such_parameter_is_in_every_part() -> None:
    summary = summaries.accuracy(together(grid(("tf_lock",), (1, 2), 2), chunked(8, 64)))
    figure = explore.figure(summary, Layout("threads", "variant", "chunk"), "1")
    assert [part["title"]["text"] for part in figure.chart.concat] == [["chunk 8"], ["chunk 64"]]
    for part in figure.chart.concat:
        assert set(points(part)["variant"]) == {"tf_lock", "htm"}
    assert len(figure.summary) == len(summary)


@pytest.mark.parametrize("evidences", [("measured",), ("measured", "emulated", "simulated", "published")])
def test_kinds_of_evidence_have_marks_of_their_own_and_a_legend(evidences: tuple[str, ...]) -> None:
    summary = summaries.accuracy(together(*(grid(("lock",), evidence=kind) for kind in evidences)))
    chart = explore.figure(summary, Layout("threads", "variant"), "1").chart
    drawn = {layer["rows"][0]["evidence"]: layer for layer in marks(chart, "point")}
    assert tuple(drawn) == evidences
    looks = {str((layer["mark"], "value" in layer["encoding"]["shape"])) for layer in drawn.values()}
    assert len(looks) == len(evidences)
    assert ("opacity" in drawn["measured"]["encoding"]) == (len(evidences) > 1)
    if len(evidences) > 1:
        (dashed,) = (layer for layer in marks(chart, "line") if layer["rows"][0]["evidence"] == "simulated")
        assert dashed["mark"]["strokeDash"]


def test_platforms_that_share_a_part_have_dashes_and_a_legend() -> None:
    several = [grid(("lock",), platform=name, platform_name=name.upper()) for name in "abc"]
    chart = explore.figure(summaries.accuracy(together(*several)), Layout("threads", "variant"), "1").chart
    scale = marks(chart, "line")[0]["encoding"]["strokeDash"]["scale"]
    assert scale["domain"] == ["A", "B", "C"]
    assert len(set(map(str, scale["range"]))) == 3


@pytest.mark.parametrize(
    ("layout", "most", "column"),
    [
        (Layout("threads", "variant", "platform"), PARTS, "platform"),
        (Layout("threads", "platform"), COLOURS, "platform"),
        (Layout("threads", "variant"), 4, "platform"),
    ],
)
def test_more_than_a_reader_can_tell_apart_is_told(layout: Layout, most: int, column: str) -> None:
    several = [grid(("lock",), (1, 2), 2, platform=f"p{n}", platform_name=f"P {n}") for n in range(31)]
    figure = explore.figure(summaries.accuracy(together(*several)), layout, "1")
    assert f"Showing {most} of 31 platforms; left out: " in figure.caption.text
    assert f"{31 - most - 4} more. Choose others at Platform." in figure.caption.text
    assert figure.summary[column].nunique() == most


def test_too_many_lines_are_told() -> None:
    summary = summaries.accuracy(together(*(grid(("lock",), (1, 2), 1, batch=n) for n in range(1, 101))))
    assert f"Showing {LINES} of 100 lines." in said(summary, Layout("threads", "variant"))


@pytest.mark.parametrize(("batches", "intervals"), [(20, True), (21, False)])
def test_a_crowd_of_lines_is_drawn_without_intervals_and_that_is_said(batches: int, intervals: bool) -> None:
    runs = together(*(grid(("lock",), (1, 2), batch=n) for n in range(1, batches + 1)))
    figure = explore.figure(summaries.accuracy(runs), Layout("threads", "variant"), "1")
    bars = [rule for rule in marks(figure.chart, "rule") if rule["rows"]]
    assert bool(bars) == intervals
    assert ("drawn without intervals; they are in the tooltips and the table" in figure.caption.text) != intervals


def test_emulated_runs_have_no_time_and_that_is_said() -> None:
    summary = summaries.step_time(together(grid(("lock",)), grid(("htm",), evidence="emulated")))
    figure = explore.figure(summary, Layout("threads", "variant"), "1")
    assert set(points(figure.chart)["evidence"]) == {"measured"}
    assert "Emulated runs are not drawn: an emulated run shows no time." in figure.caption.text
    alone = summaries.step_time(grid(("htm",), evidence="emulated"))
    assert explore.missing_reasons(alone) == ["an emulated run shows no time"]


def test_where_there_is_nothing_to_draw_it_says_why() -> None:
    runs = grid()
    ended(runs, runs["strategy"] != "", "unsupported", "no such hardware")
    assert explore.missing_reasons(summaries.accuracy(runs)) == ["unsupported: no such hardware"]
    assert explore.missing_reasons(summaries.accuracy(runs[:0])) == ["no run of it measured that"]
    with pytest.raises(ValueError, match="no point has a block"):
        explore.figure(summaries.accuracy(grid()), Layout("block", "variant"), "1")


def test_log_scales_can_be_asked_for_and_where_there_are_none_it_says_so() -> None:
    summary = summaries.step_time(grid(threads=(1, 2, 3)))
    for log in (True, False):
        encoding = marks(explore.figure(summary, Layout("threads", "variant", NONE, log, log), "1").chart, "point")[-1]
        kinds = {encoding["encoding"][axis]["scale"]["type"] for axis in "xy"}
        assert kinds == {"log" if log else "linear"}
    assert "No log scale of x: a log scale cannot show 0" in said(
        summary, Layout("variant", "threads", NONE, True, True)
    )


def test_oversubscribed_points_are_marked_or_counted() -> None:
    summary = summaries.accuracy(grid(threads=(1, 8), hardware_threads=4))
    assert "more than 4 hardware threads" in text(explore.figure(summary, Layout("threads", "variant"), "1").chart)
    assert "2 points oversubscribed" in said(summary, Layout("variant", "threads"))


def aborted() -> Loaded:
    runs = together(grid(("htm",), (1, 2), 2, **HTM), grid(("stm",), (1, 2), 2))
    counts = [
        {"uid": row.uid, "mechanism": mechanism, "family": family, "raw_code": code, "n": n}
        for row in runs.itertuples()
        for mechanism, family, code, n in ABORTS[row.strategy]
    ]
    attempts = pd.DataFrame({"uid": runs["uid"], "commits": 90, "fallbacks": 0, "attempts": 100})
    return records(runs, transactions=attempts, aborts=pd.DataFrame(counts))


ABORTS = {
    "htm": [("rtm", "capacity", "0x00000008", 5), ("rtm", "conflict", "0x00000006", 3)],
    "stm": [("stm", "conflict", "0x00000003", 2)],
}


@pytest.mark.parametrize(
    ("kind", "causes"),
    [
        ("failures", {"capacity", "conflict"}),
        ("causes", {"capacity", "conflict"}),
        ("raw_causes", {"0x00000008: capacity", "0x00000006: may succeed on a retry, conflict",
                        "0x00000003: read locked"}),
    ],
)  # fmt: skip
def test_causes_are_stacked_in_a_part_for_each_variant(kind: str, causes: set[str]) -> None:
    summary = explore.MEASURES[kind](aborted())
    figure = explore.figure(summary, Layout(explore.x_choices(summary)[0], NONE), "1")
    parts = figure.chart.concat if kind != "failures" else [figure.chart]
    bars = [row for part in parts for row in marks(part, "rect")[-1]["rows"]]
    assert {row["cause"] for row in bars} == causes
    assert len(parts) == summary["strategy"].nunique()
    every = summary[summary["cause"] == "any"].set_index(["strategy", "threads"])["estimate"]
    tops = pd.DataFrame(bars).groupby(["variant", "threads"])["top"].max()
    assert tops.to_dict() == pytest.approx(every.to_dict())


@pytest.mark.parametrize(
    ("mechanism", "status", "words"),
    [
        ("rtm", 0, "no bit set"),
        ("rtm", 0x6, "may succeed on a retry, conflict"),
        ("rtm", 30 << 24 | 1, "explicit, code 30"),
        ("power", 1 << 63 - 10 | 1 << 63 - 7, "persistent, footprint overflow"),
        ("stm", 3, "read locked"),
        ("itm", 0, "not reported"),
    ],
)
def test_a_raw_status_is_told_in_words(mechanism: str, status: int, words: str) -> None:
    assert describe(mechanism, status) == words


def test_colours_of_numbers_are_distinct_and_legible_on_light_and_dark() -> None:
    for looks in (palette.of_numbers(COLOURS), palette.of_categories(COLOURS)):
        assert len(set(looks)) == COLOURS
        for look in looks:
            assert contrast(look.colour, "#FFFFFF") > 2
            assert contrast(look.colour, "#0E1117") > 2.5


def contrast(colour: str, page: str) -> float:
    """As WCAG 2 defines it, from 1 to 21."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(colour), luminance(page)))
    return (high + 0.05) / (low + 0.05)
