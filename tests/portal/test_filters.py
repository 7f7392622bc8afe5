"""Filters turn any URL into a view that exists, and report what they could not apply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd
import pytest

from tmflow.portal.url_state import (
    DATA,
    MAX_QUOTED,
    OF_FACTORS,
    Choice,
    Filter,
    Key,
    Selection,
    ValueFilter,
    ValuesFilter,
    resolve,
)

RUNS = pd.DataFrame(
    [
        ("b", "quick", "box", "measured", "mnist", "nolock", "ok"),
        ("b", "full", "box", "measured", "mnist", "tf_lock", "ok"),
        ("b", "full", "farm", "emulated", "digits", "htm", "failed"),
        ("a", "adhoc", "box", "measured", "mnist", "lock", "ok"),
    ],
    columns=["experiment", "scale", "platform", "evidence", "dataset", "strategy", "status"],
)
METRIC = Choice(Key.METRIC, "Metric", ("speedup", "step_time"))
STATUS = ValuesFilter(Key.STATUS, "Status")
STRATEGY = ValueFilter(Key.STRATEGY, "Strategy")
STRATEGIES = ValuesFilter(Key.STRATEGY, "Strategy")
GARBAGE = [
    "nope", "", " ", "<script>alert(1)</script>", "x" * 100_000, "a\0b\x07\u202e", "%s {x}", "' OR 1=1 --", "💥", "nan",
]  # fmt: skip


def resolved(filters: Sequence[Filter], runs: pd.DataFrame = RUNS, **wanted: str | Sequence[str]) -> Selection:
    lists: Mapping[str, Sequence[str]] = {
        key: [wish] if isinstance(wish, str) else wish for key, wish in wanted.items()
    }
    return resolve(filters, runs, lists)


def test_without_a_wish_planned_and_full_comes_first() -> None:
    selection = resolved(DATA)
    assert selection.one("experiment") == "b"
    assert selection.one("scale") == "full"
    assert selection.options["experiment"] == ("b", "a")
    assert selection.options["scale"] == ("full", "quick")
    assert len(selection.rows) == 1


def test_a_complete_selection_opens_exactly_itself() -> None:
    wanted = {"experiment": "b", "scale": "full", "platform": "box", "evidence": "measured", "metric": "step_time"}
    selection = resolved([*DATA, METRIC], **wanted)
    assert selection.chosen == {key: (value,) for key, value in wanted.items()}
    assert selection.problems == []
    assert selection.rows["strategy"].tolist() == ["tf_lock"]


def test_a_complete_selection_survives_new_data() -> None:
    before = resolved([*DATA, STRATEGIES], strategy=["tf_lock"])
    new = RUNS.iloc[[0, 1]].assign(experiment="A new first one", strategy="lock")
    after = resolve([*DATA, STRATEGIES], pd.concat([new, RUNS, RUNS.assign(scale="quick")]), before.chosen)
    assert after.chosen == before.chosen
    assert after.problems == []


@pytest.mark.parametrize("key", ["experiment", "scale", "metric", "platform"])
@pytest.mark.parametrize("value", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_is_told_in_one_sentence_and_replaced(key: str, value: str) -> None:
    selection = resolved([*DATA, METRIC], **{"experiment": "b", key: value})
    (problem,) = selection.problems
    assert problem.startswith(f"The link asks for {key} '{value[:MAX_QUOTED]}', which is not here: showing '")
    assert len(problem) < 200
    assert selection.one(key) == selection.options[key][0]
    assert not selection.rows.empty


def test_many_wrong_values_are_one_sentence() -> None:
    selection = resolved([STRATEGIES], strategy=["lock", *(f"x{n}" for n in range(1000)), "x1"])
    assert selection.problems == [
        "The link asks for strategy 'x0', 'x1', 'x2' and 997 more, which are not here: showing 'lock'."
    ]
    assert selection.chosen == {"strategy": ("lock",)}


def test_of_several_values_a_filter_of_one_takes_one_and_says_so() -> None:
    selection = resolved([STRATEGY], strategy=["nolock", "lock"])
    assert selection.problems == ["The link asks for more than one strategy: showing 'lock'."]
    assert selection.one("strategy") == "lock"
    assert resolved([STRATEGY], strategy=["lock", "lock"]).problems == []


def test_unknown_parameters_change_nothing() -> None:
    assert resolved(DATA, nonsense="x", **{"a b": ["1", "2"]}).chosen == resolved(DATA).chosen


def test_several_values_keep_the_rows_of_each() -> None:
    selection = resolved([STRATEGIES], strategy=["htm", "tf_lock"])
    assert selection.chosen == {"strategy": ("tf_lock", "htm")}  # in the order of all charts
    assert selection.rows["strategy"].tolist() == ["tf_lock", "htm"]
    everything = resolved([STRATEGIES])
    assert everything.chosen == {"strategy": ()}
    assert len(everything.rows) == 4
    assert resolved([replace(STRATEGIES, required=True)]).chosen == {"strategy": ("tf_lock",)}


def test_an_option_is_offered_only_if_rows_are_left_for_it() -> None:
    for experiment in ("a", "b"):
        selection = resolved(DATA, experiment=experiment)
        for key in selection.chosen:
            for option in selection.options[key]:
                assert not resolve(DATA, RUNS, {**selection.chosen, key: [option]}).rows.empty


def test_nothing_chosen_keeps_every_row() -> None:
    everything = resolved([STATUS, STRATEGIES])
    assert everything.chosen == {"status": (), "strategy": ()}
    assert len(everything.rows) == 4
    assert everything.options["strategy"] == ("tf_lock", "lock", "nolock", "htm")
    assert resolved([STATUS, STRATEGIES], status="failed").rows["strategy"].tolist() == ["htm"]


def test_no_rows_leave_no_option() -> None:
    selection = resolved([STATUS], RUNS[:0], status="ok")
    assert selection.options["status"] == ()
    assert len(selection.problems) == 1


def test_the_factors_of_a_cluster_have_filters_that_keep_the_runs_of_other_drivers() -> None:
    runs = pd.DataFrame({"driver": ["session", "cluster", "cluster"], "mode": [None, "async", "sync"]})
    filters = [entry for entry in OF_FACTORS if entry.key in runs]
    assert [entry.label for entry in filters] == ["Driver", "Mode of updates"]
    assert resolved(filters, runs, mode="sync").rows["driver"].tolist() == ["session", "cluster"]
    labels = {entry.key: entry.label for entry in OF_FACTORS}
    assert labels["servers"] == "Parameter servers"
    assert labels["slowdown"] == "Slowdown of the last worker"


def test_a_parameter_narrows_only_the_rows_that_have_it() -> None:
    runs = pd.DataFrame({"strategy": ["lock", "htm", "htm", "htm"], "budget": [None, 100, 5, 5]})
    runs = runs.assign(spending=["", "study_tsx", "study_tsx", "study_tsx"]).replace({"spending": {"": None}})
    runs["budget"] = runs["budget"].astype("Int64")
    filters = [entry for entry in OF_FACTORS if entry.key in runs]
    everything = resolved(filters, runs)
    assert everything.options == {"budget": ("5", "100")}  # by value; and all have the same retry policy
    assert len(everything.rows) == 4
    five = resolved(filters, runs, budget="5", spending="study_tsx")
    assert five.rows["strategy"].tolist() == ["lock", "htm", "htm"]
    assert five.problems == []
    wrong = resolved(filters, runs, budget="7", spending="tuned")
    assert wrong.chosen == {"budget": ()}
    assert len(wrong.problems) == 2
