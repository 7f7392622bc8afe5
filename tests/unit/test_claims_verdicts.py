"""Every claim of data/claims.yaml is reproduced where it holds, contradicted where it fails, and open at its border."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sqlalchemy import URL, Connection

from tests.claim_worlds import World, set_world, world_runs
from tests.sample_runs import SOFTWARE
from tmflow.claims.judge import Judged, experiments, judge
from tmflow.claims.schema import Claims, check_claims, load_claims
from tmflow.claims.tables import Tables, load
from tmflow.errors import Diverged
from tmflow.runner import runfile
from tmflow.runner.runfile import CampaignRef
from tmflow.spec import sha256_of
from tmflow.store import address, engine
from tmflow.store.ingest import ingest

CLAIMS = load_claims()
EXPECTED: dict[World, str] = {"holds": "reproduced", "fails": "contradicted", "borderline": "inconclusive"}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """A run for each round of each point that a claim looks at."""
    folder = tmp_path_factory.mktemp("claims")
    runfile.write(folder / "runs.jsonl", world_runs(CLAIMS))
    url = address.sqlite_url(folder / "study.db")
    ingest(url, [folder / "runs.jsonl"])
    return url


@pytest.fixture
def connection(database: URL) -> Iterator[Connection]:
    """A transaction whose changes are seen in it alone, and undone at the end."""
    with engine.open_writer(database).connect() as connection:
        yield connection
        connection.rollback()


def judged(connection: Connection, claims: Claims) -> dict[tuple[str, str], Judged]:
    return by_name(claims, load(connection, experiments(claims)))


def by_name(claims: Claims, tables: Mapping[str, Tables]) -> dict[tuple[str, str], Judged]:
    return {(verdict.id, verdict.evidence): verdict for verdict in judge(claims, tables)}


def only(name: str) -> Claims:
    return CLAIMS.model_copy(update={"claims": {name: CLAIMS.claims[name]}})


@pytest.mark.parametrize("world", EXPECTED)
@pytest.mark.parametrize("name", CLAIMS.claims)
def test_the_verdict_flips_with_the_world(connection: Connection, name: str, world: World) -> None:
    claim = CLAIMS.claims[name]
    set_world(connection, CLAIMS, claim, world)
    verdicts = judged(connection, only(name))
    for kind in {"measured", "emulated"} & set(claim.evidence):
        finding = verdicts[name, kind].finding
        assert finding.verdict == EXPECTED[world], finding.why
        assert (finding.more_rounds is not None) <= (world == "borderline")
        assert {number["rounds"] for number in finding.numbers} == {6}


SPEED, COMMITS = "softmax-same-speed", "softmax-few-commits"
Change = Callable[[pd.DataFrame], pd.DataFrame]


@pytest.fixture(scope="module")
def true_world(database: URL) -> dict[str, Tables]:
    """The tables of a world in which the claims of fig-4.1 hold."""
    with engine.open_writer(database).connect() as connection:
        for name in (SPEED, COMMITS):
            set_world(connection, CLAIMS, CLAIMS.claims[name], "holds")
        tables = load(connection, experiments(only(SPEED)))
        connection.rollback()
    return tables


def verdict_of(name: str, tables: Mapping[str, Tables], change: Change, evidence: str = "measured") -> Judged:
    changed = {experiment: replace(its, runs=change(its.runs.copy())) for experiment, its in tables.items()}
    return by_name(only(name), changed)[name, evidence]


@pytest.mark.parametrize(
    ("change", "verdict", "why"),
    [
        (lambda runs: runs, "reproduced", "6 rounds at 1, 2, 16, 26 and 48 workers (its source: up to 64)"),
        (lambda runs: runs[:0], "untested", "There is no measured run of fig-4.1 on a machine with Intel's transac"),
        (lambda runs: runs.assign(scale="quick"), "untested", "There are only runs that are quick"),
        (lambda runs: runs.assign(dataset="digits"), "untested", "of other data than MNIST"),
        (lambda runs: runs.assign(tm_capability="none"), "untested", "It needs a machine with Intel's transactions"),
        (lambda runs: runs[runs["round"] < 6], "inconclusive", "fewer than 6 rounds, so at least 1 more are needed"),
        (
            lambda runs: runs[runs["strategy"] != "htm"],
            "untested",
            "HTM in fig-4.1, matrix 784 has no run with a result",
        ),
        (
            lambda runs: runs.assign(hardware_threads=1),
            "untested",
            "6 rounds at 1 worker (its source: up to 64): it hol",
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
        """As if emulated runs told their time, and all of them."""
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


OLD, NEW = "tmflow 0.1.0 at 0000000000", "tmflow 0.2.0 at 1111111111"


def again(runs: pd.DataFrame, rounds: int, htm: float = 2.0, **changes: str) -> pd.DataFrame:
    """The runs, and later ones that differ in `changes`, of so many rounds, in which HTM takes `htm` times as long."""
    later = runs[runs["round"] <= rounds].assign(
        uid=lambda its: its["uid"] + "-later", campaign_uid="later", started_at_utc="2026-02-01T00:00:00.000Z", **changes
    )
    later.loc[later["strategy"] == "htm", "loop_s"] *= htm
    return pd.concat([runs.assign(software=OLD), later], ignore_index=True)


@pytest.mark.parametrize("changes", [{"software": NEW}, {"software": OLD, "definition_sha256": "e" * 64}])
def test_the_newest_software_and_definition_with_six_rounds_speak_and_the_others_are_told(
    true_world: dict[str, Tables], changes: dict[str, str]
) -> None:
    newest = verdict_of(SPEED, true_world, lambda runs: again(runs, 6, **changes))
    assert newest.finding.verdict == "contradicted"
    assert f"Of fig-4.1 these are 6 rounds by {changes['software']}" in newest.finding.why
    assert f"left out, as never pooled with them: 6 rounds by {OLD}" in newest.finding.why
    assert {number["rounds"] for number in newest.finding.numbers} == {6}
    begun = verdict_of(SPEED, true_world, lambda runs: again(runs, 5, **changes))
    assert begun.finding.verdict == "reproduced"
    assert f"Of fig-4.1 these are 6 rounds by {OLD}" in begun.finding.why
    assert f"left out, as never pooled with them: 5 rounds by {changes['software']}" in begun.finding.why
    told = begun.as_json()
    (left_out,) = told["left_out"]
    assert left_out.items() >= {"experiment": "fig-4.1", "rounds": 5, "software": changes["software"]}.items()
    assert {of["software"] for of in told["runs"]["of"]} == {OLD}


def test_a_study_that_another_software_went_on_with_has_too_few_rounds_of_either(true_world: dict[str, Tables]) -> None:
    def updated(runs: pd.DataFrame) -> pd.DataFrame:
        return runs.assign(software=runs["round"].gt(3).map({False: OLD, True: NEW}))

    finding = verdict_of(SPEED, true_world, updated).finding
    assert (finding.verdict, finding.more_rounds) == ("inconclusive", 3)
    assert f"these are 3 rounds by {NEW}; left out, as never pooled with them: 3 rounds by {OLD}." in finding.why


def test_campaigns_of_the_same_software_and_definition_are_one_sample(true_world: dict[str, Tables]) -> None:
    verdict = verdict_of(SPEED, true_world, lambda runs: again(runs, 6, htm=1.0, software=OLD))
    assert (verdict.finding.verdict, verdict.left_out) == ("reproduced", [])
    assert {number["rounds"] for number in verdict.finding.numbers} == {12}
    assert {of["campaign"] for of in verdict.as_json()["runs"]["of"]} == {"campaign-rtm", "later"}


def test_a_database_tells_software_and_definitions_apart(tmp_path: Path) -> None:
    """From run files to the verdict: what another commit measured, or another definition, is left out."""
    runs = world_runs(only(COMMITS))
    changed = {"anything": "else"}
    others: dict[str, dict[str, Any]] = {
        "commit": {"software": SOFTWARE.model_copy(update={"git_commit": "1" * 40})},
        "definition": {
            "experiment": runs[0].experiment.model_copy(
                update={"definition": changed, "definition_sha256": sha256_of(changed)}
            )
        },
    }
    for campaign, its in others.items():
        ref = CampaignRef(uid=campaign, created_at_utc="2026-02-01T00:00:00.000Z")
        path = tmp_path / f"{campaign}.jsonl"
        runfile.write(path, [r.model_copy(update={"uid": f"{r.uid}-{campaign}", "campaign": ref} | its) for r in runs])
    runfile.write(tmp_path / "runs.jsonl", runs)
    url = address.sqlite_url(tmp_path / "study.db")
    ingest(url, sorted(tmp_path.glob("*.jsonl")))
    (verdict,) = judge(only(COMMITS), load(engine.open_reader(url), ["fig-4.1"]), "measured")
    told = verdict.as_json()
    (used,) = told["runs"]["of"]
    assert len(used["rounds"]) == 6
    assert {its["rounds"] for its in told["left_out"]} == {6}
    assert {(its["definition"], its["software"]) for its in [used, *told["left_out"]]} == {
        (sha256_of({}), "tmflow 0.1.0 at 0000000000"),
        (sha256_of({}), "tmflow 0.1.0 at 1111111111"),
        (sha256_of(changed), "tmflow 0.1.0 at 0000000000"),
    }


def test_variants_are_not_pooled(true_world: dict[str, Tables]) -> None:
    def two_budgets(runs: pd.DataFrame) -> pd.DataFrame:
        runs.loc[(runs["strategy"] == "htm") & (runs["round"] > 3), "budget"] = 7
        return runs

    finding = verdict_of(SPEED, true_world, two_budgets).finding
    assert finding.verdict == "untested"
    assert "is several variants (budget 5 and 7), of which the claim must name one" in finding.why


def test_what_could_not_run_is_told(true_world: dict[str, Tables]) -> None:
    def unsupported(runs: pd.DataFrame) -> pd.DataFrame:
        runs.loc[runs["strategy"] == "htm", ["status", "reason"]] = ["unsupported", "RTM is off"]
        return runs

    finding = verdict_of(SPEED, true_world, unsupported).finding
    assert (finding.verdict, finding.why) == (
        "untested",
        "HTM in fig-4.1, matrix 784 has no run with a result (unsupported: RTM is off).",
    )


def test_where_runs_failed_those_left_reproduce_nothing(true_world: dict[str, Tables]) -> None:
    """What failed may be what differed, whether enough rounds are left of that number of workers or not."""

    def timed_out(first_round: int, seven_rounds: bool) -> Change:
        def change(runs: pd.DataFrame) -> pd.DataFrame:
            runs = with_seven_rounds(runs) if seven_rounds else runs
            late = (runs["threads"] == 48) & (runs["strategy"] == "htm") & (runs["round"] >= first_round)
            runs.loc[late, ["status", "reason"]] = ["timeout", "too long"]
            return runs

        return change

    of_five = verdict_of(SPEED, true_world, timed_out(2, False)).finding
    assert of_five.verdict == "inconclusive"
    assert "6 rounds at 1, 2, 16 and 26 workers" in of_five.why
    assert "48 workers: 1 of 6 rounds" in of_five.why
    assert "5 of its 90 runs failed (timeout: too long)" in of_five.why
    of_one = verdict_of(SPEED, true_world, timed_out(7, True)).finding
    assert (of_one.verdict, of_one.more_rounds) == ("inconclusive", None)
    assert "1 of its 105 runs failed (timeout: too long)" in of_one.why


BELOW = "deep-not-acceptable"
DIVERGED = f"{Diverged.__name__}: the weights are not finite numbers"


def with_seven_rounds(runs: pd.DataFrame) -> pd.DataFrame:
    seventh = runs[runs["round"] == 6].assign(round=7, uid=lambda its: its["uid"] + "-7")
    return pd.concat([runs, seventh], ignore_index=True)


@pytest.mark.parametrize(
    ("rounds", "status", "reason", "verdict", "more", "why"),
    [
        ([7], "failed", DIVERGED, "reproduced", None, "2 of its 70 runs diverged and have no accuracy and no time: "),
        ([7], "failed", "RuntimeError: boom", "inconclusive", None, "it holds of those left, but what failed may diff"),
        ([7], "timeout", "too long", "inconclusive", None, "2 of its 70 runs failed (timeout: too long)"),
        ([1, 2, 3], "failed", DIVERGED, "inconclusive", 2, "too few are left at 48 workers, and at least 2 more rounds"),
        (range(8), "failed", DIVERGED, "inconclusive", 6, "too few are left at 48 workers, and at least 6 more rounds"),
    ],
    ids=["diverged", "crashed", "hung", "half of them diverged", "all diverged"],
)
def test_a_claim_of_low_accuracy_is_judged_from_the_runs_that_have_one(
    connection: Connection, rounds: Sequence[int], status: str, reason: str, verdict: str, more: int | None, why: str
) -> None:
    """What diverged is told apart, and agrees with nothing; of what crashed nobody knows what it would have been."""
    set_world(connection, CLAIMS, CLAIMS.claims[BELOW], "holds")

    def ended(runs: pd.DataFrame) -> pd.DataFrame:
        runs = with_seven_rounds(runs)
        runs.loc[(runs["threads"] == 48) & runs["round"].isin(rounds), ["status", "reason"]] = [status, reason]
        return runs

    finding = verdict_of(BELOW, load(connection, experiments(only(BELOW))), ended).finding
    assert (finding.verdict, finding.more_rounds) == (verdict, more), finding.why
    assert why in finding.why


def test_those_left_contradict_a_claim_of_low_accuracy(connection: Connection) -> None:
    set_world(connection, CLAIMS, CLAIMS.claims[BELOW], "fails")

    def diverged(runs: pd.DataFrame) -> pd.DataFrame:
        runs.loc[runs["threads"] == 48, ["status", "reason"]] = ["failed", DIVERGED]
        return runs

    finding = verdict_of(BELOW, load(connection, experiments(only(BELOW))), diverged).finding
    assert finding.verdict == "contradicted"
    assert "12 of its 60 runs diverged" in finding.why
    assert "without 48 workers: 0 of 6 rounds" in finding.why


def test_a_share_is_that_of_its_own_rounds_and_no_others(connection: Connection) -> None:
    """Lock lacks one round and NoLock another: six are left of each, though only five of both."""
    set_world(connection, CLAIMS, CLAIMS.claims[BELOW], "holds")

    def diverged(runs: pd.DataFrame) -> pd.DataFrame:
        runs = with_seven_rounds(runs)
        of = runs["strategy"].map({"tf_lock": 7, "tf_nolock": 1})
        runs.loc[runs["round"] == of, ["status", "reason"]] = ["failed", DIVERGED]
        return runs

    finding = verdict_of(BELOW, load(connection, experiments(only(BELOW))), diverged).finding
    assert finding.verdict == "reproduced", finding.why
    assert {number["rounds"] for number in finding.numbers} == {6}
    assert "10 of its 70 runs diverged" in finding.why


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
    assert verdict.finding.verdict == "reproduced"
    assert ", 1 round interrupted and resumed in another process: " in verdict.finding.why
    assert verdict.as_json()["runs"]["resumed"] == 9


def test_curves_without_a_round_in_common_decide_nothing(true_world: dict[str, Tables]) -> None:
    """Each number of workers has a round, but none has all."""
    finding = verdict_of(SPEED, true_world, lambda runs: runs[runs["round"] == runs["threads"].map({1: 1, 2: 2})])
    assert finding.finding.verdict == "untested"
    assert "no round has all of 1 and 2 workers" in finding.finding.why


def test_a_small_machine_can_contradict_a_claim_of_every_number_of_workers_but_not_reproduce_it(
    connection: Connection,
) -> None:
    linear, doubled = only("softmax-near-linear"), only("deep-htm-double")

    def on_two(claims: Claims) -> tuple[str, str]:
        (name,) = claims.claims
        tables = load(connection, experiments(claims))
        finding = verdict_of(name, tables, lambda runs: runs.assign(hardware_threads=2)).finding
        return finding.verdict, finding.why

    for claims in (linear, doubled):
        (claim,) = claims.claims.values()
        set_world(connection, CLAIMS, claim, "holds")
        verdict, why = on_two(claims)
        assert verdict == "untested"
        assert "holds so far, but it is about more workers: a machine with" in why
        set_world(connection, CLAIMS, claim, "fails")
    assert on_two(linear)[0] == "contradicted"
    assert on_two(doubled)[0] == "untested"


def test_one_check_that_fails_is_enough_and_one_without_runs_is_not(connection: Connection) -> None:
    name = "htm-pays-with-no-other-batches"
    claims = only(name)
    set_world(connection, CLAIMS, CLAIMS.claims[name], "fails")
    tables = load(connection, experiments(claims))

    def missing(runs: pd.DataFrame) -> pd.DataFrame:
        return runs[runs["batch"] != 15]

    assert verdict_of(name, tables, missing).finding.verdict == "contradicted"
    set_world(connection, CLAIMS, CLAIMS.claims[name], "holds")
    finding = verdict_of(name, load(connection, experiments(claims)), missing).finding
    assert finding.verdict == "untested"
    assert "fig-4.10, batch 15" in finding.why


def test_json_tells_the_runs_and_has_no_nan(true_world: dict[str, Tables]) -> None:
    def disturbed(runs: pd.DataFrame) -> pd.DataFrame:
        return runs[runs["round"] == 1].assign(disturbed=True)

    told = verdict_of(SPEED, true_world, disturbed).as_json()
    assert "(its source: up to 64), 15 of 15 runs disturbed" in told["why"]
    json.dumps(told, allow_nan=False)
    assert told["runs"] == {
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
    assert told["left_out"] == []
    assert told["numbers"][0] | {"estimate": 1.0} == {
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
