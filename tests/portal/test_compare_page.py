"""The page that compares two selections agrees with the runs, and says when no comparison is possible."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from pages import opened, texts
from seed import PLATFORM, seed_database
from sqlalchemy import URL
from streamlit.testing.v1 import AppTest

from tests.support.sample_runs import sample_runs
from tmflow.analysis.stats import independent_ratio_interval, ratio_interval
from tmflow.base.text import markdown
from tmflow.runfile import record
from tmflow.runfile.record import NO_TIME
from tmflow.store import engine, queries
from tmflow.store.ingest import ingest
from tmflow.store.run_filter import RESULTS, RunFilter

ONE = {"a.experiment": "softmax-batch-1"}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """The seeded experiment, also on another platform, and at quick scale."""
    folder = tmp_path_factory.mktemp("two")
    url = seed_database(folder, transactions=False)
    settings = {"batch": 1, "curve_points": 0}
    other = PLATFORM | {"cpu_model": "Other *CPU*", "l3_bytes": 1 << 22}
    lots = {
        "other": sample_runs(
            ("softmax-batch-1",),
            ("lock", "nolock"),
            (1, 2, 4),
            5,
            campaign="campaign-other",
            platform=other,
            **settings,
        ),
        "quick": sample_runs(
            ("softmax-batch-1",), ("lock",), (1, 2), 2, scale="quick", campaign="quick", platform=PLATFORM, **settings
        ),
    }
    for name, runs in lots.items():
        record.write(folder / f"{name}.jsonl", runs)
    ingest(url, [folder / f"{name}.jsonl" for name in lots])
    return url


def slugs(url: URL) -> tuple[str, str]:
    runs = queries.runs(
        engine.open_reader(url), RunFilter(statuses=["ok"], experiments=["softmax-batch-1"], scales=["full"])
    )
    found = runs.groupby("platform_name")["platform"].first()
    return str(found[found.index.str.contains("Example")].iloc[0]), str(
        found[found.index.str.contains("Other")].iloc[0]
    )


def chosen(app: AppTest, key: str) -> tuple[str, str]:
    return tuple(app.selectbox(key=f"{side}.{key}").value for side in "ab")


def test_it_begins_with_lock_against_nolock_paired_within_rounds(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("compare", seeded, monkeypatch, **ONE)
    assert not app.error
    assert not app.warning
    assert chosen(app, "strategy") == ("lock", "nolock")
    assert chosen(app, "experiment") == ("softmax-batch-1", "softmax-batch-1")
    table = app.dataframe[0].value.set_index("threads")
    runs = queries.runs(engine.open_reader(seeded), replace(RESULTS, experiments=["softmax-batch-1"])).query(
        "threads == 4"
    )
    times = [runs[runs["strategy"] == name].sort_values("round")["loop_s"] for name in ("lock", "nolock")]
    assert table.loc[4, ["estimate", "low", "high"]].tolist() == pytest.approx(ratio_interval(*times)[:3])
    assert table.loc[8, "reason"] == (
        "rounds with only one of the two: 1 of 6; B: 1 of 6 rounds failed: the process ended with signal 11"
    )
    assert table.loc[8, "results"] == "A 6 of 6, B 5 of 6 (1 failed)"
    assert "Paired" in texts(app)
    assert {button.label for button in app.get("download_button")} == {"SVG", "PNG", "CSV", "JSON", "Vega-Lite"}
    differ = app.dataframe[1].value.set_index("fact")
    assert differ.loc["strategy", ["a", "b"]].tolist() == ["lock", "nolock"]


def test_swapped_sides_give_the_inverse_and_a_link_opens_exactly_that(
    seeded: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened("compare", seeded, monkeypatch, **ONE)
    before = app.dataframe[0].value
    (swap,) = (button for button in app.button if button.label == "Swap A and B")
    swap.click().run()
    assert not app.exception
    assert chosen(app, "strategy") == ("nolock", "lock")
    after = app.dataframe[0].value
    assert (before["estimate"] * after["estimate"]).tolist() == pytest.approx([1] * 4)
    again = opened("compare", seeded, monkeypatch, **dict(app.query_params))
    assert again.dataframe[0].value["estimate"].tolist() == after["estimate"].tolist()


def test_two_platforms_are_compared_unpaired_and_their_facts_told(two: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = slugs(two)
    app = opened("compare", two, monkeypatch, **ONE, **{"a.platform": here, "b.platform": there})
    assert not app.error
    assert chosen(app, "strategy") == ("lock", "lock")  # the platforms are compared
    runs = queries.runs(
        engine.open_reader(two), RunFilter(statuses=["ok"], experiments=["softmax-batch-1"], scales=["full"])
    )
    runs = runs[(runs["strategy"] == "lock") & (runs["threads"] == 2)]
    times = [runs.loc[runs["platform"] == slug, "loop_s"] for slug in (here, there)]
    table = app.dataframe[0].value.set_index("threads")
    assert table.loc[2, ["estimate", "low", "high"]].tolist() == pytest.approx(independent_ratio_interval(*times)[:3])
    assert table.loc[2, ["rounds_a", "rounds_b"]].tolist() == [6, 5]
    assert table.loc[8, "reason"] == "B was not run there"
    assert "Not paired" in texts(app)
    differ = app.dataframe[1].value.set_index("fact")
    assert differ.loc["cpu model", "b"] == "Other *CPU*"
    assert differ.loc["l3 bytes", ["a", "b"]].tolist() == ["unknown", "4 MiB"]


def test_what_must_not_be_compared_has_no_number(two: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("compare", two, monkeypatch, **ONE, **{"b.scale": "quick"})
    (info,) = app.info
    assert "Not comparable" in info.value
    assert "quick" in info.value
    (differ,) = (element.value for element in app.dataframe)
    assert differ["judgement"].iloc[0].endswith("blocks")
    assert not app.get("download_button")


def test_emulated_runs_have_no_speed_but_an_accuracy(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    view = {"a.experiment": "transactions", "a.evidence": "emulated", "a.profile": "intel-tsx-study"}
    view["b.profile"] = "ibm-power8-s822"
    app = opened("compare", seeded, monkeypatch, **view)
    assert markdown(NO_TIME) in app.info[0].value
    app = opened("compare", seeded, monkeypatch, **view, metric="accuracy")
    assert not app.info
    assert "percentage points" in texts(app)


def test_up_to_four_sides_are_compared_with_the_first(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("compare", seeded, monkeypatch, **ONE)
    alone = app.dataframe[0].value.set_index("threads")
    for letter in "CD":
        (add,) = (button for button in app.button if button.label == f"Compare another one, {letter}")
        add.click().run(timeout=60)
        assert not app.exception
        assert not app.warning
    strategies = [app.selectbox(key=f"{side}.strategy").value for side in "abcd"]
    assert len(set(strategies)) == 4
    assert not [button for button in app.button if button.label.startswith("Compare another")]
    assert [header.value for header in app.header if " and A" in header.value] == ["B and A", "C and A", "D and A"]
    table = app.dataframe[0].value.set_index("threads")
    assert table["estimate"].tolist() == alone["estimate"].tolist()
    assert (table["joint_low"] < alone["joint_low"]).all()  # of three comparisons
    assert re.search(r"D is [\d.]+ \[[\d.]+, [\d.]+\] times as fast as A", texts(app))
    again = opened("compare", seeded, monkeypatch, **dict(app.query_params))
    assert texts(again) == texts(app)
    (remove,) = (button for button in app.button if button.label == "Remove C")
    remove.click().run(timeout=60)
    assert not app.exception
    assert [header.value for header in app.header if " and A" in header.value] == ["B and A", "D and A"]
    assert not [key for key in app.query_params if key.startswith("c.")]


def test_a_side_may_be_there_twice(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("compare", seeded, monkeypatch, **ONE, **{"b.strategy": "nolock", "c.strategy": "nolock"})
    assert not app.warning
    estimates = [t.value["estimate"].tolist() for t in app.dataframe if "joint_low" in t.value]
    assert len(estimates) == 2
    assert estimates[0] == estimates[1]


def test_three_runs_are_compared_with_the_first(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = queries.runs(engine.open_reader(seeded), replace(RESULTS, experiments=["softmax-batch-1"]))
    of_point = runs.query("threads == 2 and round == 3")
    a, b, c = of_point["uid"].iloc[:3]
    app = opened("compare", seeded, monkeypatch, a=a, b=b, c=c)
    assert not app.error
    times = of_point.set_index("uid")["loop_s"]
    estimates = [t.value["estimate"].iloc[0] for t in app.dataframe if "joint_low" in t.value]
    assert estimates == pytest.approx([times[a] / times[b], times[a] / times[c]])


def test_two_runs_are_compared_without_an_interval(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = queries.runs(engine.open_reader(seeded), replace(RESULTS, experiments=["softmax-batch-1"])).query(
        "threads == 2 and round == 3"
    )
    uids = [runs.loc[runs["strategy"] == name, "uid"].iloc[0] for name in ("lock", "nolock")]
    app = opened("compare", seeded, monkeypatch, a=uids[0], b=uids[1])
    assert not app.error
    row = app.dataframe[0].value.iloc[0]
    times = runs.set_index("uid")["loop_s"]
    assert row["estimate"] == pytest.approx(times[uids[0]] / times[uids[1]])
    assert row[["low", "high"]].isna().all()
    assert "no interval" in texts(app)
    other = (
        queries.runs(engine.open_reader(seeded), replace(RESULTS, experiments=["softmax-batch-1"]))
        .query("threads == 4")["uid"]
        .iloc[0]
    )
    app = opened("compare", seeded, monkeypatch, a=uids[0], b=other)
    assert "threads is 2 in A and 4 in B" in app.info[0].value


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"a": "nope", "b": "nope"}, "'nope', which is not in this database"),
        ({"a": "nope"}, "names one run"),
        ({"a": "*x*", "b": ""}, "which is not in this database"),
    ],
)
def test_runs_that_are_not_there_are_one_sentence(
    query: dict[str, str], message: str, seeded: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened("compare", seeded, monkeypatch, **query)
    (error,) = app.error
    assert message in error.value
    assert "*x*" not in error.value


@pytest.mark.parametrize("key", ["a.experiment", "b.strategy", "b.platform", "metric"])
def test_a_wrong_value_in_the_url_is_told(key: str, seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("compare", seeded, monkeypatch, **{key: "nope"})
    assert "'nope', which is not here" in app.warning[0].value
    assert not app.error


def test_the_same_selection_twice_is_told(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("compare", seeded, monkeypatch, **ONE, **{"b.strategy": "lock"})
    assert "the same runs" in app.info[0].value


def test_only_failed_runs_leave_nothing_to_compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = engine.sqlite_url(tmp_path / "failed.db")
    record.write(tmp_path / "a.jsonl", sample_runs(strategies=("lock", "nolock"), unsupported=("lock", "nolock")))
    ingest(url, [tmp_path / "a.jsonl"])
    app = opened("compare", url, monkeypatch)
    assert "nothing to compare" in app.info[0].value
    assert "hardware that this machine lacks" in app.info[0].value


def test_of_several_parts_one_is_shown_in_full_and_all_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = engine.sqlite_url(tmp_path / "parts.db")
    variants = [{"strategy": name, "batch": batch} for name in ("lock", "nolock") for batch in (1, 100)]
    record.write(tmp_path / "a.jsonl", sample_runs(strategies=variants))
    ingest(url, [tmp_path / "a.jsonl"])
    app = opened("compare", url, monkeypatch, part="batch 100")
    overview, table, _ = (element.value for element in app.dataframe)
    assert overview["part"].tolist() == ["batch 1", "batch 100"]
    assert overview["what it says"].str.startswith("B is ").all()
    assert set(table["batch"]) == {100}
    assert "(batch 100)" in texts(app)
