"""Trends over campaigns: a step is detected at its place, and a series without one has no change point."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.support.frames import grid
from tmflow.analysis import trends
from tmflow.analysis.regressions import first_places, pairs, range_of, worse
from tmflow.analysis.trends import LEAST_CAMPAIGNS, Measure
from tmflow.base.errors import BadInput

NO_FULL = pd.DataFrame({"uid": pd.Series([], dtype="str"), "lost_fraction": pd.Series([], dtype="float64")})
RNG_SEED = 20261124


def campaign(
    place: int, *, factor: float = 1.0, machine: float = 1.0, rounds: int = 6, noise: float = 0.01, **changes: object
) -> pd.DataFrame:
    """A campaign of day `place`: tf_nolock takes `factor` times as long, and everything `machine` times as long."""
    rng = np.random.default_rng([RNG_SEED, place])
    runs = grid(rounds=rounds, threads=(1, 4), campaign_uid=f"campaign-{place}", **changes)
    nolock = runs["strategy"] == "tf_nolock"
    scatter = np.exp(noise * rng.standard_normal(len(runs)))
    return runs.assign(
        loop_s=runs["loop_s"] * scatter * machine * np.where(nolock, factor, 1.0),
        git_commit=f"{place:x}" * 40,
        software=f"tmflow 0.{place}.0 at {f'{place:x}' * 10}",
        started_at_utc=f"2026-03-{place + 1:02}T00:00:00.000Z",
        uid=runs["uid"] + f" {place}",
    )


def together(*campaigns: pd.DataFrame) -> pd.DataFrame:
    return trends.with_campaigns(pd.concat(campaigns, ignore_index=True))


def point(runs: pd.DataFrame, measure: Measure = "speed_ratio", threads: int = 4) -> pd.DataFrame:
    """The series of tf_nolock."""
    table = trends.series(runs, NO_FULL, measure)
    return table[(table["strategy"] == "tf_nolock") & (table["threads"] == threads)]


@pytest.mark.parametrize("at", [2, 5, 8])
def test_a_step_is_found_at_its_place_with_its_commits_and_size(at: int) -> None:
    runs = together(*(campaign(n, factor=1.3 if n >= at else 1.0) for n in range(10)))
    (change,) = trends.change_points(point(runs))
    assert (change.before["place"], change.after["place"]) == (at - 1, at)
    assert change.is_worse
    assert change.size.estimate == pytest.approx(1 / 1.3, rel=0.02)
    assert range_of(change.before, change.after) == (
        f"commits {f'{at - 1:x}' * 10}..{f'{at:x}' * 10} (campaigns of 2026-03-{at:02} and 2026-03-{at + 1:02})"
    )


def test_a_change_that_was_undone_is_two_change_points() -> None:
    runs = together(*(campaign(n, factor=1.3 if 3 <= n < 7 else 1.0) for n in range(10)))
    changes = trends.change_points(point(runs))
    assert [(int(change.after["place"]), change.is_worse) for change in changes] == [(3, True), (7, False)]


def test_a_series_without_a_step_has_no_change_point() -> None:
    runs = together(*(campaign(n) for n in range(12)))
    for threads in (1, 4):
        assert trends.change_points(point(runs, threads=threads)) == []


def test_a_slower_machine_changes_the_times_and_not_the_ratios_to_the_lock() -> None:
    runs = together(*(campaign(n, machine=1.5 if n >= 4 else 1.0) for n in range(8)))
    assert trends.change_points(point(runs)) == []
    (change,) = trends.change_points(point(runs, "step_time"))
    assert change.after["place"] == 4
    assert change.size.estimate == pytest.approx(1.5, rel=0.1)
    assert change.is_worse


def test_fewer_campaigns_than_the_least_have_no_change_point_but_a_comparison_of_the_newest_two() -> None:
    runs = together(*(campaign(n, factor=2.0 if n == 4 else 1.0) for n in range(LEAST_CAMPAIGNS - 1)))
    table = point(runs)
    assert trends.change_points(table) == []
    with pytest.raises(ValueError, match=f"5 values are too few: a change point needs {LEAST_CAMPAIGNS}"):
        trends.change_places(table["estimate"])
    values = trends.values(runs, NO_FULL, "speed_ratio")
    rounds = values[(values["threads"] == 4) & (values["strategy"] == "tf_nolock")]
    change = trends.newest_change(table, rounds)
    assert change is not None
    assert (change.before["place"], change.after["place"]) == (3, 4)
    assert change.size.low < 0.5 < change.size.high
    assert change.size.high < 0.55
    assert trends.newest_change(table.head(1), rounds) is None


def test_an_estimate_is_the_mean_of_its_rounds_with_an_interval() -> None:
    runs = together(campaign(0), campaign(1))
    values = trends.values(runs, NO_FULL, "speed_ratio")
    first = values[(values["place"] == 0) & (values["threads"] == 4)]
    row = point(runs).iloc[0]
    assert row["estimate"] == pytest.approx(np.exp(np.log(first["value"]).mean()))
    assert row["low"] < row["estimate"] < row["high"]
    assert row["rounds"] == 6
    assert set(trends.series(runs, NO_FULL, "speed_ratio")["strategy"]) == {"tf_nolock"}  # the lock is 1 by definition


def test_a_round_without_the_lock_has_no_ratio_and_says_so() -> None:
    runs = campaign(0)
    runs = runs[~((runs["strategy"] == "tf_lock") & (runs["round"] == 2))]
    row = point(together(runs)).iloc[0]
    assert row["rounds"] == 5
    assert row["reason"] == "1 of 6 rounds with a result lack the lock to compare with"


def test_points_of_other_definitions_platforms_and_factors_are_never_joined() -> None:
    parts = [campaign(0), campaign(1, definition_sha256="e" * 64), campaign(2, platform="box-2"), campaign(3, batch=7)]
    table = trends.series(together(*parts), NO_FULL, "speed_ratio")
    assert [len(rows) for rows in trends.points(table)] == [1] * 8


@pytest.mark.parametrize(
    "changes", [{"scale": "quick"}, {"measures": "full", "driver": "native"}, {"evidence": "emulated"}]
)
def test_only_measured_runs_at_full_scale_with_usual_measures_are_tracked(changes: dict[str, str]) -> None:
    assert trends.series(together(campaign(0, **changes)), NO_FULL, "speed_ratio").empty


def test_lost_updates_are_tracked_in_fully_instrumented_runs() -> None:
    runs = together(campaign(0, measures="full", driver="native"))
    full = pd.DataFrame({"uid": runs["uid"], "lost_fraction": 0.25})
    table = trends.series(runs, full, "lost")
    assert set(table["estimate"]) == {0.25}
    assert set(table["strategy"]) == {"tf_lock", "tf_nolock"}


def test_a_campaign_resumed_by_other_software_counts_once_for_each() -> None:
    second = campaign(1).assign(campaign_uid="campaign-0", round=lambda runs: runs["round"] + 6)
    table = point(together(campaign(0), second))
    assert list(table["place"]) == [0, 1]
    assert set(table["campaign_uid"]) == {"campaign-0"}
    assert table["software"].nunique() == 2


@pytest.mark.parametrize("n", [6, 8, 12, 20, 40])
def test_the_detector_finds_a_change_in_about_one_of_twenty_series_without_one(n: int) -> None:
    rng, trials = np.random.default_rng(RNG_SEED), 10_000
    false_alarms = sum(bool(trends.change_places(rng.standard_normal(n))) for _ in range(trials))
    assert 0.035 <= false_alarms / trials <= 0.065  # its standard error is 0.002


def test_the_detector_finds_most_steps_of_four_standard_deviations() -> None:
    rng, trials = np.random.default_rng(RNG_SEED), 500
    step = np.repeat([0.0, 4.0], 5)
    exact = sum(trends.change_places(step + rng.standard_normal(10)) == [5] for _ in range(trials))
    assert exact / trials > 0.85


def compared(runs: pd.DataFrame, since: str, *measures: Measure) -> list[object]:
    tables = {measure: trends.values(runs, NO_FULL, measure) for measure in measures or ("speed_ratio", "accuracy")}
    return [(found.measure, found.label) for found in worse(pairs(tables, first_places(runs, since)))]


SLOWER = [("speed_ratio", f"tf_nolock, {n} worker{'s' if n > 1 else ''}, fig_4_1") for n in (1, 4)]


@pytest.mark.parametrize("since", ["2026-03-02", "2026-03-01T12:00:00+01:00", "00000000", "campaign-0"])
def test_what_became_slower_since_a_date_a_commit_or_a_campaign_is_listed(since: str) -> None:
    runs = together(campaign(0), campaign(1, factor=1.4))
    assert sorted(compared(runs, since)) == SLOWER


def test_what_became_faster_or_stayed_is_no_regression() -> None:
    assert compared(together(campaign(0), campaign(1, factor=0.5)), "2026-03-02") == []
    assert compared(together(campaign(0), campaign(1)), "2026-03-02") == []
    assert compared(together(campaign(0), campaign(1, machine=2.0)), "2026-03-02") == []
    assert len(compared(together(campaign(0), campaign(1, machine=50.0)), "2026-03-02", "step_time")) == 4


def test_a_change_within_five_per_cent_is_no_regression_however_certain() -> None:
    runs = together(campaign(0, noise=0.0001), campaign(1, factor=1.04, noise=0.0001))
    assert compared(runs, "2026-03-02") == []


def test_the_newest_campaign_is_compared_with_the_last_one_before() -> None:
    fixed = together(campaign(0), campaign(1, factor=1.4), campaign(2))
    assert compared(fixed, "2026-03-02") == []
    old = together(campaign(0, factor=0.5), campaign(1), campaign(2))
    assert compared(old, "2026-03-03") == []
    assert sorted(compared(old, "2026-03-02")) == SLOWER


def test_a_lower_accuracy_is_a_regression_beyond_two_points() -> None:
    worse_by = [
        campaign(1).assign(final_accuracy=lambda runs, by=by: runs["final_accuracy"] - by) for by in (0.01, 0.05)
    ]
    assert compared(together(campaign(0), worse_by[0]), "2026-03-02") == []
    assert len(compared(together(campaign(0), worse_by[1]), "2026-03-02")) == 4


def test_a_label_has_the_factors_in_which_points_differ() -> None:
    pairs_of = [pd.concat([campaign(n, factor=f), campaign(n, factor=f, batch=7)]) for n, f in ((0, 1.0), (1, 1.5))]
    labels = [label for _, label in compared(together(*pairs_of), "2026-03-02")]
    assert sorted(labels)[0] == "tf_nolock, 1 worker, fig_4_1, batch 100"
    assert len(set(labels)) == 4


@pytest.mark.parametrize(
    ("since", "says"),
    [
        ("nope", "is neither a date such as 2026-11-01, nor the beginning"),
        ("000", "is neither a date"),
        ("", "is neither a date"),
        ("2026-13-01", "is no date: give one such as"),
        ("2026-03-01 and more", "is no date"),
        ("camp", "begins several names of a campaign: campaign-0, campaign-1; give more of it"),
    ],
)
def test_what_is_no_date_commit_or_campaign_is_refused(since: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        first_places(together(campaign(0), campaign(1)), since)


def test_a_commit_that_only_one_platform_ran_divides_only_its_campaigns() -> None:
    runs = together(campaign(0), campaign(1), campaign(2, platform="box-2"))
    assert first_places(runs, "11111111") == {"box-1": 2}
    assert first_places(runs, "2026-03-02") == {"box-1": 1, "box-2": 0}
