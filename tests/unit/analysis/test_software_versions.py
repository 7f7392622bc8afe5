"""The software version that stands for an experiment: the same for claims, charts and tables."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.support.frames import grid
from tmflow.analysis import summaries, versions
from tmflow.analysis.versions import LEAST_ROUNDS, LEFT_OUT
from tmflow.charts import captions

OLD, NEW = "tmflow 0.1.0 at 0000000000", "tmflow 0.2.0 at 1111111111"


def of_version(software: str, rounds: int, day: int, **changes: object) -> pd.DataFrame:
    """The runs of a campaign that began on this day of February."""
    runs = grid(rounds=rounds, campaign_uid=f"{software} on {day}", software=software, **changes)
    return runs.assign(started_at_utc=f"2026-02-{day:02}T00:00:00.000Z", uid=runs["uid"] + f" {software} {changes}")


def together(*parts: pd.DataFrame) -> pd.DataFrame:
    return pd.concat(parts, ignore_index=True)


def kept(runs: pd.DataFrame) -> pd.DataFrame:
    return versions.without_others(runs, runs)


@pytest.mark.parametrize(
    ("old", "new", "used"),
    [
        (LEAST_ROUNDS, LEAST_ROUNDS, NEW),
        (2 * LEAST_ROUNDS, LEAST_ROUNDS, NEW),
        (LEAST_ROUNDS, LEAST_ROUNDS - 1, OLD),
        (2, 3, NEW),
        (3, 2, OLD),
        (3, 3, NEW),
    ],
)
def test_the_newest_version_with_six_rounds_is_used_else_that_with_the_most(old: int, new: int, used: str) -> None:
    runs = together(of_version(NEW, new, day=2), of_version(OLD, old, day=1))
    assert set(kept(runs)["software"]) == {used}
    assert versions.origins(runs, "fig_4_1")[0].software == used


def test_a_version_without_dates_is_the_oldest() -> None:
    undated = of_version(NEW, 6, day=2).assign(started_at_utc=None)
    assert versions.ranked_software(together(undated, of_version(OLD, 6, day=1))) == [OLD, NEW]


def test_the_version_of_the_largest_sample_comes_first() -> None:
    elsewhere = {"hardware_threads": 2}
    few = together(of_version(NEW, 6, day=2), of_version(OLD, 2, day=1))
    more = together(of_version(NEW, 2, day=2, **elsewhere), of_version(OLD, 7, day=1, **elsewhere))
    assert versions.ranked_software(together(few, more)) == [OLD, NEW]
    assert versions.ranked_software(few) == [NEW, OLD]


def test_each_platform_evidence_definition_and_experiment_has_its_version() -> None:
    newest = of_version(NEW, 6, day=2)
    for change in (
        {"platform": "box-2"},
        {"evidence": "emulated"},
        {"definition_sha256": "e" * 64},
        {"experiment": "fig_4_7"},
        {"hardware_threads": 2},
        {"scale": "quick"},
        {"dataset": "digits"},
    ):
        older = of_version(OLD, 6, day=1, **change)
        runs = together(of_version(OLD, 6, day=1), newest, older)
        assert set(kept(runs)["uid"]) == {*newest["uid"], *older["uid"]}


def test_a_run_tells_how_many_of_other_versions_are_left_out() -> None:
    older, newest = of_version(OLD, 6, day=1), of_version(NEW, 6, day=2)
    elsewhere = of_version(OLD, 6, day=1, platform="box-2")
    runs = kept(together(older, newest, elsewhere))
    assert runs.groupby("platform")[LEFT_OUT].unique().map(list).to_dict() == {"box-1": [len(older)], "box-2": [0]}
    summary = summaries.speedup(runs)
    assert set(summary[LEFT_OUT]) == {0, len(older)}
    sentence = f"Of experiment fig_4_1, {len(older)} runs by other versions of the software are left out."
    assert versions.left_out_sentence(runs) == versions.left_out_sentence(summary) == sentence
    assert set(kept(older)[LEFT_OUT]) == {0}
    assert versions.left_out_sentence(kept(older)) is None
    assert versions.left_out_sentence(older) is None


def test_the_number_left_out_does_not_depend_on_the_runs_that_are_wanted() -> None:
    older, newest = of_version(OLD, 6, day=1), of_version(NEW, 6, day=2)
    older.loc[older["round"] == 1, ["status", "reason"]] = ["failed", "boom"]
    samples = together(older, newest)
    some = versions.without_others(samples[(samples["strategy"] == "tf_lock") & (samples["status"] == "ok")], samples)
    assert set(some["uid"]) == set(newest.loc[newest["strategy"] == "tf_lock", "uid"])
    assert set(some[LEFT_OUT]) == {len(older)}


def test_the_sentence_names_the_experiments_or_counts_them() -> None:
    parts = [
        part
        for name in "abcd"
        for part in (of_version(OLD, 6, day=1, experiment=name), of_version(NEW, 6, 2, experiment=name))
    ]
    n = len(parts[0])
    end = "runs by other versions of the software are left out."
    assert versions.left_out_sentence(kept(together(*parts[:4]))) == f"Of experiments a and b, {2 * n} {end}"
    assert versions.left_out_sentence(kept(together(*parts[:3]))) == f"Of experiment a, {n} {end}"
    assert versions.left_out_sentence(kept(together(*parts))) == f"Of 4 experiments, {4 * n} {end}"


def test_failed_runs_do_not_count_as_rounds_but_are_left_out_with_their_version() -> None:
    newest = of_version(NEW, 6, day=2)
    newest.loc[newest["round"] == 1, ["status", "reason"]] = ["failed", "boom"]
    older = of_version(OLD, 6, day=1)
    assert set(kept(together(older, newest))["uid"]) == set(older["uid"])
    assert set(kept(together(older, newest))[LEFT_OUT]) == {len(newest)}


def test_a_caption_tells_the_version_that_is_shown_and_how_many_runs_are_left_out() -> None:
    older, newest = of_version(OLD, 1, day=1), of_version(NEW, 6, day=2)
    lines = captions.caption(summaries.speedup(kept(together(older, newest))), "r1").lines
    assert {
        f"Measured by {NEW}.",
        "Of experiment fig_4_1, 8 runs by other versions of the software are left out.",
    } <= set(lines)
    both = captions.caption(summaries.speedup(together(older, newest)), "r1").text
    assert "rounds of several versions are pooled in 8 of 8 points" in both
    assert "left out" not in both


def test_a_caption_without_a_result_counts_the_runs_left_out_too() -> None:
    older, newest = of_version(OLD, 1, day=1), of_version(NEW, 6, day=2)
    for runs in (older, newest):
        runs.loc[:, ["status", "reason"]] = ["failed", "boom"]
    lines = captions.caption(summaries.speedup(kept(together(older, newest))), "r1").lines
    assert "Of experiment fig_4_1, 8 runs by other versions of the software are left out." in lines
    assert not any(line.startswith("Measured by") for line in lines)
