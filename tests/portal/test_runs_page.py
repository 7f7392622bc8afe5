"""Runs can be found by all factors of a spec, and the page of a run shows everything that is known of it."""

from __future__ import annotations

import html
import io
import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from pages import commands, opened, texts
from seed import CRASH
from sqlalchemy import URL
from streamlit.testing.v1 import AppTest

from tests.support.sample_runs import CLUSTER, sample_runs
from tmflow.base.text import JOINER
from tmflow.portal.pages import runs as runs_page
from tmflow.portal.pages.run_detail import run_csv, run_json, seconds
from tmflow.portal.pages.runs import table_csv, table_json
from tmflow.runfile import record
from tmflow.runfile.record import NO_TIME, Run
from tmflow.store import engine, queries, run_detail
from tmflow.store.ingest import ingest
from tmflow.store.run_filter import RESULTS, RunFilter

HELD = "held locks (s)"
SOME = [("lock", 4), ("stm", 4)]
UNSUPPORTED = "htm needs hardware that this machine lacks"


def listed(app: AppTest) -> pd.DataFrame:
    return app.dataframe[0].value


def read(markdown: str) -> str:
    """The text that a reader sees of escaped text."""
    return html.unescape(markdown).replace(JOINER, "")


def bar(app: AppTest) -> list[str]:
    """The page's summary of the matches."""
    (line,) = [i for i, element in enumerate(app.markdown) if "runs match" in element.value]
    return [element.value for element in app.markdown[line:]]


def headings(app: AppTest) -> set[str]:
    return {column for element in app.dataframe for column in element.value}


