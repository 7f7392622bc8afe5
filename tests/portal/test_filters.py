"""Filters resolve any URL to a view that exists, and say what they could not do."""

from __future__ import annotations

import pandas as pd
import pytest

from tmflow.portal.filters import ALL, DATA, OF_FACTORS, Filter, Key, resolve

RUNS = pd.DataFrame(
    [
        ("b", "quick", "box", "measured", "mnist", "nolock", "ok"),
        ("b", "full", "box", "measured", "mnist", "tf_lock", "ok"),
        ("b", "full", "farm", "emulated", "digits", "htm", "failed"),
        ("a", "adhoc", "box", "measured", "mnist", "lock", "ok"),
    ],
    columns=["experiment", "scale", "platform", "evidence", "dataset", "strategy", "status"],
)
METRIC = Filter(Key.METRIC, "Metric", ("speedup", "step_time"))


def test_without_a_wish_planned_and_full_comes_first() -> None:
    selection = resolve(DATA, RUNS, {})
    assert selection.chosen["experiment"] == "b"
    assert selection.chosen["scale"] == "full"
    assert selection.options["experiment"] == ("b", "a")
    assert selection.options["scale"] == ("full", "quick")
    assert len(selection.runs) == 1


def test_a_complete_selection_opens_exactly_itself() -> None:
    wanted = {"experiment": "b", "scale": "full", "platform": "box", "evidence": "measured", "dataset": "mnist"}
    selection = resolve([*DATA, METRIC], RUNS, {**wanted, "metric": "step_time"})
    assert selection.chosen == {**wanted, "metric": "step_time"}
    assert selection.problems == []
    assert selection.runs["strategy"].tolist() == ["tf_lock"]


@pytest.mark.parametrize(
    ("key", "value"), [("experiment", "nope"), ("scale", "adhoc"), ("metric", "<script>"), ("platform", "")]
)
def test_a_wish_that_cannot_be_met_is_told_and_replaced(key: str, value: str) -> None:
    selection = resolve([*DATA, METRIC], RUNS, {"experiment": "b", key: value})
    (problem,) = selection.problems
    assert f"{key} '{value}'" in problem
    assert selection.chosen[key] == selection.options[key][0]
    assert not selection.runs.empty


def test_an_option_is_offered_only_if_runs_are_left_for_it() -> None:
    for experiment in ("a", "b"):
        selection = resolve(DATA, RUNS, {"experiment": experiment})
        for key in selection.chosen:
            for option in selection.options[key]:
                assert not resolve(DATA, RUNS, {**selection.chosen, key: option}).runs.empty


def test_all_keeps_every_run_and_is_the_first_option() -> None:
    filters = [Filter(Key.STATUS, "Status", with_all=True), Filter(Key.STRATEGY, "Strategy", with_all=True)]
    everything = resolve(filters, RUNS, {})
    assert everything.chosen == {"status": ALL, "strategy": ALL}
    assert len(everything.runs) == 4
    assert everything.options["strategy"] == (ALL, "tf_lock", "lock", "nolock", "htm")
    assert resolve(filters, RUNS, {"status": "failed"}).runs["strategy"].tolist() == ["htm"]


def test_no_runs_leave_only_all() -> None:
    selection = resolve([Filter(Key.STATUS, "Status", with_all=True)], RUNS[:0], {"status": "ok"})
    assert selection.options["status"] == (ALL,)
    assert len(selection.problems) == 1


def test_a_parameter_narrows_only_the_runs_that_have_it() -> None:
    runs = pd.DataFrame({"strategy": ["lock", "htm", "htm", "htm"], "budget": [None, 100, 5, 5]})
    runs = runs.assign(spending=["", "study_tsx", "study_tsx", "study_tsx"]).replace({"spending": {"": None}})
    runs["budget"] = runs["budget"].astype("Int64")
    filters = [entry for entry in OF_FACTORS if entry.key in runs]
    everything = resolve(filters, runs, {})
    assert everything.options == {"budget": (ALL, "5", "100")}  # by value; and all are spent in one way
    assert len(everything.runs) == 4
    five = resolve(filters, runs, {"budget": "5", "spending": "study_tsx"})
    assert five.runs["strategy"].tolist() == ["lock", "htm", "htm"]
    assert five.problems == []
    wrong = resolve(filters, runs, {"budget": "7", "spending": "tuned"})
    assert wrong.chosen == {"budget": ALL}
    assert len(wrong.problems) == 2
