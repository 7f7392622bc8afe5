"""The page "Explore": every measure in every layout, from its URL alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from pages import opened, plain, texts
from seed import CRASH, PLATFORM
from sqlalchemy import URL
from streamlit.testing.v1 import AppTest

from tests.support.sample_runs import sample_runs
from tmflow.analysis import summaries
from tmflow.charts import explore
from tmflow.charts.explore import MEASURES
from tmflow.charts.layout import Layout, name_variants
from tmflow.runfile import record
from tmflow.runfile.record import NO_TIME
from tmflow.store import engine, queries
from tmflow.store.ingest import ingest
from tmflow.store.run_filter import RESULTS

BOTH = {"experiment": "transactions", "evidence": ["measured", "emulated"]}
UNSUPPORTED = "unsupported: htm needs hardware that this machine lacks"


def seen(url: URL, monkeypatch: pytest.MonkeyPatch, **query: str | Sequence[str]) -> AppTest:
    return opened("explore", url, monkeypatch, **query)


def table(app: AppTest) -> pd.DataFrame:
    (shown,) = (element.value for element in app.dataframe)
    return shown


@pytest.mark.parametrize("kind", MEASURES)
def test_every_measure_is_drawn_or_says_why_not(kind: str, seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = seen(seeded, monkeypatch, **BOTH, metric=kind)
    assert not app.error
    assert not app.warning
    if app.dataframe:
        assert table(app)["estimate"].notna().any()
        assert len(app.get("vega_lite_chart")) >= 1
    else:
        assert app.info[0].value.startswith("Nothing to draw")


def test_the_browser_is_sent_what_the_files_are_drawn_from(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Vega-Lite in tests/unit/charts/golden; but the caption is below the chart, and the theme is the page's."""
    app = seen(seeded, monkeypatch, experiment="softmax-batch-1", metric="speedup")
    (chart,) = app.get("vega_lite_chart")
    sent = json.loads(chart.proto.spec)
    reader = engine.open_reader(seeded)
    summary = summaries.speedup(
        queries.runs(reader, replace(RESULTS, statuses=None, experiments=["softmax-batch-1"], scales=["full"]))
    )
    spec = explore.figure(summary.assign(variant=name_variants(summary)), Layout("threads", "variant"), "1").spec()
    assert [layer["mark"] for layer in sent["layer"]] == [layer["mark"] for layer in spec["layer"]]
    assert [layer["encoding"] for layer in sent["layer"]] == [layer["encoding"] for layer in spec["layer"]]
    assert {data.name for data in chart.proto.datasets} == set(spec["datasets"])


