"""The claims, one by one: verdicts that do not depend on colour, their numbers, and links to exactly this view."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from claimed import ACCURACY, FEW, FEW_ATTEMPTS, SAME, claimed_database, platform_of
from pages import links, opened, texts
from seed import CRASH
from sqlalchemy import URL

from tests.support.claim_worlds import CLAIMS, world_runs
from tmflow.claims.origins import verdicts
from tmflow.runfile import record
from tmflow.store import engine, queries
from tmflow.store.engine import sqlite_url
from tmflow.store.ingest import ingest


def test_all_claims_are_listed_with_mark_word_number_evidence_and_source(
    claimed: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened("claims", claimed, monkeypatch, platform=platform_of(claimed, "fig-4.1"))
    (table,) = (element.value for element in app.dataframe)
    assert set(table["id"]) == set(CLAIMS.claims)
    shown = table.set_index(["id", "evidence"])
    assert shown.loc[(SAME, "measured"), "shown"] == "✓ holds here"
    assert shown.loc[(FEW, "emulated"), "shown"] == "✗ does not hold here"
    assert shown.loc[(ACCURACY, "measured"), "shown"] == "○ untested here"
    assert "1.00 [1.00, 1.00], claimed under 0.5" in shown.loc[(FEW, "measured"), "decides"]
    assert shown.loc[(FEW, "measured"), "source"] == "figure 4.2"
    labels = [label for label, _ in links(app, "claims")]
    assert f":red-badge[✗ does not hold here, emulated] {CLAIMS.claims[FEW].statement}" in labels
    assert len(labels) == len(table)
    assert "No eligible run here is simulated." in texts(app)


def test_filters_keep_verdicts_and_evidence(claimed: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    query = {
        "platform": platform_of(claimed, "fig-4.1"),
        "verdict": "contradicted",
        "evidence": "emulated",
    }  # an earlier word
    app = opened("claims", claimed, monkeypatch, **query)
    (table,) = (element.value for element in app.dataframe)
    assert table[["id", "verdict", "evidence"]].values.tolist() == [
        [FEW, "does not hold here", "emulated"], [FEW_ATTEMPTS, "does not hold here", "emulated"],
    ]  # fmt: skip
    assert app.multiselect(key="verdict").value == ["does not hold here"]


def test_the_platform_decides_whose_runs_speak(claimed: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("claims", claimed, monkeypatch, platform=platform_of(claimed, "fig-4.7"))
    (table,) = (element.value for element in app.dataframe)
    verdict = table.set_index(["id", "evidence"])["verdict"]
    assert verdict[ACCURACY, "measured"] == "holds here"
    assert verdict[SAME, "measured"] == "untested here"


def test_one_claim_has_its_checks_chart_runs_and_citation(claimed: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    platform = platform_of(claimed, "fig-4.1")
    app = opened("claims", claimed, monkeypatch, claim=FEW, platform=platform, evidence="measured")
    (judged,) = (
        candidate for candidate in verdicts(engine.open_reader(claimed), "measured", platform) if candidate.id == FEW
    )
    text = texts(app)
    assert judged.claim.statement in text
    assert judged.finding.checks[0].why in text
    assert str(judged.claim.explanation) in text
    (numbers,) = (element.value for element in app.dataframe)
    assert numbers["estimate"].tolist() == [number["estimate"] for number in judged.finding.numbers]
    (chart,) = app.get("vega_lite_chart")
    assert "the range that is claimed" in json.loads(chart.proto.spec)["description"]
    revision = queries.revision(engine.open_reader(claimed))
    assert f"tmflow, claim {FEW} (figure 4.2), by measured runs on platform {platform}: does not hold here." in text
    assert f"Database revision {revision}, newest run 2026-01-01." in text
    (runs,) = (query for _, query in links(app, "runs"))
    assert {"experiment=fig-4.1", "matrix=784", "evidence=measured", f"platform={platform}"} <= set(runs.split("&"))
    assert any("✗ does not hold here, emulated" in label for label, _ in links(app, "claims"))
    assert any(label == "Figure 4.2" for label, _ in links(app, "figures"))


def test_a_claim_tells_of_other_platforms(claimed: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    platform = platform_of(claimed, "fig-4.1")
    app = opened("claims", claimed, monkeypatch, claim=ACCURACY, platform=platform, evidence="measured")
    assert "There is no measured run of fig-4.7." in texts(app)
    other = platform_of(claimed, "fig-4.7")
    (link,) = ((label, query) for label, query in links(app, "claims") if f"platform={other}" in query)
    assert ":green-badge[✓ holds here] on a POWER8" in link[0]
    assert "tmflow study run fig-4.7" in texts(app)


def test_an_open_claim_names_the_command_that_adds_rounds_by_spreads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = CLAIMS.model_copy(update={"claims": {SAME: CLAIMS.claims[SAME]}})
    runs = [
        run.model_copy(update={"loop_s": math.exp(0.3 * math.sin(number))})
        for number, run in enumerate(world_runs(claims))
    ]
    record.write(tmp_path / "runs.jsonl", runs)
    url = sqlite_url(tmp_path / "study.db")
    ingest(url, [tmp_path / "runs.jsonl"])
    platform = platform_of(url, "fig-4.1")
    (judged,) = (one for one in verdicts(engine.open_reader(url), "measured", platform) if one.id == SAME)
    assert judged.finding.more_rounds is not None
    text = texts(opened("claims", url, monkeypatch, claim=SAME, platform=platform, evidence="measured"))
    assert "tmflow study run fig-4.1 --hours 8" in text
    assert "rounds_at_most" not in text


def test_of_failed_runs_alone_nothing_is_decided_and_why_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = claimed_database(tmp_path, failed=True)
    platform = platform_of(url, "fig-4.1")
    app = opened("claims", url, monkeypatch, platform=platform)
    assert set(app.dataframe[0].value["verdict"]) == {"untested here", "cannot be tested"}
    app = opened("claims", url, monkeypatch, claim=SAME, platform=platform)
    assert CRASH in texts(app)
    assert not app.get("vega_lite_chart")


@pytest.mark.parametrize(
    "query",
    [
        {"claim": "nope"},
        {"claim": "**<script>"},
        {"claim": SAME, "evidence": "rumour"},
        {"platform": "nowhere"},
        {"verdict": "maybe"},
    ],
)
def test_garbage_in_the_url_is_one_sentence(
    query: dict[str, str], claimed: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened("claims", claimed, monkeypatch, **query)
    (warning,) = app.warning
    assert warning.value.startswith("The link asks for")
    assert "which is not here" in warning.value
    assert "<script>" not in warning.value