def test_all_runs_are_listed_newest_first_by_pages(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    first = opened("runs", seeded, monkeypatch)
    assert not first.warning
    assert bar(first) == [
        "**348** of 348 runs match:",
        ":green-badge[✓ 298 ok]",
        ":red-badge[✗ 2 failed]",
        ":gray-badge[∅ 48 unsupported]",
    ]
    assert len(listed(first)) == 50
    pages = [listed(opened("runs", seeded, monkeypatch, page=str(number), rows="100")) for number in range(1, 5)]
    assert [len(page) for page in pages] == [100, 100, 100, 48]
    whole = pd.concat(pages)
    assert whole["uid"].nunique() == 348
    assert whole["started_at_utc"].is_monotonic_decreasing


def test_those_without_result_tell_why_beside_their_status(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = listed(opened("runs", seeded, monkeypatch, status="failed"))
    assert failed[["status", "reason"]].to_numpy().tolist() == [["✗ failed", CRASH]] * 2
    ok = listed(opened("runs", seeded, monkeypatch, status="ok"))
    assert set(ok["status"]) == {"✓ ok"}
    assert "reason" not in ok  # a column without values


def test_a_phone_shows_experiment_strategy_threads_and_time_first(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ["experiment", "strategy", "threads", "step_time_us"]
    for query in ({}, {"status": "failed"}, {"threads": "1"}):
        assert list(listed(opened("runs", seeded, monkeypatch, **query)))[:4] == first


@pytest.mark.parametrize(("agent", "fits"), [("Mozilla (iPhone) Mobile Safari", True), ("Mozilla (X11)", False)])
def test_the_first_columns_fit_on_a_phone(agent: str, fits: bool, seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_page.st, "context", SimpleNamespace(headers={"User-Agent": agent}, url="http://here/runs"))
    app = opened("runs", seeded, monkeypatch)
    columns = json.loads(app.dataframe[0].proto.columns)
    widths = [columns.get(name, {}).get("width") for name in list(listed(app))[:4]]
    assert (None not in widths and sum(widths) <= 320) == fits  # 390 px less the margins and the box of a row


def test_the_link_chooses_the_columns(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("runs", seeded, monkeypatch, columns=["learning_rate", "loop_s", "experiment"])
    assert not app.warning
    assert list(listed(app)) == ["experiment", "learning_rate", "loop_s"]
    wrong = opened("runs", seeded, monkeypatch, columns=["colour"])
    assert "asks for columns 'colour', which is not here" in read(wrong.warning[0].value)
    assert list(listed(wrong)) == list(listed(opened("runs", seeded, monkeypatch)))
    (widget,) = [widget for widget in app.multiselect if widget.label == "Columns"]
    widget.set_value(["batch"]).run()
    assert list(listed(app)) == ["batch"]
    assert app.query_params["columns"] == "batch"


def test_every_column_that_is_offered_exists(seeded: URL) -> None:
    table = queries.page(engine.open_reader(seeded), RunFilter(), rows=1)
    assert {*runs_page.COLUMNS, *runs_page.MORE_COLUMNS} - {"step_time_us"} <= set(table)


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ({"experiment": ["softmax-batch-1"]}, lambda run: run["experiment"] == "softmax-batch-1"),
        ({"strategy": ["lock", "stm"], "threads": "4"}, lambda r: (r["strategy"], r["threads"]) in SOME),
        ({"batch": "100"}, lambda run: run["batch"] == 100),
        ({"budget": "100", "evidence": "emulated"}, lambda run: run["profile"] == "ibm-power8-s822"),
        ({"design": "wt", "instrumentation": "all"}, lambda run: run["design"] == "wt"),
        ({"search": "SIGNAL 11"}, lambda run: run["reason"] == CRASH),
        ({"search": "lacks", "threads": ["1", "2"]}, lambda r: r["reason"] == UNSUPPORTED and r["threads"] < 4),
    ],
)  # fmt: skip
def test_the_url_says_what_is_found(
    query: dict[str, str | list[str]], holds: Callable[[pd.Series], bool], seeded: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = queries.runs(engine.open_reader(seeded), RunFilter(newest_definitions=True))
    runs["reason"] = runs["reason"].fillna("")
    expected = set(runs.loc[runs.apply(holds, axis="columns").astype(bool), "uid"])
    app = opened("runs", seeded, monkeypatch, rows="100", **query)
    assert not app.warning
    assert bar(app)[0] == f"**{len(expected)}** of 348 runs match:"
    assert set(listed(app)["uid"]) <= expected
    assert len(listed(app)) == min(len(expected), 100)


def test_a_filter_offers_what_there_is_with_its_number(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("runs", seeded, monkeypatch, experiment="softmax-batch-1")
    offered = {box.key: box.options for box in app.multiselect}
    assert offered["strategy"] == ["tf_lock (24)", "tf_nolock (24)", "lock (24)", "nolock (24)", "htm (24)"]
    assert offered["status"] == ["✓ ok (95)", "✗ failed (1)", "∅ unsupported (24)"]
    assert "platform" not in offered  # there is only one
    assert "design" not in offered
    app.multiselect(key="threads").select("8 (30)").run()
    assert dict(app.query_params) == {"experiment": "softmax-batch-1", "threads": "8"}
    assert set(listed(app)["threads"]) == {8}


def test_another_choice_is_shown_from_its_first_page(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("runs", seeded, monkeypatch, page="5", sort="fastest")
    app.multiselect(key="strategy").select("nolock (48)").run()
    assert "page" not in app.query_params
    assert app.query_params["sort"] == "fastest"
    assert not app.warning
    assert len(listed(app)) == 48


def test_the_order_is_of_all_runs_not_of_a_page(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = queries.runs(engine.open_reader(seeded))
    step_us = 1e6 * runs["loop_s"] / runs["iterations"]
    fastest = listed(opened("runs", seeded, monkeypatch, sort="fastest"))["step_time_us"]
    assert fastest.tolist() == pytest.approx(step_us.dropna().sort_values().head(50).tolist())
    slowest = listed(opened("runs", seeded, monkeypatch, sort="slowest"))["step_time_us"]
    assert slowest.iloc[0] == pytest.approx(step_us.max())
    assert set(listed(opened("runs", seeded, monkeypatch, sort="most"))["threads"]) == {8}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("page", "-1", "page '-1', and pages go from 1 to 7: showing 1."),
        ("page", "abc", "page 'abc', and"),
        ("page", "8", "page '8', and"),
        ("page", "1" * 5000, f"page '{'1' * 60}', and"),
        ("page", "٣", "page '٣', and"),
        ("sort", "nope", "sort 'nope', which is not here: showing 'newest'."),
        ("rows", "1000000", "rows on a page '1000000', which is not here: showing '50'."),
        ("status", "dead", "status 'dead', which is not here: showing all."),
        ("experiment", "nope", "experiment 'nope', which is not here: showing all."),
        ("batch", "1.5", "batch '1.5', which is not here: showing all."),
        ("design", "wb", "design 'wb', which is not here"),
        ("search", "x" * 101, "an invalid search text"),
        ("search", "signal\0 11", "an invalid search text"),
        ("run", "1234", "run '1234', which is not in this database."),
        ("run", "<script>alert(1)</script>", "run '<script>alert(1)</script>', which is not"),
        ("run", "", "run '', which is not"),
    ],
)
def test_a_wrong_value_in_the_url_is_one_sentence(
    key: str, value: str, message: str, seeded: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened("runs", seeded, monkeypatch, **{key: value})
    (warning,) = (element.value for element in app.warning)
    assert message in read(warning)
    assert read(warning).endswith(".")
    assert "<" not in warning
    assert len(app.dataframe) == 1 or "matches" in app.info[0].value


def test_where_nothing_matches_it_says_so(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("runs", seeded, monkeypatch, search="no such words", strategy="lock")
    assert app.info[0].value.startswith("None of the 348 runs matches")
    assert not app.dataframe
    assert app.text_input(key="search").value == "no such words"


def test_a_chosen_value_without_any_match_leaves_the_matches_of_the_others(
    seeded: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened("runs", seeded, monkeypatch, strategy=["lock", "stm"], threads="8")
    assert listed(app)["strategy"].str.startswith("lock").all()
    assert app.multiselect(key="strategy").value == ["lock", "stm"]


def test_a_search_goes_into_the_url_and_out_again(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("runs", seeded, monkeypatch)
    app.text_input(key="search").input("  signal ").run()
    assert app.query_params["search"] == "signal"
    assert len(listed(app)) == 2
    app.text_input(key="search").input("").run()
    assert "search" not in app.query_params


def test_what_pages_and_files_leave_out_is_said(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_page, "REACH", 120)
    app = opened("runs", seeded, monkeypatch, page="3")
    assert "Pages and files have the first 120 of these 348 runs" in texts(app)
    labels = {button.proto.label for button in app.get("download_button")}
    assert labels == {"CSV of the first 120 of 348", "JSON of the first 120 of 348"}
    beyond = opened("runs", seeded, monkeypatch, page="4")
    assert "pages go from 1 to 3" in beyond.warning[0].value


def test_one_run_in_full_with_its_command(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = queries.runs(engine.open_reader(seeded))
    run = runs[(runs["experiment"] == "softmax-batch-100") & (runs["threads"] == 2) & (runs["round"] == 3)].iloc[0]
    app = opened("runs", seeded, monkeypatch, run=run["uid"], status="ok")
    (command,) = commands(app)
    assert f"?run={run['uid']}" in [element.value for element in app.code]
    assert command.startswith(
        f"tmflow train --model mnist_softmax --dataset digits --driver session --strategy {run['strategy']}"
    )
    assert f"--seed {run['seed'] + 2} " in command
    assert {"Counters", "Repeat this run"} <= {element.value for element in app.subheader}
    assert "Staleness of updates" in texts(app)
    assert {expander.label for expander in app.expander} >= {"Factors", "Origin", "Software", "Platform", "Environment"}
    assert {metric.label for metric in app.metric} == {"Loop", "Set-up", "Time per step", "Accuracy"}


def ways(app: AppTest) -> list[str]:
    """The links from one run to others."""
    return [button.label for button in app.button if button.label == "All runs" or button.label.startswith("Round")]


def press(app: AppTest, label: str) -> None:
    next(button for button in app.button if button.label == label).click().run()


def test_a_run_leads_to_its_neighbours_its_platform_and_back(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = queries.runs(engine.open_reader(seeded), replace(RESULTS, experiments=["softmax-batch-1"]))
    runs = runs[(runs["threads"] == 2) & (runs["strategy"] == "lock")].set_index("round")
    app = opened("runs", seeded, monkeypatch, run=runs.loc[1, "uid"], strategy="lock")
    (platform,) = app.get("page_link")
    assert platform.proto.query_string == f"platform={runs.loc[1, 'platform']}"
    assert ways(app) == ["All runs", "Round after"]  # none is before the first
    press(app, "Round after")
    assert dict(app.query_params) == {"strategy": "lock", "run": runs.loc[2, "uid"]}
    assert "round 2 of" in app.header[0].value
    assert ways(app) == ["All runs", "Round before", "Round after"]
    press(app, "All runs")
    assert dict(app.query_params) == {"strategy": "lock"}
    assert len(listed(app)) == 48


def test_a_failed_run_tells_its_reason_first(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = queries.runs(engine.open_reader(seeded), RunFilter(statuses=["failed"], newest_definitions=True))
    app = opened("runs", seeded, monkeypatch, run=failed["uid"].iloc[0])
    assert app.error[0].value == f"**failed**: {CRASH}"
    assert not app.metric


def test_emulated_runs_show_no_time(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = listed(opened("runs", seeded, monkeypatch, experiment="transactions", evidence="emulated"))
    assert len(listing) == 36
    assert listing["step_time_us"].isna().all()
    assert listing["final_accuracy"].notna().all()
    app = opened("runs", seeded, monkeypatch, run=listing["uid"].iloc[0])
    assert {metric.label for metric in app.metric} == {"Accuracy"}
    assert f"were emulated: {NO_TIME}." in texts(app)
    assert "Emulated machine" in {expander.label for expander in app.expander}


def test_a_run_measured_in_full_shows_what_was_found(beyond: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = queries.runs(engine.open_reader(beyond), replace(RESULTS, experiments=["beyond"]))
    of_two = runs[(runs["threads"] == 2) & (runs["round"] == 1)]
    full = of_two[(of_two["measures"] == "full") & (of_two["reading"] == "plain") & (of_two["driver"] == "native")]
    app = opened("runs", beyond, monkeypatch, run=full["uid"].iloc[0])
    shown = {metric.label: metric.value for metric in app.metric}
    assert shown["Updates lost"] == "2.50%"
    assert shown["Reads torn"] == "10.00%"
    assert {"Time waiting for locks", "Time holding locks"} <= set(shown)
    assert {"Lost updates", "Reads", "Retries of critical sections"} <= {element.value for element in app.subheader}
    assert {HELD, "updates of elements", "of these lost", "critical sections"} <= headings(app)
    (command,) = commands(app)
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


def test_a_run_of_a_cluster_shows_its_processes_and_phases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, plain = (
        sample_runs(("dist",), ("lock",), (2,), 1, campaign=driver, **factors)[0]
        for driver, factors in {"cluster": CLUSTER, "session": {}}.items()
    )
    killed = cluster.processes[-1].model_copy(update={"exit": -9})
    cluster = cluster.model_copy(update={"processes": [*cluster.processes[:-1], killed]})
    record.write(tmp_path / "runs.jsonl", [cluster, plain])
    database = engine.sqlite_url(tmp_path / "study.db")
    ingest(database, [tmp_path / "runs.jsonl"])
    app = opened("runs", database, monkeypatch, run=cluster.uid)
    assert {"Processes", "Where the time of a step goes"} <= {element.value for element in app.subheader}
    (table,) = [element.value for element in app.dataframe if "host" in element.value]
    assert table["role"].tolist() == ["server", "server", "worker", "worker"]
    assert table["index"].tolist() == [0, 1, 0, 1]
    assert table["own loop time (s)"].tolist()[2:] == [process.loop_s for process in cluster.processes[2:]]
    assert table["exit"].isna().tolist() == [True, True, True, False]
    assert "Mean of 20 traced steps of each worker" in texts(app)
    assert "Where phases overlap" in texts(app)
    charts = [json.loads(chart.proto.spec) for chart in app.get("vega_lite_chart")]
    assert [chart["description"] for chart in charts if "by phase, stacked: worker 0; worker 1" in chart["description"]]
    app = opened("runs", database, monkeypatch, run=plain.uid)
    assert not {"Processes", "Where the time of a step goes"} & {element.value for element in app.subheader}


def test_a_cluster_of_many_workers_has_a_bar_for_the_first_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = sample_runs(("dist",), ("lock",), (30,), 1, **CLUSTER)
    record.write(tmp_path / "runs.jsonl", [run])
    database = engine.sqlite_url(tmp_path / "study.db")
    ingest(database, [tmp_path / "runs.jsonl"])
    app = opened("runs", database, monkeypatch, run=run.uid)
    described = [json.loads(chart.proto.spec)["description"] for chart in app.get("vega_lite_chart")]
    assert [text for text in described if text.endswith("; worker 23")]
    assert "have the workers beyond the first 24" in texts(app)
    with sqlite3.connect(engine.sqlite_path(database)) as connection:  # as another program may have written it
        connection.execute("UPDATE phase SET seconds = 1e308, samples = 9223372036854775807")
        connection.execute(
            "UPDATE process SET loop_s = 1e308, cpu_s = NULL, steps = 9223372036854775807, host = ?", [EVIL]
        )
    app = opened("runs", database, monkeypatch, run=run.uid)
    assert "Processes" in {element.value for element in app.subheader}


@pytest.mark.parametrize("column", ["run.loop_s", "process.loop_s", "phase.seconds"])
def test_an_infinite_time_is_named_and_the_rest_of_the_run_shown(
    column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = sample_runs(("dist",), ("lock",), (2,), 1, **CLUSTER)
    record.write(tmp_path / "runs.jsonl", [run])
    database = engine.sqlite_url(tmp_path / "study.db")
    ingest(database, [tmp_path / "runs.jsonl"])
    table, name = column.split(".")
    with sqlite3.connect(engine.sqlite_path(database)) as connection:  # as another program may have written it
        connection.execute(f"UPDATE {table} SET {name} = 9e999 WHERE {name} IS NOT NULL")
    app = opened("runs", database, monkeypatch, run=run.uid)
    (error,) = app.error
    assert f"run {run.uid} of the database: " in read(error.value)
    assert f"{name} is inf, but should be a finite number." in read(error.value)
    assert {"Processes", "Where the time of a step goes"} <= {element.value for element in app.subheader}


def test_where_all_failed_it_is_as_plain(without_result: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("runs", without_result, monkeypatch)
    assert bar(app) == ["**48** of 48 runs match:", ":gray-badge[∅ 48 unsupported]"]
    assert set(listed(app)["reason"]) == {UNSUPPORTED}
    assert not app.warning


EVIL = "**x** <b>y</b> [a](javascript:1) $z$ :red[w]"
FORMULA = '=HYPERLINK("http://evil","click")'


@pytest.fixture
def evil(tmp_path: Path) -> URL:
    """A database whose texts try to be markup."""
    runs = sample_runs((EVIL,), ("lock",), (1,), 2, unsupported=("lock",), platform={"cpu_model": EVIL})
    path = tmp_path / "evil.jsonl"
    reasons = (EVIL, FORMULA)
    record.write(path, [run.model_copy(update={"reason": why}) for run, why in zip(runs, reasons, strict=True)])
    url = engine.sqlite_url(tmp_path / "study.db")
    ingest(url, [path])
    return url


def test_text_of_others_means_nothing(evil: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    table = listed(opened("runs", evil, monkeypatch))
    assert table["reason"].tolist() == [FORMULA, EVIL]
    app = opened("runs", evil, monkeypatch, run=table["uid"].iloc[1])
    links = "\n".join(link.proto.label for link in app.get("page_link"))
    read_as_markdown = "\n".join(
        element.value
        for kind in ("header", "subheader", "markdown", "caption", "error", "warning", "info")
        for element in app.get(kind)
    )
    assert EVIL in read(app.error[0].value)
    assert EVIL in read(app.header[0].value)
    for mark in ("**x", "<b>", "](", "$z", ":red["):
        assert mark not in read_as_markdown
        assert mark not in links


def test_a_repeat_is_named_beside_its_round(tmp_path: Path, seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = sample_runs(("study",), ("lock",), (1,), rounds=1)
    again = [run.model_copy(update={"uid": f"{run.uid}-2", "repeat": 2, "ordinal": 1}) for run in runs]
    record.write(tmp_path / "runs.jsonl", [*runs, *again])
    database = engine.sqlite_url(tmp_path / "study.db")
    ingest(database, [tmp_path / "runs.jsonl"])
    assert sorted(listed(opened("runs", database, monkeypatch))["repeat"]) == [1, 2]
    (uid,) = {run.uid for run in again}
    assert opened("runs", database, monkeypatch, run=uid).header[0].value.endswith("round 1, repeat 2, of study")
    assert "repeat" not in listed(opened("runs", seeded, monkeypatch)), "each point ran once in a round"


def test_a_file_of_runs_has_their_numbers_and_no_formula(evil: URL, seeded: URL) -> None:
    table = queries.runs(engine.open_reader(evil), RunFilter(newest_definitions=True))
    assert [row["reason"] for row in json.loads(table_json(table))] == [EVIL, FORMULA]
    assert pd.read_csv(io.StringIO(table_csv(table)))["reason"].tolist() == [EVIL, f"'{FORMULA}"]
    whole = queries.runs(engine.open_reader(seeded), RunFilter(newest_definitions=True))
    loops = whole["loop_s"].dropna().tolist()
    assert pd.read_csv(io.StringIO(table_csv(whole)))["loop_s"].dropna().tolist() == loops
    records = json.loads(table_json(whole))
    assert [row["loop_s"] for row in records if row["loop_s"] is not None] == loops
    assert {row["budget"] for row in records} == {None, 5, 100}


def test_the_files_of_a_run_are_its_run_file(evil: URL, seeded: URL) -> None:
    reader = engine.open_reader(seeded)
    uids = queries.runs(reader).groupby("evidence")["uid"].first()
    measured = Run.model_validate_json(run_json(run_detail.run(reader, uids["measured"])))
    assert measured.uid == uids["measured"]
    assert measured.counters
    emulated = json.loads(run_json(run_detail.run(reader, uids["emulated"])))
    assert (emulated["no_time"], emulated["loop_s"]) == (NO_TIME, None)
    lines = pd.read_csv(io.StringIO(run_csv(run_detail.run(reader, uids["measured"])))).set_index("name")["value"]
    assert float(lines["loop_s"]) == measured.loop_s
    assert int(lines["counters.0.updates"]) == measured.counters[0].updates
    reader = engine.open_reader(evil)
    (uid,) = queries.runs(reader, RunFilter(newest_definitions=True)).query("reason.str.startswith('=')")["uid"]
    assert f'reason,"\'{FORMULA.replace(chr(34), 2 * chr(34))}"' in run_csv(run_detail.run(reader, uid))


@pytest.mark.parametrize(
    ("value", "text"), [(0.00132, "1.32 ms"), (0.1, "0.1 s"), (12.345, "12.3 s"), (33.1e-6, "33.1 µs"), (0, "0 µs")]
)
def test_a_time_is_told_in_its_unit(value: float, text: str) -> None:
    assert seconds(value) == text
