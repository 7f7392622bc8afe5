"""The share of elements updated in committed transactions counts elements, not updates."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.support.frames import records, run
from tmflow.analysis import elements
from tmflow.analysis.summaries import mean_staleness, p95_staleness, step_bytes, step_transfers
from tmflow.charts.figures import DRAWINGS, figures_of
from tmflow.spec.strategies import parameters_of

COUNTS = ["uid", "variable", "updates", "commits", "fallbacks"]


def runs_of(rounds: int = 2, **changes: Any) -> pd.DataFrame:
    factors = {"strategy": "htm", **parameters_of("htm"), "matrix": 100} | changes
    return pd.DataFrame([run(**factors, round=number) for number in range(1, rounds + 1)])


def counted(runs: pd.DataFrame, *rows: tuple[str, int, int | None, int | None]) -> pd.DataFrame:
    return pd.DataFrame([(uid, *row) for uid in runs["uid"] for row in rows], columns=COUNTS).astype(
        {"updates": "Int64", "commits": "Int64", "fallbacks": "Int64"}
    )


def test_a_variable_counts_by_its_elements() -> None:
    runs = runs_of()
    summary = elements.committed_elements(runs, counted(runs, ("W", 10, 0, 10), ("b", 10, 10, 0)))
    assert summary["estimate"].tolist() == [pytest.approx(10 / 1010)]  # half of the updates, W has 1,000 elements
    assert summary["rounds"].tolist() == [2]
    assert summary["unit"].tolist() == ["fraction"]


def test_by_variable_each_has_the_share_of_its_updates() -> None:
    runs = runs_of()
    counts = counted(runs, ("W", 10, 3, 7), ("b", 10, 10, 0))
    summary = elements.committed_elements(runs, counts, by_variable=True)
    assert dict(zip(summary["variable"], summary["estimate"], strict=True)) == pytest.approx({"W": 0.3, "b": 1.0})


def test_an_update_in_chunks_counts_by_its_sections() -> None:
    runs = runs_of(chunk=250)
    summary = elements.committed_elements(runs, counted(runs, ("W", 10, 20, 20), ("b", 10, 10, 0)))
    assert summary["estimate"].tolist() == [pytest.approx((0.5 * 1000 + 10) / 1010)]


def test_a_transaction_of_all_variables_has_one_size() -> None:
    runs = runs_of(layout="joined")
    assert elements.variable_sizes(runs)[["variable", "elements"]].to_numpy().tolist() == [["joined", 1010]] * 2
    summary = elements.committed_elements(runs, counted(runs, ("joined", 10, 4, 6)))
    assert summary["estimate"].tolist() == [pytest.approx(0.4)]


def test_the_variables_of_a_users_own_model_have_their_shapes() -> None:
    runs = runs_of(1).assign(model="own_model", shapes="20x16,16,3x2x2")
    sizes = elements.variable_sizes(runs)
    assert dict(zip(sizes["variable"], sizes["elements"], strict=True)) == {
        "variable 1": 320, "variable 2": 16, "variable 3": 12
    }  # fmt: skip


def test_software_transactions_never_fall_back() -> None:
    runs = runs_of(**dict.fromkeys(parameters_of("htm")) | {"strategy": "stm"} | parameters_of("stm"))
    summary = elements.committed_elements(runs, counted(runs, ("W", 10, 10, None), ("b", 10, 10, None)))
    assert summary["estimate"].tolist() == [1.0]


@pytest.mark.parametrize("row", [("V", 10, 10, 0), ("b", 0, 0, 0)])
def test_an_unknown_variable_or_no_update_gives_no_share(row: tuple[str, int, int, int]) -> None:
    runs = runs_of()
    assert elements.committed_elements(runs, counted(runs, ("W", 10, 10, 0), row)).empty


def test_strategies_without_transactions_have_no_row() -> None:
    runs = pd.DataFrame([run()])
    assert elements.committed_elements(runs, counted(runs)).empty


def test_the_sentence_gives_the_range_over_workers_that_fit() -> None:
    runs = pd.concat([runs_of(threads=threads) for threads in (1, 4, 8)], ignore_index=True)
    commits = {1: 1, 4: 3, 8: 9}  # 8 workers are oversubscribed on 4 hardware threads
    rows = [
        (uid, variable, 10, commits[threads] if variable == "W" else 10, None)
        for uid, threads in zip(runs["uid"], runs["threads"], strict=True)
        for variable in ("W", "b")
    ]
    counts = pd.DataFrame(rows, columns=COUNTS).assign(fallbacks=lambda counts: 10 - counts["commits"])
    summary = elements.committed_elements(runs, counts)
    assert elements.sentence(summary) == "Of the updated elements, committed transactions updated: htm 11 to 31 %."
    assert elements.sentence(summary[summary["threads"] == 8]) is None


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (1.0, 1.0, "100"),
        (0.0012, 0.995, "0.12 to 100"),
        (0.013, 0.446, "1.3 to 45"),
        (0.0996, 0.994, "10 to 99"),
    ],
)
def test_the_range_has_two_digits_and_no_exponent(low: float, high: float, words: str) -> None:
    points = pd.DataFrame({"estimate": [low, high]}).assign(low=low, high=high, strategy="htm", variant="htm")
    summary = points.assign(oversubscribed=False)
    assert elements.sentence(summary) == f"Of the updated elements, committed transactions updated: htm {words} %."


def test_the_caption_of_a_chart_with_htm_says_it() -> None:
    runs = pd.concat([runs_of(), pd.DataFrame([run(matrix=100, round=r) for r in (1, 2)])], ignore_index=True)
    of_htm = runs[runs["strategy"] == "htm"]
    shown = records(runs, variables=counted(of_htm, ("W", 10, 0, 10), ("b", 10, 10, 0)))
    ((_, figure),) = figures_of("step_time", DRAWINGS["step_time"].summarise(shown), "1234abcd")
    assert "Of the updated elements, committed transactions updated: htm 0.99 %." in figure.caption.lines
    assert figure.summary.set_index("strategy")["elements"].isna().to_dict() == {"tf_lock": True, "htm": False}
    ((_, figure),) = figures_of("accuracy", DRAWINGS["accuracy"].summarise(shown), "1234abcd")
    assert "Of the updated elements, committed transactions updated: htm 0.99 %." in figure.caption.lines
    without = DRAWINGS["step_time"].summarise(records(runs[runs["strategy"] != "htm"]))
    assert "elements" not in without


def test_the_caption_of_aborts_counts_a_point_with_several_causes_once() -> None:
    runs = runs_of()
    aborts = [
        {"uid": uid, "mechanism": "rtm", "family": family, "raw_code": raw_code, "n": 3}
        for uid in runs["uid"]
        for family, raw_code in (("conflict", "0x00000006"), ("capacity", "0x00000008"))
    ]
    shown = records(
        runs,
        variables=counted(runs, ("W", 10, 0, 10), ("b", 10, 10, 0)),
        transactions=pd.DataFrame({"uid": runs["uid"], "commits": 10, "fallbacks": 10, "attempts": 26}),
        aborts=pd.DataFrame(aborts),
    )
    ((_, figure),) = figures_of("causes", DRAWINGS["causes"].summarise(shown), "1234abcd")
    assert figure.summary["cause"].nunique() > 1
    assert "Of the updated elements, committed transactions updated: htm 0.99 %." in figure.caption.lines


def test_the_95th_percentile_of_staleness_is_over_the_steps_of_all_workers() -> None:
    runs = pd.DataFrame([run(round=1), run(round=2)])
    first, second = runs["uid"]
    counts = pd.DataFrame(
        [
            (first, 0, 45),
            (first, 0, 45),
            (first, 3, 6),
            (first, 70, 4),
            (second, 8, 1),
            (second, 1, 18),
            (second, 5, 1),
        ],
        columns=["uid", "staleness", "steps"],
    ).sort_values(["uid", "staleness"])
    assert p95_staleness(runs, counts)["estimate"].tolist() == [(3 + 5) / 2]  # 96 of 100 steps, and 19 of 20
    assert p95_staleness(runs, counts.iloc[::-1])["estimate"].tolist() == [4]


def test_mean_staleness_is_the_mean_over_steps() -> None:
    runs = pd.DataFrame([run(round=1), run(round=2)])
    first, second = runs["uid"]
    counts = pd.DataFrame([(first, 0, 3), (first, 4, 1), (second, 2, 5)], columns=["uid", "staleness", "steps"])
    summary = mean_staleness(runs, counts)
    assert summary["estimate"].tolist() == [1.5]
    assert summary["low"].tolist() == [0.0]


def test_the_traffic_of_a_step_is_that_of_both_directions() -> None:
    runs = pd.DataFrame([run(driver="cluster", round=number) for number in (1, 2)])
    first, second = runs["uid"]
    rows = [
        (first, "send", 3.0, 40.0),
        (first, "receive", 4.0, 60.0),
        (first, "compute", None, None),
        (second, "send", 3.0, 40.0),
        (second, "receive", 4.0, 80.0),
    ]
    phases = pd.DataFrame(rows, columns=["uid", "phase", "transfers", "bytes"])
    assert step_transfers(runs, phases)["estimate"].tolist() == [7]
    assert step_bytes(runs, phases)["estimate"].tolist() == [110]
    untold = step_bytes(runs, phases.assign(bytes=float("nan")))  # runs of an earlier version
    assert untold["estimate"].isna().all()
