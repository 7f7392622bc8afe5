"""What would decide an open claim, the number that determines the verdict, and the chart of a check."""

from __future__ import annotations

import pandas as pd
import pytest
from sqlalchemy import Connection

from tests.support.claim_worlds import CLAIMS, COMMITS, SPEED, World, by_name, only, set_world, verdict_of
from tmflow.claims import chart
from tmflow.claims.origins import Judged, experiments
from tmflow.claims.render import needed_evidence
from tmflow.claims.tables import Tables, load
from tmflow.claims.verdict import in_words


def judged(connection: Connection, name: str, world: World, evidence: str = "measured") -> Judged:
    set_world(connection, CLAIMS, CLAIMS.claims[name], world)
    return by_name(only(name), load(connection, experiments(only(name))))[name, evidence]


def test_what_is_decided_needs_nothing_and_what_is_open_so_many_rounds(
    claims_db: Connection, true_world: dict[str, Tables]
) -> None:
    assert needed_evidence(judged(claims_db, SPEED, "holds")).startswith("It is decided on this machine")
    assert needed_evidence(judged(claims_db, SPEED, "fails")).startswith("It is decided on this machine")
    begun = verdict_of(SPEED, true_world, lambda runs: runs[runs["round"] <= 4])
    assert needed_evidence(begun) == "At least 2 more rounds on this machine: a verdict needs 6."


def test_a_small_machine_needs_hardware_threads_and_a_missing_one_its_transactions(
    claims_db: Connection, true_world: dict[str, Tables]
) -> None:
    set_world(claims_db, CLAIMS, CLAIMS.claims["softmax-near-linear"], "holds")
    tables = load(claims_db, ["fig-4.1"])
    small = verdict_of("softmax-near-linear", tables, lambda runs: runs.assign(hardware_threads=4))
    assert "on a machine with at least 16 hardware threads" in needed_evidence(small)
    without = verdict_of(SPEED, true_world, lambda runs: runs.assign(tm_capability="none"))
    assert (
        needed_evidence(without)
        == "Measured runs of fig-4.1 at full scale with all compared configurations, on a machine with Intel's "
        "transactions (RTM) with at least 16 hardware threads."
    )
    refused = by_name(only(SPEED), true_world)[SPEED, "emulated"]
    assert needed_evidence(refused) == "No emulated run can decide it: the claim requires measured and simulated runs."


def test_what_failed_is_not_decided_by_more_rounds(true_world: dict[str, Tables]) -> None:
    def ended(runs: pd.DataFrame) -> pd.DataFrame:
        lost = (runs["threads"] == 48) & (runs["strategy"] == "htm")
        return runs.assign(
            status=runs["status"].mask(lost, "failed"), loop_s=runs["loop_s"].mask(lost), reason="it crashed"
        )

    judgement = verdict_of(SPEED, true_world, ended)
    assert judgement.finding.verdict == "inconclusive"
    assert needed_evidence(judgement).startswith("More rounds on this machine would not decide it")


def test_the_deciding_number_is_the_one_furthest_out(claims_db: Connection) -> None:
    finding = judged(claims_db, SPEED, "fails").finding
    assert finding.decides in finding.numbers
    assert finding.decides is not None
    assert finding.decides["what"].endswith("on average")
    assert max(finding.decides["estimate"], 1 / finding.decides["estimate"]) > 1.1
    assert in_words(finding.decides).endswith("claimed 0.909 to 1.1")
    assert [judgement.verdict for judgement in finding.checks] == ["does not hold here"]


@pytest.mark.parametrize(("name", "unit"), [(SPEED, "Ratio"), (COMMITS, "Share")])
def test_a_chart_of_a_check_has_its_numbers_and_what_is_claimed(claims_db: Connection, name: str, unit: str) -> None:
    judgement = judged(claims_db, name, "fails")
    (check,) = judgement.finding.checks
    figure = chart.figure(judgement, check, "A title", "abcd1234")
    spec = figure.spec()
    rows = [row for data in spec["datasets"].values() for row in data]
    assert {row["estimate"] for row in rows} == {number["estimate"] for number in check.numbers}
    assert figure.summary["claimed_high"].tolist() == [number["claimed_high"] for number in check.numbers]
    domains = [layer["encoding"]["x"]["scale"]["domain"] for layer in spec["layer"]]
    low, high = domains[0]
    assert domains == [[low, high]] * len(domains)
    assert all(low < row["estimate"] < high for row in rows)
    assert all(low <= row["from"] < row["to"] <= high for row in rows)
    assert spec["layer"][0]["encoding"]["x"]["title"] == unit
    assert "does not hold here" in figure.caption.text
    assert "6 rounds" in figure.caption.text
    assert "database revision abcd1234" in figure.caption.text