def test_the_link_chooses_the_target_accuracy(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    of = {"experiment": "softmax-batch-100", "metric": "time_to_accuracy"}
    assert "never reached 90%" in texts(seen(seeded, monkeypatch, **of))
    app = seen(seeded, monkeypatch, **of, target="62.5")
    assert not app.warning
    assert "Seconds to 62.5% test accuracy" in str(app.get("vega_lite_chart")[0].proto.spec)
    only = replace(RESULTS, statuses=None, experiments=["softmax-batch-100"], scales=["full"])
    reader = engine.open_reader(seeded)
    expected = summaries.time_to_accuracy(queries.runs(reader, only), queries.curves(reader, only), [0.625])
    shown = table(app).set_index(["strategy", "threads"])["estimate"].sort_index()
    pd.testing.assert_series_equal(shown, expected.set_index(["strategy", "threads"])["estimate"].sort_index())
    assert shown.notna().any()
    (box,) = app.number_input
    box.set_value(50.0).run()
    assert app.query_params["target"] == "50"
    app.number_input[0].set_value(None).run()
    assert "target" not in app.query_params


@pytest.mark.parametrize("wrong", ["high", "0", "101", "nan", "inf", "-5", ""])
def test_a_wrong_target_is_told_in_a_sentence(wrong: str, seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    of = {"experiment": "softmax-batch-100", "metric": "time_to_accuracy"}
    app = seen(seeded, monkeypatch, **of, target=wrong)
    (warning,) = app.warning
    assert plain(warning.value).endswith(", but a target is from 0.1 to 100 %: showing 90% and 97%.")
    assert plain(warning.value).startswith(f"The link asks for the target '{wrong}'")


def test_without_a_wish_it_is_the_figure_of_an_experiment(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = seen(seeded, monkeypatch)
    shown = table(app)
    assert set(shown["measure"]) == {"speedup"}
    assert set(shown["experiment"]) == {"softmax-batch-1"}
    gaps = shown[shown["reason"].notna()].set_index(["strategy", "threads"])
    assert set(gaps.loc["htm", "reason"]) == {UNSUPPORTED}
    assert gaps.loc[("nolock", 8), ["rounds", "reason"]].tolist() == [5, f"1 of 6 rounds failed: {CRASH}"]
    assert "Incomplete: nolock x8" in texts(app)
    assert "Not shown: htm x1, htm x2, htm x4, htm x8" in texts(app)
    chosen = {box.key: box.value for box in app.selectbox}
    assert {key: chosen[key] for key in ("x", "colour", "facet", "log")} == {
        "x": "threads", "colour": "variant", "facet": "none", "log": "auto",
    }  # fmt: skip


@pytest.mark.parametrize(
    "layout",
    [
        {"x": "strategy", "colour": "threads", "facet": "evidence"},
        {"x": "variant", "colour": "none", "log": "y"},
        {"x": "manager", "colour": "evidence", "facet": "threads"},
        {"x": "threads", "colour": "profile", "facet": "variant", "log": "both"},
    ],
)
def test_any_factor_is_on_x_in_colour_and_in_parts(
    layout: dict[str, str], seeded: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = seen(seeded, monkeypatch, **BOTH, metric="accuracy", **layout)
    assert not app.warning
    assert {key: app.selectbox(key=key).value for key in layout} == layout
    assert table(app)["estimate"].notna().all()


def test_a_change_writes_the_whole_view_into_the_url(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = seen(seeded, monkeypatch)
    app.selectbox(key="metric").select("accuracy").run()
    app.selectbox(key="x").select("variant").run()
    view = dict(app.query_params)
    assert view["metric"] == "accuracy"
    assert view["x"] == "variant"
    assert set(view) >= {"experiment", "scale", "platform", "evidence", "colour", "facet", "log"}
    again = seen(seeded, monkeypatch, **view)
    pd.testing.assert_frame_equal(table(again), table(app))


def test_a_change_of_measure_keeps_what_still_makes_sense(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = seen(seeded, monkeypatch, experiment="softmax-batch-100", metric="curve", threads="4")
    assert app.selectbox(key="x").value == "iteration"
    app.selectbox(key="metric").select("accuracy").run()
    assert not app.warning  # not the fault of a link
    assert app.selectbox(key="x").value == "threads"
    assert set(table(app)["threads"]) == {4}
    app.selectbox(key="experiment").select("softmax-batch-1").run()
    assert not app.warning
    assert app.query_params["metric"] == "accuracy"


def test_every_wrong_value_in_the_url_is_told(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ("experiment", "scale", "platform", "evidence", "metric", "strategy", "x", "colour", "facet", "log")
    app = seen(seeded, monkeypatch, **dict.fromkeys(keys, "<b>no'pe"))
    assert len(app.warning) == len(keys)
    assert all("which is not here" in warning.value for warning in app.warning)
    assert table(app)["estimate"].notna().any()


def test_kinds_of_evidence_stand_together_but_emulated_ones_have_no_time(
    seeded: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = seen(seeded, monkeypatch, **BOTH, metric="accuracy")
    assert set(table(app)["evidence"]) == {"measured", "emulated"}
    assert "emulated in software" in texts(app)
    timed = seen(seeded, monkeypatch, **BOTH, metric="step_time")
    shown = table(timed)
    assert set(shown.loc[shown["estimate"].notna(), "evidence"]) == {"measured"}
    assert f"Emulated runs are not drawn: {NO_TIME}." in texts(timed)
    alone = seen(seeded, monkeypatch, experiment="transactions", evidence="emulated", metric="speedup")
    assert "Nothing to draw" in alone.info[0].value
    assert not alone.dataframe


def test_filters_are_of_several_values_and_there_where_factors_differ(
    seeded: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = seen(seeded, monkeypatch, experiment="transactions", evidence="measured", metric="step_time")
    keys = {box.key for box in app.multiselect}
    assert {"strategy", "threads", "design", "manager", "instrumentation"} <= keys
    assert {"tunables", "profile", "chunk", "budget"}.isdisjoint(keys)
    app.multiselect(key="strategy").set_value(["stm", "tle"]).run()
    app.multiselect(key="threads").set_value(["1", "4"]).run()
    assert app.query_params["strategy"] == ["stm", "tle"]
    assert set(table(app)["strategy"]) == {"stm", "tle"}
    assert set(table(app)["threads"]) == {1, 4}


def test_causes_by_class_family_and_raw_status(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"experiment": "transactions", "evidence": "emulated"}
    found = {kind: set(table(seen(seeded, monkeypatch, **asked, metric=kind))["cause"]) for kind in STACKS}
    assert found == STACKS


STACKS = {
    "failures": {"any", "conflict", "capacity"},
    "causes": {"any", "conflict", "capacity"},
    "raw_causes": {"any", "0x00000006: may succeed on a retry, conflict", "0x00000008: capacity"},
}


def test_several_platforms_in_one_view_and_too_many_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = engine.sqlite_url(tmp_path / "study.db")
    for n in range(10):
        file = tmp_path / f"{n}.jsonl"
        machine = PLATFORM | {"cpu_model": f"CPU *{n}*"}
        record.write(file, sample_runs(("box",), ("lock",), (1, 2), 2, campaign=f"campaign-{n}", platform=machine))
        ingest(url, [file])
    platforms = sorted(set(seen(url, monkeypatch).multiselect(key="platform").options))
    assert len(platforms) == 10
    slugs = sorted(set(queries.counts(engine.open_reader(url))["platform"]))
    two = seen(url, monkeypatch, metric="step_time", platform=slugs[:2])
    assert two.selectbox(key="facet").value == "platform"
    assert table(two)["platform"].nunique() == 2
    every = seen(url, monkeypatch, metric="step_time", platform=slugs)
    assert "Showing 8 of 10 platforms; left out: " in texts(every)
    assert table(every)["platform"].nunique() == 8


def test_only_failed_runs_leave_nothing_to_draw_and_say_so(
    without_result: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("speedup", "accuracy", "commits"):
        said = seen(without_result, monkeypatch, metric=kind).info[0].value
        assert said.startswith("Nothing to draw: unsupported")


def test_what_is_beyond_the_study_comes_apart_by_how_it_ran(beyond: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"experiment": "beyond", "evidence": "measured", "metric": "step_time"}
    app = seen(beyond, monkeypatch, **asked)
    assert {"driver", "reading", "measures"} <= {box.key for box in app.multiselect}
    assert app.selectbox(key="facet").value == "measures"
    assert "also differ in driver (native and session)" in texts(app)
    assert "Fully instrumented" in texts(app)
    lost = seen(beyond, monkeypatch, **(asked | {"metric": "lost"}))
    assert table(lost)["estimate"].max() == pytest.approx(0.025)
