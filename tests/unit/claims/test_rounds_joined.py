"""The runs that the next rounds are pooled with: those of this definition and of this software."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.sample_runs import SOFTWARE, sample_runs
from tests.support.two_versions import ANOTHER_SOFTWARE, EXPERIMENT
from tmflow.base.canonical_json import sha256_of
from tmflow.base.paths import project_root
from tmflow.claims import measured_runs
from tmflow.claims.measured_runs import load_uids_joined
from tmflow.claims.schema import load_claims
from tmflow.runfile import record
from tmflow.runfile.record import Run, Software
from tmflow.store import engine
from tmflow.store.engine import sqlite_url
from tmflow.store.ingest import ingest
from tmflow.study import campaign
from tmflow.study.config import load_study
from tmflow.study.plan import Plan

CHANGED = SOFTWARE.model_copy(update={"git_dirty": True})
PARTS = {  # by campaign: the software, the number of rounds, and whether it has the current definition
    "old": (ANOTHER_SOFTWARE, 6, True),
    "other": (SOFTWARE, 3, False),
    "new": (SOFTWARE, 2, True),
    "later": (SOFTWARE, 1, True),
    "changed": (CHANGED, 4, True),
    "changed again": (CHANGED, 5, True),
}


@pytest.fixture
def study(tmp_path: Path) -> Plan:
    """The plan of a results folder whose database has all of `PARTS`."""
    plan = Plan(load_study(project_root() / "config.yaml"), "full", tmp_path, 8)
    definition = plan.study.definition(EXPERIMENT, "full", "mnist")
    of = {"definition": definition, "definition_sha256": sha256_of(definition)}
    runs: list[Run] = []
    for day, (name, (software, rounds, is_current)) in enumerate(PARTS.items()):
        for run in sample_runs((EXPERIMENT,), ("tf_lock",), (1,), rounds, campaign=name, day=day, dataset="mnist"):
            experiment = run.experiment.model_copy(update=of if is_current else {})
            runs.append(run.model_copy(update={"software": software, "experiment": experiment}))
    record.write(tmp_path / "runs.jsonl", runs)
    ingest(sqlite_url(tmp_path / "study.db"), [tmp_path / "runs.jsonl"])
    return plan


@pytest.mark.parametrize(
    ("here", "current", "joined"),
    [
        (SOFTWARE, None, {"new": 2, "later": 1}),
        (SOFTWARE, "later", {"new": 2, "later": 1}),
        (ANOTHER_SOFTWARE, None, {"old": 6}),
        (CHANGED, "changed", {"changed": 4}),
        (CHANGED, "changed again", {"changed again": 5}),
        (CHANGED, None, {}),
        (SOFTWARE.model_copy(update={"numpy": "9"}), None, {}),
    ],
)
def test_rounds_of_this_software_are_joined_or_of_this_campaign_if_it_is_changed(
    study: Plan, monkeypatch: pytest.MonkeyPatch, here: Software, current: str | None, joined: dict[str, int]
) -> None:
    def software(**build: Any) -> dict[str, Any]:
        return here.model_dump()

    monkeypatch.setattr(measured_runs, "software", software)
    if current:
        latest = campaign.current(study.results, "full").model_copy(update={"uid": current})
        campaign.save(study.results, latest)
    source = engine.open_reader(sqlite_url(study.results / "study.db"))
    uids = load_uids_joined(source, load_claims(), study)
    of_uid = {run.uid: run.campaign.uid for run in record.read(study.results / "runs.jsonl")}
    assert Counter(of_uid[uid] for uid in uids) == joined
