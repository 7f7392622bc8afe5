"""Every claim holds in a world where it is true, fails where it is false, and is open at its bound."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from sqlalchemy import Connection

from tests.support.claim_worlds import CLAIMS, COMMITS, SPEED, Change, World, by_name, only, set_world, verdict_of
from tmflow.base.canonical_json import sha256_of
from tmflow.claims.origins import experiments, judge
from tmflow.claims.render import count_verdicts, needed_evidence
from tmflow.claims.schema import check_claims
from tmflow.claims.tables import Tables, load

EXPECTED: dict[World, str] = {"holds": "holds here", "fails": "does not hold here", "borderline": "inconclusive"}


@pytest.mark.parametrize("world", EXPECTED)
@pytest.mark.parametrize("name", [name for name, claim in CLAIMS.claims.items() if claim.checks])
def test_the_verdict_flips_with_the_world(claims_db: Connection, name: str, world: World) -> None:
    claim = CLAIMS.claims[name]
    set_world(claims_db, CLAIMS, claim, world)
    verdicts = by_name(only(name), load(claims_db, experiments(only(name))))
    for kind in {"measured", "emulated"} & set(claim.evidence):
        finding = verdicts[name, kind].finding
        assert finding.verdict == EXPECTED[world], finding.why
        assert (finding.more_rounds is not None) <= (world == "borderline")
        assert {number["rounds"] for number in finding.numbers} == {6}


@pytest.mark.parametrize(
    ("change", "verdict", "why"),
    [
        (
            lambda runs: runs,
            "holds here",
            "6 rounds at 1, 2, 15, 16, 26, 34, 48, 55 and 64 workers (2017 study: up to 64)",
        ),
        (
            lambda runs: runs[:0],
            "untested here",
            "There is no measured run of fig-4.1 on a machine with Intel's transac",
        ),
        (lambda runs: runs.assign(scale="quick"), "untested here", "There are only runs that are quick"),
        (lambda runs: runs.assign(dataset="digits"), "untested here", "of other data than MNIST"),
        (
            lambda runs: runs.assign(tm_capability="none"),
            "untested here",
            "It needs a machine with Intel's transactions",
        ),
        (
            lambda runs: runs[runs["round"] < 6],
            "inconclusive",
            "a verdict needs 6 rounds, so at least 1 more are needed",
        ),
        (
            lambda runs: runs[runs["strategy"] != "htm"],
            "untested here",
            "HTM in fig-4.1, matrix 784 has no run with a result",
        ),
        (
            lambda runs: runs.assign(hardware_threads=1),
            "untested here",
            "need runs of one worker and of several for a speedup",
        ),
        (
            lambda runs: runs[runs["threads"] > 1].assign(hardware_threads=1),
            "untested here",
            "oversubscribed ones say nothing",
        ),
        (
            lambda runs: runs.assign(hardware_threads=pd.array([pd.NA] * len(runs), "Int64")),
            "untested here",
            "oversubscribed ones say nothing",
        ),
    ],
)
def test_what_may_decide(true_world: dict[str, Tables], change: Change, verdict: str, why: str) -> None:
    finding = verdict_of(SPEED, true_world, change).finding
    assert finding.verdict == verdict
    assert why in finding.why
    assert finding.more_rounds == (1 if verdict == "inconclusive" else None)


def test_emulated_runs_decide_about_commits_and_never_about_time(true_world: dict[str, Tables]) -> None:
    def emulated(runs: pd.DataFrame) -> pd.DataFrame:
        """All runs as if they were emulated, with times."""
        return runs.assign(evidence="emulated", profile="intel-tsx-study", provider="emulated")

    of_time = verdict_of(SPEED, true_world, emulated, "emulated")
    assert of_time.finding.verdict == "untested here"
    assert "an emulated run shows no time" in of_time.finding.why
    assert of_time.finding.numbers == []
    assert verdict_of(COMMITS, true_world, lambda runs: runs, "emulated").finding.verdict == "holds here"


def test_evidence_is_not_pooled(true_world: dict[str, Tables]) -> None:
    def half_simulated(runs: pd.DataFrame) -> pd.DataFrame:
        runs.loc[(runs["round"] > 3) & (runs["evidence"] == "measured"), "evidence"] = "simulated"
        return runs

    for kind in ("measured", "simulated"):
        finding = verdict_of(SPEED, true_world, half_simulated, kind).finding
        assert (finding.verdict, finding.more_rounds) == ("inconclusive", 3)


def test_machines_are_not_pooled_and_the_largest_speaks(true_world: dict[str, Tables]) -> None:
    def half_elsewhere(runs: pd.DataFrame) -> pd.DataFrame:
        other = runs.assign(platform="other", platform_name="Another", hardware_threads=32, uid=runs["uid"] + "-other")
        other.loc[(other["strategy"] == "htm") & (other["threads"] > 1), "loop_s"] *= 2
        return pd.concat([runs, other])

    verdict = verdict_of(SPEED, true_world, half_elsewhere)
    assert verdict.finding.verdict == "holds here"
    assert verdict.machine is not None
    assert "64 hardware threads" in verdict.machine
    assert verdict.elsewhere == {"Another (other), 32 hardware threads": "does not hold here"}
    without = verdict_of(
        SPEED, true_world, lambda runs: half_elsewhere(runs).query("platform == 'other' or threads > 64")
    )
    assert (without.finding.verdict, without.elsewhere) == ("does not hold here", {})


def test_variants_are_not_pooled(true_world: dict[str, Tables]) -> None:
    def two_budgets(runs: pd.DataFrame) -> pd.DataFrame:
        runs.loc[(runs["strategy"] == "htm") & (runs["round"] > 3), "budget"] = 7
        return runs

    finding = verdict_of(SPEED, true_world, two_budgets).finding
    assert finding.verdict == "untested here"
    assert "is several variants (budget 5 and 7), of which the claim must name one" in finding.why


def test_curves_without_a_round_in_common_decide_nothing(true_world: dict[str, Tables]) -> None:
    """Each number of workers has a round, but none has all."""
    finding = verdict_of(SPEED, true_world, lambda runs: runs[runs["round"] == runs["threads"].map({1: 1, 2: 2})])
    assert finding.finding.verdict == "untested here"
    assert "no round has all of 1 and 2 workers" in finding.finding.why


@pytest.mark.parametrize("world", ["holds", "fails"])
@pytest.mark.parametrize("name", ["softmax-near-linear", "deep-htm-double", "stm-far-slower"])
def test_below_its_reach_a_claim_is_untested_and_what_was_seen_is_said(
    claims_db: Connection, name: str, world: World
) -> None:
    claim = CLAIMS.claims[name]
    set_world(claims_db, CLAIMS, claim, world)
    tables = load(claims_db, experiments(only(name)))
    finding = verdict_of(name, tables, lambda runs: runs.assign(hardware_threads=2)).finding
    assert finding.verdict == "untested here"
    seen = {"holds": "it holds so far", "fails": "it does not hold so far"}[world]
    assert f"{seen}, but it is about more workers: a machine with {claim.reach} hardware threads is nee" in finding.why
    assert finding.numbers


def test_one_check_that_fails_is_enough_and_one_without_runs_is_not(claims_db: Connection) -> None:
    name = "htm-pays-with-no-other-batches"
    claims = only(name)
    set_world(claims_db, CLAIMS, CLAIMS.claims[name], "fails")
    tables = load(claims_db, experiments(claims))

    def missing(runs: pd.DataFrame) -> pd.DataFrame:
        return runs[runs["batch"] != 15]

    assert verdict_of(name, tables, missing).finding.verdict == "does not hold here"
    set_world(claims_db, CLAIMS, CLAIMS.claims[name], "holds")
    finding = verdict_of(name, load(claims_db, experiments(claims)), missing).finding
    assert finding.verdict == "untested here"
    assert "fig-4.10, batch 15" in finding.why


def test_json_tells_the_runs_and_has_no_nan(true_world: dict[str, Tables]) -> None:
    def disturbed(runs: pd.DataFrame) -> pd.DataFrame:
        return runs[runs["round"] == 1].assign(disturbed=True)

    document = verdict_of(SPEED, true_world, disturbed).as_json()
    assert "(2017 study: up to 64), 27 of 27 runs disturbed" in document["why"]
    json.dumps(document, allow_nan=False)
    assert document["runs"] == {
        "n": 27,
        "disturbed": 27,
        "resumed": 0,
        "of": [
            {
                "experiment": "fig-4.1",
                "campaign": "campaign-rtm",
                "rounds": [1],
                "definition": sha256_of({}),
                "software": "tmflow 0.1.0 at 0000000000",
            }
        ],
    }
    assert document["left_out"] == []
    assert document["numbers"][0] | {"estimate": 1.0} == {
        "experiment": "fig-4.1, matrix 784",
        "what": "speedup of HTM / Lock on average",
        "unit": "ratio",
        "estimate": 1.0,
        "low": None,
        "high": None,
        "rounds": 1,
        "claimed_low": 1 / 1.1,
        "claimed_high": 1.1,
    }


def test_a_check_that_says_nothing_of_these_workers_is_untested(true_world: dict[str, Tables]) -> None:
    linear = {"experiment": "fig-4.1", "where": {"matrix": 784}, "sublinear": {"of": ["Lock"], "beyond": 1000}}
    raw = CLAIMS.claims[SPEED].model_dump(mode="json", exclude_none=True) | {"checks": [linear]}
    claims = check_claims({"configurations": CLAIMS.configurations, "claims": {"vacuous": raw}})
    finding = by_name(claims, true_world)["vacuous", "measured"].finding
    assert finding.verdict == "untested here"
    assert "no run with a number of workers that it is about" in finding.why


def test_a_finding_counts_once(true_world: dict[str, Tables]) -> None:
    """The reading of times is listed, and left out of the counts."""
    judged = judge(only(SPEED, f"{SPEED}-in-time"), true_world, "measured")
    assert [one.finding.verdict for one in judged] == ["holds here", "holds here"]
    assert count_verdicts(judged, "measured") == "1 holds here"


def test_what_cannot_be_tested_needs_no_run() -> None:
    judged = judge(only("tle-same-as-htm"), {})
    assert {(one.evidence, one.finding.verdict) for one in judged} == {
        ("measured", "cannot be tested"), ("simulated", "cannot be tested"),
    }  # fmt: skip
    assert "TensorFlow 2.21 locks with a mutex of its own" in judged[0].finding.why
    assert needed_evidence(judged[0]) == judged[0].claim.reason


def test_a_round_with_repeats_decides_with_the_average_of_each_point(true_world: dict[str, Tables]) -> None:
    """Geometric for speeds; repeats are no further rounds."""

    def repeated(runs: pd.DataFrame) -> pd.DataFrame:
        spread = ((1, 0.8), (2, 1.25))
        return pd.concat(
            [runs.assign(repeat=k, uid=runs["uid"] + f"-{k}", loop_s=runs["loop_s"] * f) for k, f in spread],
            ignore_index=True,
        )

    once, twice = (verdict_of(SPEED, true_world, change).finding for change in (lambda runs: runs, repeated))
    assert twice.verdict == once.verdict == "holds here"
    for number, expected in zip(twice.numbers, once.numbers, strict=True):
        assert number["rounds"] == expected["rounds"] == 6
        assert {name: number[name] for name in ("estimate", "low", "high")} == pytest.approx(
            {name: expected[name] for name in ("estimate", "low", "high")}
        )
