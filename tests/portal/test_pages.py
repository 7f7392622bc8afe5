"""Every page on every kind of database: it says what there is, never a traceback."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
from seed import CRASH, seed_database
from serving import APP
from sqlalchemy import URL
from streamlit.testing.v1 import AppTest

from tests.sample_runs import FULL, sample_runs
from tmflow.portal.runs import _seconds
from tmflow.portal.show import width_of
from tmflow.runner import runfile
from tmflow.runner.runfile import NO_TIME
from tmflow.store import engine, queries, schema
from tmflow.store.ingest import ingest

PAGES = ["overview", "speedup", "accuracy", "transactions", "runs"]


def opened(page: str, url: URL | str, monkeypatch: pytest.MonkeyPatch, **query: str) -> AppTest:
    monkeypatch.setenv("TMFLOW_DB_URL", str(url))
    app = AppTest.from_file(str(APP), default_timeout=60)
    app.query_params.update(query)
    app.switch_page(f"views/{page}.py").run()
    assert not app.exception, app.exception
    return app


def texts(app: AppTest) -> str:
    kinds = ("title", "header", "subheader", "markdown", "caption", "info", "warning", "error", "code")
    return "\n".join(str(element.value) for kind in kinds for element in app.get(kind))


@pytest.mark.parametrize("page", PAGES)
def test_every_page_shows_the_seeded_database(page: str, seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(page, seeded, monkeypatch)
    assert not app.error
    assert not app.warning
    assert len(app.dataframe) >= 1


@pytest.mark.parametrize("page", PAGES)
def test_without_a_database_every_page_says_what_to_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened(page, f"sqlite:///{tmp_path}/missing.db", monkeypatch)
    assert "There are no results yet" in app.info[0].value
    assert "make quick" in texts(app)
    assert list(tmp_path.iterdir()) == []  # reading made nothing


@pytest.mark.parametrize("page", PAGES)
def test_an_empty_database_says_what_to_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = engine.sqlite_url(tmp_path / "empty.db")
    schema.upgrade(url)
    app = opened(page, url, monkeypatch)
    assert "holds no run" in app.info[0].value
    assert "make quick" in texts(app)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("url", ["mysql://u:secret@host/db", "sqlite:///{folder}/broken.db"])
def test_an_unusable_database_is_one_sentence(
    page: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.db").write_text("not a database " * 100)
    app = opened(page, url.format(folder=tmp_path), monkeypatch)
    (error,) = app.error
    assert error.value.endswith(".")
    assert "\n" not in error.value
    assert "secret" not in error.value


def test_the_overview_counts_what_is_there(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("overview", seeded, monkeypatch)
    assert {metric.label: metric.value for metric in app.metric} == {
        "Experiments": "3", "Platforms": "1", "Rounds": "18", "Runs": "348", "Without result": "50",
    }  # fmt: skip
    headline, holdings = (element.value for element in app.dataframe)
    assert set(headline["threads"]) == {4}  # 8 workers are more than the platform's 4 hardware threads
    strategies = ["tf_lock", "tf_nolock", "lock", "nolock", "htm"]
    assert headline["strategy"].tolist()[:10] == strategies * 2
    emulated = headline[headline["evidence"] == "emulated"]
    assert set(emulated["speedup"]) == {"–"}
    assert set(emulated["note"]) == {NO_TIME}
    assert emulated["accuracy"].str.startswith("0.9").all()
    assert emulated["strategy"].str.contains("intel-tsx-study|ibm-power8-s822").all()
    htm = headline[headline["strategy"] == "htm"]
    assert set(htm["speedup"]) == set(htm["accuracy"]) == {"–"}
    assert set(htm["note"]) == {"unsupported: htm needs hardware that this machine lacks"}
    assert holdings[["ok", "failed", "unsupported"]].sum().tolist() == [298, 2, 48]


def test_quick_scale_is_called_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("overview", seed_database(tmp_path, "quick", 2), monkeypatch)
    assert "Quick scale" in app.warning[0].value
    assert "quick scale" in texts(opened("speedup", seed_url(tmp_path), monkeypatch))


def seed_url(folder: Path) -> URL:
    return engine.sqlite_url(folder / "study.db")


@pytest.mark.parametrize(
    ("query", "measure"),
    [
        ({}, "speedup"),
        ({"baseline": "tf_lock"}, "speedup_vs_tf_lock"),
        ({"metric": "step_time", "experiment": "softmax-batch-100"}, "step_time"),
    ],
)
def test_the_speedup_page_shows_what_its_url_asks_for(
    query: dict[str, str], measure: str, seeded: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened("speedup", seeded, monkeypatch, **query)
    (table,) = (element.value for element in app.dataframe)
    assert set(table["measure"]) == {measure}
    assert set(table["experiment"]) == {query.get("experiment", "softmax-batch-1")}
    assert len(table) == 20
    gaps = table[table["reason"].notna()].set_index(["strategy", "threads"])
    assert set(gaps.loc["htm", "reason"]) == {"unsupported: htm needs hardware that this machine lacks"}
    assert gaps.loc[("nolock", 8), ["rounds", "reason"]].tolist() == [5, f"1 of 6 rounds failed: {CRASH}"]
    assert f"Incomplete: nolock x8: 1 of 6 rounds failed: {CRASH}." in texts(app)
    assert "Not shown: htm x1, htm x2, htm x4, htm x8: unsupported: htm needs hardware" in texts(app)
    for key, value in query.items():
        assert app.selectbox(key=key).value == value


def test_a_changed_filter_writes_the_whole_view_into_the_url(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("speedup", seeded, monkeypatch)
    app.selectbox(key="experiment").select("softmax-batch-100").run()
    view = dict(app.query_params)
    assert view["experiment"] == "softmax-batch-100"
    assert set(view) == {"experiment", "scale", "platform", "evidence", "dataset", "metric", "baseline"}
    again = opened("speedup", seeded, monkeypatch, **view)
    pd.testing.assert_frame_equal(again.dataframe[0].value, app.dataframe[0].value)


@pytest.mark.parametrize("page", ["speedup", "accuracy", "runs"])
def test_a_wrong_value_in_the_url_is_told(page: str, seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(page, seeded, monkeypatch, experiment="nope")
    assert "'nope', which is not here" in app.warning[0].value
    assert len(app.dataframe) >= 1


def test_accuracy_shows_the_way_where_it_was_measured(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("accuracy", seeded, monkeypatch, experiment="softmax-batch-100", threads="4")
    last, way = (element.value for element in app.dataframe)
    assert set(last["measure"]) == {"accuracy"}
    assert sorted(set(way["iteration"].dropna())) == [200, 400, 600, 800]
    assert way.loc[way["iteration"].isna(), "strategy"].tolist() == ["htm"]
    assert set(way["threads"]) == {4}
    without = opened("accuracy", seeded, monkeypatch, experiment="softmax-batch-1")
    assert "curve_points" in texts(without)


def test_runs_lists_those_without_result_and_filters(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = opened("runs", seeded, monkeypatch)
    assert len(everything.dataframe[0].value) == 348
    failed = opened("runs", seeded, monkeypatch, status="failed").dataframe[0].value
    assert failed["reason"].tolist() == [CRASH] * 2


def test_one_run_in_full_with_its_command(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = queries.runs(engine.open_reader(seeded))
    run = runs[(runs["experiment"] == "softmax-batch-100") & (runs["threads"] == 2) & (runs["round"] == 3)].iloc[0]
    app = opened("runs", seeded, monkeypatch, run=run["uid"])
    (command,) = (element.value for element in app.code)
    assert command.startswith(
        f"tmflow train --model mnist_softmax --dataset digits --driver session --strategy {run['strategy']}"
    )
    assert f"--seed {run['seed'] + 2} " in command
    assert {"Counters", "Repeat it"} <= {element.value for element in app.subheader}
    assert "Staleness of updates" in texts(app)


def test_a_failed_run_tells_its_reason(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = queries.runs(engine.open_reader(seeded), status=["failed"])
    app = opened("runs", seeded, monkeypatch, run=failed["uid"].iloc[0])
    assert app.error[0].value == f"**failed**: {CRASH}"
    assert [metric.label for metric in app.metric] == ["Status"]


def test_an_unknown_run_is_told(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("runs", seeded, monkeypatch, run="1234")
    assert app.warning[0].value == "The link asks for run '1234', which is not in this database."


def test_only_failed_runs_leave_nothing_to_draw_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = seed_database(tmp_path, strategies=("htm",), transactions=False)
    for page in ("speedup", "accuracy"):
        said = opened(page, url, monkeypatch).info[0].value
        assert said == "Nothing to draw: unsupported: htm needs hardware that this machine lacks."
    assert len(opened("overview", url, monkeypatch).metric) == 5
    assert len(opened("runs", url, monkeypatch).dataframe[0].value) == 48


def test_new_runs_show_on_reload(seeded: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(str(seeded.database), tmp_path / "study.db")
    app = opened("overview", seed_url(tmp_path), monkeypatch)
    assert app.metric[3].value == "348"
    seed_database(tmp_path, "quick", 1, transactions=False)
    assert app.run().metric[3].value == "388"


EMULATED = {"experiment": "transactions", "evidence": "emulated"}


def test_emulated_runs_show_no_time_on_any_page(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    for query in ({}, {"metric": "step_time"}):
        app = opened("speedup", seeded, monkeypatch, **EMULATED, **query)
        assert {info.value.split(": ")[-1] for info in app.info} == {f"{NO_TIME}."}
        assert not app.dataframe
    listing = opened("runs", seeded, monkeypatch, **EMULATED).dataframe[0].value
    assert len(listing) == 36
    assert listing["step_time_us"].isna().all()
    assert listing["final_accuracy"].notna().all()
    app = opened("runs", seeded, monkeypatch, run=listing["uid"].iloc[0])
    assert {metric.label for metric in app.metric} == {"Status", "Accuracy"}
    assert "were emulated: an emulated run shows no time." in texts(app)
    expanders = {expander.label for expander in app.expander}
    assert "Emulated machine" in expanders
    measured = opened("runs", seeded, monkeypatch, experiment="transactions", evidence="measured")
    uid = measured.dataframe[0].value["uid"].iloc[0]
    assert "Loop" in {metric.label for metric in opened("runs", seeded, monkeypatch, run=uid).metric}


def test_transactions_of_each_evidence_apart(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    emulated = opened("transactions", seeded, monkeypatch, **EMULATED)
    assert "the hardware transactions of intel-tsx-study emulated in software" in texts(emulated)
    *charts, failures, classes = (element.value for element in emulated.dataframe)
    assert [set(table["profile"]) for table in charts] == [{"ibm-power8-s822"}, {"intel-tsx-study"}]
    assert set(failures["cause"]) == {"any", "conflict", "capacity"}
    assert set(classes["profile"]) == {"ibm-power8-s822", "intel-tsx-study"}
    assert (classes["study"].sum(), set(classes["evidence"])) == (classes["bits"].sum(), {"emulated"})
    measured = opened("transactions", seeded, monkeypatch, experiment="transactions", evidence="measured")
    commits, failures = (element.value for element in measured.dataframe)
    assert set(commits["variant"]) == {
        "stm", "stm (design wt, manager backoff, instrumentation all)", "tle",
    }  # fmt: skip
    assert set(failures["strategy"]) == {"stm"}  # glibc tells no attempts
    assert set(failures["cause"]) == {"any", "conflict", "validation"}
    without = opened("transactions", seeded, monkeypatch, experiment="softmax-batch-1")
    assert without.info[0].value == "Nothing to draw: unsupported: htm needs hardware that this machine lacks."


def test_a_filter_of_a_parameter_is_there_where_it_differs(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    stm = {"experiment": "transactions", "evidence": "measured"}
    app = opened("speedup", seeded, monkeypatch, **stm)
    keys = {box.key for box in app.selectbox}
    assert {"design", "manager", "instrumentation"} <= keys
    assert {"tunables", "profile", "chunk", "budget"}.isdisjoint(keys)
    app.selectbox(key="design").select("wt").run()
    assert app.query_params["design"] == "wt"
    assert "manager" not in app.query_params  # of what is left, no two differ in it
    assert set(app.dataframe[0].value["variant"]) == {"tf_lock", "stm", "tle"}
    assert set(app.dataframe[0].value["design"].dropna()) == {"wt"}
    app.selectbox(key="experiment").select("softmax-batch-1").run()
    assert "design" not in app.query_params
    assert not app.warning
    wrong = opened("speedup", seeded, monkeypatch, **stm, design="wb")
    assert wrong.warning[0].value == "The link asks for design 'wb', which is not here: showing 'all'."


@pytest.fixture
def beyond(tmp_path: Path) -> URL:
    """What goes beyond the study, and nothing else."""
    return seed_database(tmp_path, rounds=2, strategies=("tf_lock",), transactions=False, beyond=True)


@pytest.mark.parametrize("page", PAGES)
def test_every_page_shows_what_is_beyond_the_study(page: str, beyond: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(page, beyond, monkeypatch, **({} if page == "overview" else {"experiment": "beyond"}))
    assert not app.error
    assert not app.warning
    if page == "overview":
        names = set(app.dataframe[0].value["strategy"])
        assert {"lock", "lock (driver native)", "lock (driver native, reading consistent)"} <= names
        assert not any("nolock" in name or "striped" in name for name in names)  # measured in full: no speed to compare


def test_ways_to_run_are_filters_and_panels_of_their_own(beyond: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"experiment": "beyond", "evidence": "measured", "metric": "step_time"}
    app = opened("speedup", beyond, monkeypatch, **asked)
    assert {"driver", "reading", "measures"} <= {box.key for box in app.selectbox}
    assert "layout" not in {box.key for box in app.selectbox}
    assert len(app.dataframe) == 6
    for table in (element.value for element in app.dataframe):
        assert {table[way].nunique() for way in ("driver", "reading", "measures")} == {1}
    assert texts(app).count("Measured in full") == 3
    app.selectbox(key="driver").select("native").run()
    app.selectbox(key="reading").select("consistent").run()
    app.selectbox(key="measures").select("usual").run()
    (table,) = (element.value for element in app.dataframe)
    assert set(table["variant"]) == {"lock"}
    assert "native driver, reading consistent." in texts(app)
    assert dict(app.query_params).items() >= {"driver": "native", "reading": "consistent", "measures": "usual"}.items()


HELD = "held locks (s)"


def headings(app: AppTest) -> set[str]:
    return {column for element in app.dataframe for column in element.value}


def test_a_run_measured_in_full_shows_what_was_found(beyond: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = queries.runs(engine.open_reader(beyond), experiment="beyond")
    of_two = runs[(runs["threads"] == 2) & (runs["round"] == 1)]
    full = of_two[(of_two["measures"] == "full") & (of_two["reading"] == "plain") & (of_two["driver"] == "native")]
    app = opened("runs", beyond, monkeypatch, run=full["uid"].iloc[0])
    shown = {metric.label: metric.value for metric in app.metric}
    assert shown["Updates lost"] == "2.50%"
    assert shown["Reads torn"] == "10.00%"
    assert {"Time waiting for locks", "Time holding locks"} <= set(shown)
    assert {"Lost updates", "Reads", "Retries"} <= {element.value for element in app.subheader}
    assert {HELD, "updates of elements", "of these lost", "critical sections"} <= headings(app)
    (command,) = (element.value for element in app.code)
    assert "--driver native" in command
    assert "--variables" not in command

    emulated = of_two.loc[of_two["evidence"] == "emulated", "uid"].iloc[0]
    app = opened("runs", beyond, monkeypatch, run=emulated)
    labels = {metric.label for metric in app.metric}
    assert "Updates lost" in labels
    assert not any("Time" in label for label in labels)
    assert HELD not in headings(app)

    usual = of_two.loc[of_two["measures"] == "usual", "uid"].iloc[0]
    app = opened("runs", beyond, monkeypatch, run=usual)
    assert not {"Lost updates", "Reads", "Retries"} & {element.value for element in app.subheader}


def test_where_all_was_measured_in_full_the_overview_has_no_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "full.jsonl"
    runfile.write(file, sample_runs(strategies=("lock",), **FULL))
    ingest(seed_url(tmp_path), [file])
    headline, holdings = (element.value for element in opened("overview", seed_url(tmp_path), monkeypatch).dataframe)
    assert headline.empty
    assert holdings["ok"].tolist() == [9]


def test_the_overview_names_a_strategy_by_what_tells_it_apart_in_its_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = seed_database(tmp_path, rounds=2, strategies=("lock", "nolock"), transactions=False, beyond=True)
    headline = opened("overview", url, monkeypatch).dataframe[0].value
    elsewhere = headline[headline["experiment"] != "beyond"]
    assert set(elsewhere["strategy"]) == {"lock", "nolock"}
    assert set(elsewhere["driver"]) == {"session"}
    assert set(headline["driver"]) == {"session", "native"}


def test_a_column_of_names_is_as_wide_as_the_longest_up_to_a_limit() -> None:
    assert width_of([]) < width_of(["lock"]) < width_of(["lock", "lock_pthread"]) == width_of(["lock_pthread"])
    assert width_of(["htm", "x" * 500]) == width_of(["y" * 400])


@pytest.mark.parametrize(("value", "text"), [(0.00132, "1.32 ms"), (0.1, "0.1 s"), (12.345, "12.3 s"), (0, "0 ms")])
def test_a_time_is_told_in_its_unit(value: float, text: str) -> None:
    assert _seconds(value) == text
