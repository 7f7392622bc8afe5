"""The table of an experiment has every point, and gives the reasons for missing results."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tests.support.frames import grid
from tmflow.charts.captions import MEASURED_IN_FULL
from tmflow.reports.html_report import experiment_table, write_table


def test_every_point_has_its_intervals_or_the_reason() -> None:
    runs = grid(("tf_lock", "htm"), (1, 2))
    runs.loc[runs["strategy"] == "htm", ["status", "reason"]] = ["unsupported", "no such hardware"]
    runs.loc[(runs["threads"] == 2) & (runs["round"] == 1), ["status", "reason"]] = ["failed", "boom"]
    table = experiment_table(runs[(runs["strategy"] == "tf_lock") | (runs["threads"] == 1)])
    assert table[["strategy", "threads", "rounds"]].values.tolist() == [
        ["tf_lock", 1, 6], ["tf_lock", 2, 5], ["htm", 1, 0],
    ]  # fmt: skip
    speedup = "speedup over itself with one worker"
    assert table[speedup].tolist() == ["1.00 [1.00, 1.00]", "2.00 [2.00, 2.00]", "–"]
    assert table["what is missing"].tolist() == ["", "1 of 6 rounds failed: boom", "unsupported: no such hardware"]


def test_a_missing_baseline_is_told_in_its_column() -> None:
    runs = grid(("nolock",), (1, 2))
    table = experiment_table(runs)
    assert set(table["speedup over tf_lock with one worker"]) == {
        "no round has tf_lock with one worker to compare with"
    }
    assert set(table["what is missing"]) == {""}


def test_an_experiment_without_result_is_written_too(tmp_path: Path) -> None:
    path = tmp_path / "tables" / "fig_4_1.html"
    write_table(
        grid(status="unsupported", reason=f"no <TensorFlow>, a{' long' * 20} story"), "fig_4_1", "Why?", "full", path
    )
    html = path.read_text()
    assert html.count(f"unsupported: no &lt;TensorFlow&gt;, a{' long' * 20} story") == 8
    assert "Why?" in html
    table = pd.read_csv(path.with_suffix(".csv"))
    assert table["rounds"].tolist() == [0] * 8
    write_table(grid()[:0], "fig_4_1", "Why?", "full", path)
    assert pd.read_csv(path.with_suffix(".csv")).empty


def test_a_parameter_has_a_column_where_it_differs() -> None:
    runs = pd.concat([grid(("lock",), (1,)), grid(("htm",), (1,), budget=0), grid(("htm",), (1,), budget=5)])
    table = experiment_table(runs)
    assert table[["strategy", "budget"]].values.tolist() == [["lock", ""], ["htm", 0], ["htm", 5]]
    assert "budget" not in experiment_table(runs[runs["budget"] != 0])


def test_a_table_of_both_drivers_tells_them_apart(tmp_path: Path) -> None:
    mlp = {"driver": "native", "model": "mnist_mlp", "hidden": 16, "activation": "relu"}
    ways = ({}, {"driver": "native"}, mlp, {"driver": "native", "reading": "consistent", "measures": "full"})
    runs = pd.concat([grid(("lock",), (1,), **way) for way in ways], ignore_index=True)
    table = experiment_table(runs)
    listed = table[["driver", "model", "reading", "measures", "rounds"]].values.tolist()
    assert sorted(listed) == [
        ["native", "mnist_mlp", "plain", "usual", 6],
        ["native", "mnist_softmax", "consistent", "full", 6],
        ["native", "mnist_softmax", "plain", "usual", 6],
        ["session", "mnist_softmax", "plain", "usual", 6],
    ]
    path = tmp_path / "beyond.html"
    write_table(runs, "beyond", "Why?", "full", path)
    assert MEASURED_IN_FULL in path.read_text()
    write_table(runs[runs["measures"] == "usual"], "beyond", "Why?", "full", path)
    assert "Fully instrumented" not in path.read_text()


def test_a_table_counts_the_runs_of_other_versions(tmp_path: Path) -> None:
    path = tmp_path / "fig_4_1.html"
    write_table(grid().assign(runs_left_out=7), "fig_4_1", "Why?", "full", path)
    assert "Of experiment fig_4_1, 7 runs by other versions of the software are left out." in path.read_text()
    write_table(grid().assign(runs_left_out=0), "fig_4_1", "Why?", "full", path)
    assert "left out" not in path.read_text()
