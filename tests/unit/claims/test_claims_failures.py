"""Failed runs have no value: they agree with nothing, and are classified by how they ended."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pytest
from sqlalchemy import Connection

from tests.support.claim_worlds import CLAIMS, SPEED, Change, only, set_world, verdict_of
from tmflow.base.errors import Diverged
from tmflow.claims.origins import experiments
from tmflow.claims.tables import Tables, load

BELOW = "deep-not-acceptable"
DIVERGED = f"{Diverged.__name__}: the weights are not finite numbers"


def with_seven_rounds(runs: pd.DataFrame) -> pd.DataFrame:
    seventh = runs[runs["round"] == 6].assign(round=7, uid=lambda frame: frame["uid"] + "-7")
    return pd.concat([runs, seventh], ignore_index=True)


def test_what_could_not_run_is_told(true_world: dict[str, Tables]) -> None:
    def unsupported(runs: pd.DataFrame) -> pd.DataFrame:
        runs.loc[runs["strategy"] == "htm", ["status", "reason"]] = ["unsupported", "RTM is off"]
        return runs

    finding = verdict_of(SPEED, true_world, unsupported).finding
    assert (finding.verdict, finding.why) == (
        "untested here",
        "HTM in fig-4.1, matrix 784 has no run with a result (unsupported: RTM is off).",
    )


def test_where_runs_failed_those_left_reproduce_nothing(true_world: dict[str, Tables]) -> None:
    """The failed runs may be those that differ, even if enough rounds remain for that number of workers."""

    def timed_out(first_round: int, seven_rounds: bool) -> Change:
        def change(runs: pd.DataFrame) -> pd.DataFrame:
            runs = with_seven_rounds(runs) if seven_rounds else runs
            late = (runs["threads"] == 48) & (runs["strategy"] == "htm") & (runs["round"] >= first_round)
            runs.loc[late, ["status", "reason"]] = ["timeout", "too long"]
            return runs

        return change

    of_five = verdict_of(SPEED, true_world, timed_out(2, False)).finding
    assert of_five.verdict == "inconclusive"
    assert "6 rounds at 1, 2, 15, 16, 26, 34, 55 and 64 workers" in of_five.why
    assert "48 workers: 1 of 6 rounds" in of_five.why
    assert "5 of its 162 runs failed (timeout: too long)" in of_five.why
    of_one = verdict_of(SPEED, true_world, timed_out(7, True)).finding
    assert (of_one.verdict, of_one.more_rounds) == ("inconclusive", None)
    assert "1 of its 189 runs failed (timeout: too long)" in of_one.why


@pytest.mark.parametrize(
    ("rounds", "status", "reason", "verdict", "more", "why"),
    [
        (
            [7],
            "failed",
            DIVERGED,
            "holds here",
            None,
            "2 of its 126 runs diverged and have no accuracy and no time, which a",
        ),
        ([7], "failed", "RuntimeError: boom", "inconclusive", None, "it holds of those left, but what failed may diff"),
        ([7], "timeout", "too long", "inconclusive", None, "2 of its 126 runs failed (timeout: too long)"),
        ([1, 2, 3], "failed", DIVERGED, "holds here", None, "too many diverged at 48 workers for a number"),
        (range(8), "failed", DIVERGED, "holds here", None, "14 of its 126 runs diverged"),
        ([1, 2, 3], "timeout", "too long", "inconclusive", None, "it holds of those left, but what failed may differ"),
    ],
    ids=["diverged", "crashed", "hung", "half of them diverged", "all diverged", "half of them hung"],
)
def test_what_diverged_agrees_with_a_claim_of_low_accuracy(
    claims_db: Connection, rounds: Sequence[int], status: str, reason: str, verdict: str, more: int | None, why: str
) -> None:
    """It gives no right answers; the answers of a crashed run are unknown."""
    set_world(claims_db, CLAIMS, CLAIMS.claims[BELOW], "holds")

    def ended(runs: pd.DataFrame) -> pd.DataFrame:
        runs = with_seven_rounds(runs)
        runs.loc[(runs["threads"] == 48) & runs["round"].isin(rounds), ["status", "reason"]] = [status, reason]
        return runs

    finding = verdict_of(BELOW, load(claims_db, experiments(only(BELOW))), ended).finding
    assert (finding.verdict, finding.more_rounds) == (verdict, more), finding.why
    assert why in finding.why


def test_those_left_contradict_a_claim_of_low_accuracy(claims_db: Connection) -> None:
    set_world(claims_db, CLAIMS, CLAIMS.claims[BELOW], "fails")

    def diverged(runs: pd.DataFrame) -> pd.DataFrame:
        runs.loc[runs["threads"] == 48, ["status", "reason"]] = ["failed", DIVERGED]
        return runs

    finding = verdict_of(BELOW, load(claims_db, experiments(only(BELOW))), diverged).finding
    assert finding.verdict == "does not hold here"
    assert "12 of its 108 runs diverged" in finding.why


def test_where_only_one_worker_is_left_no_larger_machine_is_asked_for(claims_db: Connection) -> None:
    set_world(claims_db, CLAIMS, CLAIMS.claims[BELOW], "holds")

    def crashed(runs: pd.DataFrame) -> pd.DataFrame:
        runs.loc[runs["threads"] > 1, ["status", "reason"]] = ["failed", "RuntimeError: boom"]
        return runs

    finding = verdict_of(BELOW, load(claims_db, experiments(only(BELOW))), crashed).finding
    assert (finding.verdict, finding.more_rounds) == ("inconclusive", None)
    assert "it holds so far, but none is left at 2, 15, 16, 26, 34, 48, 55 and 64 workers" in finding.why


def test_a_share_is_that_of_its_own_rounds_and_no_others(claims_db: Connection) -> None:
    """Lock lacks one round and NoLock another: each has six, but only five are common."""
    set_world(claims_db, CLAIMS, CLAIMS.claims[BELOW], "holds")

    def diverged(runs: pd.DataFrame) -> pd.DataFrame:
        runs = with_seven_rounds(runs)
        of = runs["strategy"].map({"tf_lock": 7, "tf_nolock": 1})
        runs.loc[runs["round"] == of, ["status", "reason"]] = ["failed", DIVERGED]
        return runs

    finding = verdict_of(BELOW, load(claims_db, experiments(only(BELOW))), diverged).finding
    assert finding.verdict == "holds here", finding.why
    assert {number["rounds"] for number in finding.numbers} == {6}
    assert "18 of its 126 runs diverged" in finding.why


def test_where_runs_diverged_those_left_show_no_equality(true_world: dict[str, Tables]) -> None:
    def diverged(runs: pd.DataFrame) -> pd.DataFrame:
        runs = with_seven_rounds(runs)
        runs.loc[(runs["round"] == 7) & (runs["strategy"] == "htm"), ["status", "reason"]] = ["failed", DIVERGED]
        return runs

    finding = verdict_of(SPEED, true_world, diverged).finding
    assert (finding.verdict, finding.more_rounds) == ("inconclusive", None)
    assert "it holds of those left, but what diverged may differ" in finding.why


def test_resumed_rounds_are_told(true_world: dict[str, Tables]) -> None:
    verdict = verdict_of(
        SPEED, true_world, lambda runs: runs.assign(resumed=(runs["round"] == 2) & (runs["threads"] > 2))
    )
    assert verdict.finding.verdict == "holds here"
    assert ", 1 round interrupted and resumed in another process: " in verdict.finding.why
    assert verdict.as_json()["runs"]["resumed"] == 21


def test_a_spread_of_equal_seeds_needs_two_trials_in_a_round(claims_db: Connection) -> None:
    name = "distributed-not-deterministic"
    set_world(claims_db, CLAIMS, CLAIMS.claims[name], "holds")
    tables = load(claims_db, experiments(only(name)))
    assert verdict_of(name, tables, lambda runs: runs).finding.verdict == "holds here"
    alone = verdict_of(name, tables, lambda runs: runs[runs["repeat"] == 1]).finding
    assert (alone.verdict, alone.numbers) == ("untested here", [])
    same = verdict_of(name, tables, lambda runs: runs.assign(final_accuracy=0.5)).finding
    assert same.verdict == "does not hold here"


def test_runs_with_other_steps_per_worker_say_nothing_about_equal_steps(claims_db: Connection) -> None:
    """Runs with as many steps in all are of the same experiment, and have the same number for one worker."""
    name = "distributed-two-workers-learn-more"
    set_world(claims_db, CLAIMS, CLAIMS.claims[name], "holds")
    tables = load(claims_db, experiments(only(name)))
    finding = verdict_of(name, tables, lambda runs: runs).finding
    assert finding.verdict == "holds here"
    assert {*finding.runs[0]["threads"]} == {1, 2}
    in_all = verdict_of(name, tables, lambda runs: runs[runs["iterations"] == 1200]).finding
    assert in_all.verdict == "untested here"
    assert "1200 steps per worker has no run with a number of workers that it is about" in in_all.why
