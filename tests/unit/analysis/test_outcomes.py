"""Time to an accuracy, lost updates and torn reads: known answers, and missing values are reported."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from tests.support.frames import grid
from tmflow.analysis import summaries
from tmflow.analysis.summaries import first_at
from tmflow.analysis.variants import panels
from tmflow.runfile.record import NO_TIME


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [
        ((0.5, 0.7, 0.9), 3),  # exactly at a point
        ((0.5, 0.8, 1.0), 2.5),  # half way between two
        ((0.95, 0.2, 0.99), 1),  # immediately: nothing is known before the first point
        ((0.8, 0.92, 0.5), 1 + 0.1 / 0.12),  # it was reached, even if it is lost again
        ((0.5, 0.6, 0.8), math.nan),
    ],
)
def test_the_first_time_at_a_target(accuracies: tuple[float, ...], expected: float) -> None:
    assert first_at(0.9, (1, 2, 3), accuracies) == pytest.approx(expected, nan_ok=True)


def curves(runs: pd.DataFrame, *heights: tuple[float, ...]) -> pd.DataFrame:
    """A curve for each run, with points at 1, 2, ... seconds; the order of rows does not matter."""
    rows = [
        {"uid": uid, "iteration": 100 * (i + 1), "elapsed_s": i + 1.0, "accuracy": height}
        for uid, own in zip(runs["uid"], heights, strict=True)
        for i, height in enumerate(own)
    ]
    return pd.DataFrame(rows[::-1])


def test_time_to_accuracy_is_the_geometric_mean_over_rounds() -> None:
    runs = grid(("lock",), (1,), rounds=2, curve_points=4)
    points = curves(runs, (0.9, 0.99, 1, 1), (0.1, 0.2, 0.3, 0.9))
    row = summaries.time_to_accuracy(runs, points, [0.9]).iloc[0]
    assert row["estimate"] == pytest.approx(math.sqrt(1 * 4))
    assert (row["rounds"], row["reason"], row["unit"], row["target"]) == (2, None, "s", 0.9)
    assert 0 < row["low"] < row["estimate"] < row["high"]


def test_a_target_that_a_round_never_reached_has_no_time_and_says_so() -> None:
    runs = grid(("lock",), (1,), rounds=3, curve_points=2)
    runs.loc[2, ["status", "reason"]] = ["failed", "boom"]
    summary = summaries.time_to_accuracy(runs, curves(runs[:2], (0.5, 0.9), (0.5, 0.6)), [0.9, 0.55])
    assert summary["estimate"].isna().tolist() == [True, False]
    assert summary["reason"].tolist() == [
        "1 of 3 rounds failed: boom; 1 of 2 rounds never reached 90%", "1 of 3 rounds failed: boom",
    ]  # fmt: skip


def test_a_target_is_named_with_its_digits() -> None:
    runs = grid(("lock",), (1,), rounds=1, curve_points=2)
    summary = summaries.time_to_accuracy(runs, curves(runs, (0.5, 0.6)), [0.975])
    assert summary["reason"].tolist() == ["1 of 1 rounds never reached 97.5%"]


def test_emulated_runs_have_no_time_to_an_accuracy_and_runs_without_a_curve_no_row() -> None:
    runs = grid(("htm",), (1,), rounds=1, curve_points=1, evidence="emulated")
    points = curves(runs, (0.95,)).assign(elapsed_s=math.nan)
    summary = summaries.time_to_accuracy(runs, points, [0.9])
    assert summary[["estimate"]].isna().all(axis=None)
    assert summary["reason"].tolist() == [NO_TIME]
    assert summaries.time_to_accuracy(grid(), points).empty


def full(runs: pd.DataFrame, **shares: Any) -> pd.DataFrame:
    return pd.DataFrame({"uid": runs["uid"], "lost_fraction": 0.0, "torn_fraction": math.nan} | shares)


def test_lost_is_a_mean_over_rounds_of_the_runs_that_were_measured_in_full() -> None:
    runs = grid(("nolock",), (2,), rounds=2, measures="full")
    both = pd.concat([runs, grid(("nolock",), (2,), rounds=2)])
    summary = summaries.lost(both, full(runs, lost_fraction=[0.2, 0.4]))
    assert summary["estimate"].tolist() == pytest.approx([0.3])
    assert (summary["measure"].iloc[0], summary["rounds"].iloc[0]) == ("lost", 2)


def test_measured_zero_is_zero_and_not_measured_says_so() -> None:
    runs = grid(("stm",), (2,), rounds=2, measures="full")
    assert summaries.lost(runs, full(runs))["estimate"].tolist() == [0]
    torn = summaries.torn(runs, full(runs))
    assert torn["estimate"].isna().all()
    assert torn["reason"].tolist() == ["not measured under this strategy"]


def test_panels_of_one_variant_each_are_named_by_it() -> None:
    own = {"provider": "rtm", "spending": "study_tsx", "chunk": 0}
    runs = pd.concat([grid(("lock",), (1, 2)), *(grid(("htm",), (1, 2), budget=budget, **own) for budget in (0, 5))])
    summary = summaries.accuracy(pd.concat([runs, runs.assign(batch=1)], ignore_index=True))
    parts = dict(panels(summary, ("threads",)))
    assert list(parts) == [
        f"{variant}, batch {batch}"
        for batch in (1, 100)
        for variant in ("lock", "htm (budget 0)", "htm (budget 5)")
    ]  # fmt: skip
    assert all(len(part) == 2 for part in parts.values())
