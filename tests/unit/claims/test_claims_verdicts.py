"""Every claim of data/claims.yaml is reproduced if it holds, contradicted if it fails, and open at its bound."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from sqlalchemy import Connection

from tests.support.claim_worlds import CLAIMS, COMMITS, SPEED, Change, World, by_name, only, set_world, verdict_of
from tmflow.base.canonical_json import sha256_of
from tmflow.claims.origins import experiments
from tmflow.claims.schema import Claims, check_claims
from tmflow.claims.selection import Tables, load

EXPECTED: dict[World, str] = {"holds": "reproduced", "fails": "contradicted", "borderline": "inconclusive"}


@pytest.mark.parametrize("world", EXPECTED)
@pytest.mark.parametrize("name", CLAIMS.claims)
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
        (lambda runs: runs, "reproduced", "6 rounds at 1, 2, 16, 26 and 48 workers (2017 study: up to 64)"),
        (lambda runs: runs[:0], "untested", "There is no measured run of fig-4.1 on a machine with Intel's transac"),
        (lambda runs: runs.assign(scale="quick"), "untested", "There are only runs that are quick"),
        (lambda runs: runs.assign(dataset="digits"), "untested", "of other data than MNIST"),
        (lambda runs: runs.assign(tm_capability="none"), "untested", "It needs a machine with Intel's transactions"),
        (
            lambda runs: runs[runs["round"] < 6],
            "inconclusive",
            "a verdict needs 6 rounds, so at least 1 more are needed",
        ),
        (
            lambda runs: runs[runs["strategy"] != "htm"],
            "untested",
            "HTM in fig-4.1, matrix 784 has no run with a result",
        ),
        (
            lambda runs: runs.assign(hardware_threads=1),
            "untested",
            "6 rounds at 1 worker (2017 study: up to 64): it hol",
        ),
        (
            lambda runs: runs[runs["threads"] > 1].assign(hardware_threads=1),
            "untested",
            "oversubscribed ones say nothing",
        ),
        (
            lambda runs: runs.assign(hardware_threads=pd.array([pd.NA] * len(runs), "Int64")),
            "untested",
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
    assert of_time.finding.verdict == "untested"
    assert "an emulated run shows no time" in of_time.finding.why
    assert of_time.finding.numbers == []
    assert verdict_of(COMMITS, true_world, lambda runs: runs, "emulated").finding.verdict == "reproduced"


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
        other.loc[other["strategy"] == "htm", "loop_s"] *= 2
        return pd.concat([runs, other])

    verdict = verdict_of(SPEED, true_world, half_elsewhere)
    assert verdict.finding.verdict == "reproduced"
    assert verdict.machine is not None
    assert "64 hardware threads" in verdict.machine
    assert verdict.elsewhere == {"Another (other), 32 hardware threads": "contradicted"}
    without = verdict_of(
        SPEED, true_world, lambda runs: half_elsewhere(runs).query("platform == 'other' or threads > 64")
    )
    assert (without.finding.verdict, without.elsewhere) == ("contradicted", {})


def test_variants_are_not_pooled(true_world: dict[str, Tables]) -> None:
    def two_budgets(runs: pd.DataFrame) -> pd.DataFrame:
        runs.loc[(runs["strategy"] == "htm") & (runs["round"] > 3), "budget"] = 7
        return runs

    finding = verdict_of(SPEED, true_world, two_budgets).finding
    assert finding.verdict == "untested"
    assert "is several variants (budget 5 and 7), of which the claim must name one" in finding.why


def test_curves_without_a_round_in_common_decide_nothing(true_world: dict[str, Tables]) -> None:
    """Each number of workers has a round, but none has all."""
    finding = verdict_of(SPEED, true_world, lambda runs: runs[runs["round"] == runs["threads"].map({1: 1, 2: 2})])
    assert finding.finding.verdict == "untested"
    assert "no round has all of 1 and 2 workers" in finding.finding.why


def test_a_small_machine_can_contradict_a_claim_of_every_number_of_workers_but_not_reproduce_it(
    claims_db: Connection,
) -> None:
    linear, doubled = only("softmax-near-linear"), only("deep-htm-double")

    def on_two(claims: Claims) -> tuple[str, str]:
        (name,) = claims.claims
        tables = load(claims_db, experiments(claims))
        finding = verdict_of(name, tables, lambda runs: runs.assign(hardware_threads=2)).finding
        return finding.verdict, finding.why

    for claims in (linear, doubled):
        (claim,) = claims.claims.values()
        set_world(claims_db, CLAIMS, claim, "holds")
        verdict, why = on_two(claims)
        assert verdict == "untested"
        assert "holds so far, but it is about more workers: a machine with" in why
        set_world(claims_db, CLAIMS, claim, "fails")
    assert on_two(linear)[0] == "contradicted"
    assert on_two(doubled)[0] == "untested"


def test_one_check_that_fails_is_enough_and_one_without_runs_is_not(claims_db: Connection) -> None:
    name = "htm-pays-with-no-other-batches"
    claims = only(name)
    set_world(claims_db, CLAIMS, CLAIMS.claims[name], "fails")
    tables = load(claims_db, experiments(claims))

    def missing(runs: pd.DataFrame) -> pd.DataFrame:
        return runs[runs["batch"] != 15]

    assert verdict_of(name, tables, missing).finding.verdict == "contradicted"
    set_world(claims_db, CLAIMS, CLAIMS.claims[name], "holds")
    finding = verdict_of(name, load(claims_db, experiments(claims)), missing).finding
    assert finding.verdict == "untested"
    assert "fig-4.10, batch 15" in finding.why


def test_json_tells_the_runs_and_has_no_nan(true_world: dict[str, Tables]) -> None:
    def disturbed(runs: pd.DataFrame) -> pd.DataFrame:
        return runs[runs["round"] == 1].assign(disturbed=True)

    document = verdict_of(SPEED, true_world, disturbed).as_json()
    assert "(2017 study: up to 64), 15 of 15 runs disturbed" in document["why"]
    json.dumps(document, allow_nan=False)
    assert document["runs"] == {
        "n": 15,
        "disturbed": 15,
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
        "what": "Lock / HTM, 1 worker",
        "unit": "ratio",
        "estimate": 1.0,
        "low": None,
        "high": None,
        "rounds": 1,
        "claimed_low": 1 / 1.05,
        "claimed_high": 1.05,
    }


def test_a_check_that_says_nothing_of_these_workers_is_untested(true_world: dict[str, Tables]) -> None:
    knee = {"experiment": "fig-4.1", "where": {"matrix": 784}, "knee": {"of": ["Lock"], "at": 1}}
    raw = CLAIMS.claims[SPEED].model_dump(mode="json") | {"checks": [knee]}
    claims = check_claims({"configurations": CLAIMS.configurations, "claims": {"vacuous": raw}})
    finding = by_name(claims, true_world)["vacuous", "measured"].finding
    assert finding.verdict == "untested"
    assert "no run with a number of workers that it is about" in finding.why
