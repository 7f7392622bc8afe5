"""Rounds of different definitions or software versions are never pooled, and omitted runs are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.support.claim_worlds import COMMITS, SPEED, only, verdict_of, world_runs
from tests.support.sample_runs import SOFTWARE
from tmflow.base.canonical_json import sha256_of
from tmflow.claims.origins import judge
from tmflow.claims.tables import Tables, load
from tmflow.runfile import record
from tmflow.runfile.record import CampaignRef
from tmflow.store import engine
from tmflow.store.ingest import ingest

OLD, NEW = "tmflow 0.1.0 at 0000000000", "tmflow 0.2.0 at 1111111111"


def again(runs: pd.DataFrame, rounds: int, htm: float = 2.0, **changes: str) -> pd.DataFrame:
    """The runs, and later ones with `changes` and this many rounds, in which several workers under HTM are slower."""
    february = {"campaign_uid": "later", "started_at_utc": "2026-02-01T00:00:00.000Z"}
    later = runs[runs["round"] <= rounds].assign(uid=lambda left: left["uid"] + "-later", **february | changes)
    later.loc[(later["strategy"] == "htm") & (later["threads"] > 1), "loop_s"] *= htm
    return pd.concat([runs.assign(software=OLD), later], ignore_index=True)


@pytest.mark.parametrize("changes", [{"software": NEW}, {"software": OLD, "definition_sha256": "e" * 64}])
def test_the_newest_software_and_definition_with_six_rounds_speak_and_the_others_are_told(
    true_world: dict[str, Tables], changes: dict[str, str]
) -> None:
    newest = verdict_of(SPEED, true_world, lambda runs: again(runs, 6, **changes))
    assert newest.finding.verdict == "does not hold here"
    assert f"Of fig-4.1 these are 6 rounds by {changes['software']}" in newest.finding.why
    assert f"left out, because never pooled with them: 6 rounds by {OLD}" in newest.finding.why
    assert {number["rounds"] for number in newest.finding.numbers} == {6}
    begun = verdict_of(SPEED, true_world, lambda runs: again(runs, 5, **changes))
    assert begun.finding.verdict == "holds here"
    assert f"Of fig-4.1 these are 6 rounds by {OLD}" in begun.finding.why
    assert f"left out, because never pooled with them: 5 rounds by {changes['software']}" in begun.finding.why
    document = begun.as_json()
    (left_out,) = document["left_out"]
    assert left_out.items() >= {"experiment": "fig-4.1", "rounds": 5, "software": changes["software"]}.items()
    assert {of["software"] for of in document["runs"]["of"]} == {OLD}


def test_a_study_that_another_software_went_on_with_has_too_few_rounds_of_either(true_world: dict[str, Tables]) -> None:
    def updated(runs: pd.DataFrame) -> pd.DataFrame:
        return runs.assign(software=runs["round"].gt(3).map({False: OLD, True: NEW}))

    finding = verdict_of(SPEED, true_world, updated).finding
    assert (finding.verdict, finding.more_rounds) == ("inconclusive", 3)
    assert f"these are 3 rounds by {NEW}; left out, because never pooled with them: 3 rounds by {OLD}." in finding.why


def test_campaigns_of_the_same_software_and_definition_are_one_sample(true_world: dict[str, Tables]) -> None:
    verdict = verdict_of(SPEED, true_world, lambda runs: again(runs, 6, htm=1.0, software=OLD))
    assert (verdict.finding.verdict, verdict.left_out) == ("holds here", [])
    assert {number["rounds"] for number in verdict.finding.numbers} == {12}
    assert {of["campaign"] for of in verdict.as_json()["runs"]["of"]} == {"campaign-rtm", "later"}


def test_a_database_tells_software_and_definitions_apart(tmp_path: Path) -> None:
    """From run files to the verdict: runs of another commit or definition are omitted."""
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
    for campaign, left in others.items():
        ref = CampaignRef(uid=campaign, created_at_utc="2026-02-01T00:00:00.000Z")
        path = tmp_path / f"{campaign}.jsonl"
        record.write(path, [r.model_copy(update={"uid": f"{r.uid}-{campaign}", "campaign": ref} | left) for r in runs])
    record.write(tmp_path / "runs.jsonl", runs)
    url = engine.sqlite_url(tmp_path / "study.db")
    ingest(url, sorted(tmp_path.glob("*.jsonl")))
    (verdict,) = judge(only(COMMITS), load(engine.open_reader(url), ["fig-4.1"]), "measured")
    document = verdict.as_json()
    (used,) = document["runs"]["of"]
    assert len(used["rounds"]) == 6
    assert {left["rounds"] for left in document["left_out"]} == {6}
    assert {(left["definition"], left["software"]) for left in [used, *document["left_out"]]} == {
        (sha256_of({}), "tmflow 0.1.0 at 0000000000"),
        (sha256_of({}), "tmflow 0.1.0 at 1111111111"),
        (sha256_of(changed), "tmflow 0.1.0 at 0000000000"),
    }
