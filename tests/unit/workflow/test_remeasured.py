"""A deleted run file is measured again, the database keeps the stored round, and a message says so."""

from __future__ import annotations

import json
from pathlib import Path

from sqlalchemy import URL

from tests.conftest import TINY
from tests.support.sample_runs import sample_runs
from tmflow.platform.facts import platform_facts
from tmflow.runfile import record
from tmflow.runfile.record import CampaignRef
from tmflow.store.engine import sqlite_url
from tmflow.store.ingest import ingest
from tmflow.study.config import check_study
from tmflow.study.plan import Plan
from tmflow.workflow import run
from tmflow.workflow.stored_rounds import already_stored

CAMPAIGN = CampaignRef(uid="a-campaign", created_at_utc="2026-01-01T00:00:00Z")


def measured(results: Path, platform: dict[str, object]) -> tuple[Plan, URL]:
    """Two stored rounds of a study on a platform."""
    (results / "data").mkdir()
    (results / "data" / "dataset.json").write_text(json.dumps({"name": "digits", "warning": None}))
    plan = Plan(check_study(TINY), "full", results)
    (example,) = sample_runs(["tiny"], ["lock"], [1], 1)
    for number, path in enumerate(plan.run_files("tiny"), start=1):
        job = plan.job("tiny", number, CAMPAIGN)
        fields = {
            "campaign": CAMPAIGN,
            "experiment": job.experiment,
            "platform": platform,
            "round": number,
            "uid": f"run-of-round-{number}",
            "spec": job.points[0],
        }
        record.write(path, [example.model_copy(update=fields)])
    database = sqlite_url(results / "study.db")
    ingest(database, plan.run_files("tiny"))
    return plan, database


def test_a_deleted_run_file_is_told_of(tmp_path: Path) -> None:
    plan, database = measured(tmp_path, platform_facts())
    assert already_stored(plan, database) is None
    plan.run_files("tiny")[1].unlink()
    assert already_stored(plan, database) == (
        f"database {tmp_path / 'study.db'} holds 1 round of tiny whose run files are missing; they are measured "
        "again, and figures and claims will use both, if the software is the same; to use only the new ones, stop, "
        "move the database away, and run this again."
    )
    assert already_stored(plan, sqlite_url(tmp_path / "none.db")) is None


def test_another_machine_s_rounds_and_another_definition_s_are_not_meant(tmp_path: Path) -> None:
    plan, database = measured(tmp_path, {**platform_facts(), "cpu_model": "another"})
    for path in plan.run_files("tiny"):
        path.unlink()
    assert already_stored(plan, database) is None
    (tmp_path / "here").mkdir()
    plan, database = measured(tmp_path / "here", platform_facts())
    assert already_stored(Plan(check_study({**TINY, "seed": 8}), "full", plan.results), database) is None


def test_a_database_that_is_lost_is_filled_and_drawn_from_anew(tmp_path: Path) -> None:
    plan, database = measured(tmp_path, platform_facts())
    mark = tmp_path / "ingested" / "full" / "tiny-0a.json"
    mark.parent.mkdir(parents=True)
    mark.touch()
    run._drop_stale_marks(plan, database)
    assert mark.exists()
    (tmp_path / "study.db").unlink()
    run._drop_stale_marks(plan, database)
    assert not mark.exists()
