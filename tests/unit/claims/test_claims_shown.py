"""Verdicts as a table, a section of the report, and JSON; and the command that prints them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from tests.support.frames import run
from tmflow.claims.origins import Judged, experiments, judge
from tmflow.claims.render import WIDTH, as_text, section
from tmflow.claims.schema import Claims, check_claims, load_claims
from tmflow.claims.tables import Tables, load
from tmflow.cli import app
from tmflow.store import engine, schema

CLAIMS = check_claims(
    {
        "configurations": {"Lock": {"strategy": "tf_lock"}, "NoLock": {"strategy": "tf_nolock"}},
        "claims": {
            name: {
                "source": "figure <1>",
                "statement": "Lock & NoLock are equally fast.",
                "hardware": "any",
                "studied_to": 64,
                "reach": 2,
                "evidence": ["measured", "simulated"],
                "checks": [
                    {
                        "experiment": experiment,
                        "equivalent": {"of": ["Lock", "NoLock"], "contrast": "each", "metric": "time"},
                    }
                ],
                "explanation": "Nothing is <contended>.",
            }
            for name, experiment in (("same", "here"), ("elsewhere", "nowhere"))
        },
    }
)


HEADING = "Platform <box>: the runs that were ingested here."


@pytest.fixture
def tables() -> dict[str, Tables]:
    rows = [
        run(experiment="here", strategy=strategy, threads=w, round=number, loop_s=1 / w, tm_capability="none")
        for strategy in ("tf_lock", "tf_nolock")
        for w in (1, 2)
        for number in range(1, 7)
    ]
    runs = pd.DataFrame(rows).assign(software="tmflow 0.1.0")
    nothing = pd.DataFrame()
    return {"here": Tables(runs, *[nothing] * 4), "nowhere": Tables(runs[:0], *[nothing] * 4)}


def test_the_table_has_a_line_and_a_reason_for_each_verdict(tables: dict[str, Tables]) -> None:
    text = as_text(judge(CLAIMS, tables), HEADING)
    line = "holds here          same                                    measured      2  figure <1>"
    assert line in text.splitlines()
    assert "speed of NoLock / Lock, 2 workers 1.00 [1.00, 1.00], claimed 0.909 to 1.1" in " ".join(text.split())
    assert text.splitlines()[:2] == [HEADING, ""]
    assert "On A box (box-1), 4 hardware threads." in text
    assert "There is no measured run of nowhere." in text
    assert "measured: 1 holds here, 1 untested here" in text
    assert "No eligible run is simulated: `tmflow claims --evidence simulated` says what is needed." in text
    assert text.count("Nothing is <contended>.") == 1  # of the examined runs
    assert all(len(line) <= WIDTH == 100 for line in text.splitlines())


def test_briefly_it_is_one_line_for_each_verdict_and_the_counts(tables: dict[str, Tables]) -> None:
    judged = judge(CLAIMS, tables)
    brief, whole = (as_text(judged, HEADING, brief=how).splitlines()[2:] for how in (True, False))
    assert [line.split()[:3] for line in brief[2:4]] == [["holds", "here", "same"], ["untested", "here", "elsewhere"]]
    assert brief[4] == ""
    assert brief[5:] == whole[-2:]
    assert set(brief) < set(whole)


def test_a_kind_that_is_asked_for_is_told_in_full(tables: dict[str, Tables]) -> None:
    text = as_text(judge(CLAIMS, tables, "simulated"), HEADING)
    assert "There is no simulated run of here." in text
    assert "simulated: 2 untested here" in text
    assert "measured" not in text.replace("no measured", "")


def test_the_section_escapes_and_has_the_numbers(tables: dict[str, Tables]) -> None:
    page = section(judge(CLAIMS, tables), HEADING)
    assert page.startswith('<section class="claims">')
    assert "<p>Platform &lt;box&gt;: the runs that were ingested here.</p>" in page
    assert "Lock &amp; NoLock are equally fast." in page
    assert "figure &lt;1&gt;" in page
    assert "<contended>" not in page
    assert "<td>speed of NoLock / Lock, 2 workers</td><td>1.00 [1.00, 1.00]</td><td>0.909 to 1.1</td>" in page
    assert '<strong class="untested-here">untested here</strong>' in page
    assert "<li>measured: 1 holds here, 1 untested here.</li><li>No eligible run is simulated.</li>" in page
    assert page.count("On A box (box-1), 4 hardware threads.") == 1
    assert "<p>Background: Nothing is &lt;contended&gt;.</p>" in page


@pytest.fixture
def with_emulated(tables: dict[str, Tables]) -> list[Judged]:
    """Verdicts when there are runs with an evidence that no claim accepts."""
    runs = tables["here"].runs
    emulated = runs.assign(evidence="emulated", uid=runs["uid"] + "-emulated")
    judged = judge(CLAIMS, tables | {"here": replace(tables["here"], runs=pd.concat([runs, emulated]))})
    assert "emulated" in {verdict.evidence for verdict in judged}
    return judged


def test_the_section_has_no_row_of_evidence_that_never_decides(with_emulated: list[Judged]) -> None:
    assert "<td>emulated</td>" not in section(with_emulated, HEADING)
    assert "emulated: " not in section(with_emulated, HEADING)


def test_the_table_has_no_row_of_evidence_that_never_decides_but_says_so(with_emulated: list[Judged]) -> None:
    text = as_text(with_emulated, HEADING)
    assert [line.split()[3] for line in text.splitlines() if line.startswith(("holds here", "untested here"))] == [
        "measured",
        "measured",
    ]
    assert "emulated: not accepted by 1 claim" in text.splitlines()
    assert "decides nothing" not in text


def test_the_command_tells_all_claims_of_an_empty_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMFLOW_RESULTS_DIR", str(tmp_path))
    monkeypatch.delenv("TMFLOW_DB_URL", raising=False)
    schema.upgrade(engine.sqlite_url(tmp_path / "study.db"))
    outcome = CliRunner().invoke(app, ["claims", "--json"], catch_exceptions=False)
    assert outcome.exit_code == 0
    verdicts = json.loads(outcome.stdout)
    assert {verdict["verdict"] for verdict in verdicts} == {"untested here", "cannot be tested"}
    assert {verdict["id"] for verdict in verdicts} == set(load_claims().claims)
    assert len({(verdict["id"], verdict["evidence"]) for verdict in verdicts}) == len(verdicts)
    keys = {"why", "numbers", "platform", "runs", "left_out", "explanation"}
    assert all(keys <= set(verdict) for verdict in verdicts)
    only = CliRunner().invoke(app, ["claims", "--json", "--evidence", "emulated"], catch_exceptions=False)
    assert {verdict["evidence"] for verdict in json.loads(only.stdout)} == {"emulated"}
    assert CliRunner().invoke(app, ["claims", "--evidence", "rumour"]).exit_code == 2


def test_real_tables_have_what_claims_ask_of_them(tmp_path: Path) -> None:
    url = engine.sqlite_url(tmp_path / "study.db")
    schema.upgrade(url)
    claims: Claims = load_claims()
    tables = load(engine.open_reader(url), experiments(claims))
    assert all(judged_claim.runs.empty for judged_claim in tables.values())
    assert {judged_claim.finding.verdict for judged_claim in judge(claims, tables)} == {
        "untested here", "cannot be tested",
    }  # fmt: skip
