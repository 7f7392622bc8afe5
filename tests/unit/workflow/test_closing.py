"""The final message of a study: about the requested experiments only, and exact."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import TINY
from tests.support.sample_runs import sample_runs
from tests.support.two_versions import ANOTHER_SOFTWARE
from tmflow.reports import study_summary
from tmflow.runfile import record
from tmflow.store import engine
from tmflow.store.ingest import ingest
from tmflow.study import campaign
from tmflow.study.campaign import Campaign
from tmflow.study.config import check_study
from tmflow.study.plan import Plan
from tmflow.workflow.closing_message import _files, stopped
from tmflow.workflow.request import Request

BEGAN_NS = 2_000_000_000_000_000_000
UNTIL = Request(options=("--until", "round"))


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """A plan with a report and figures from before the call."""
    for name in ("report.html", "figures/tiny/accuracy.svg", "tables/tiny.html"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, ns=(BEGAN_NS - 1, BEGAN_NS - 1))
    return Plan(check_study(TINY), "full", tmp_path)


def labels(plan: Plan, request: Request) -> list[str]:
    return [label for label, _ in _files(plan, request, BEGAN_NS)]


def test_a_file_of_an_earlier_call_is_not_named(plan: Plan) -> None:
    assert labels(plan, UNTIL) == []
    os.utime(plan.results / "figures/tiny/accuracy.svg", ns=(BEGAN_NS, BEGAN_NS))
    assert labels(plan, UNTIL) == ["figures"]
    assert labels(plan, Request(targets=("results/figures/tiny",))) == ["figures"]


def test_what_was_asked_for_and_is_up_to_date_is_named(plan: Plan) -> None:
    assert labels(plan, Request()) == ["figures", "report"]  # there are no notebooks
    assert list(_files(plan, Request(("tiny",)), BEGAN_NS)) == [
        ("figures", f"{plan.results}/figures/tiny/"), ("table", f"{plan.results}/tables/tiny.html"),
    ]  # fmt: skip


def test_a_study_that_was_stopped_says_what_can_be_looked_at(plan: Plan) -> None:
    database = engine.sqlite_url(plan.results / "study.db")
    kept = "the study was stopped; what is done is kept, and `make study` goes on from there."
    assert stopped(plan, Request(), database) == f"{kept} No round is complete yet."
    first, second = plan.run_files("tiny")
    runs = sample_runs(("tiny",), rounds=2)
    record.write(first, [run for run in runs if run.round == 1])
    ingest(database, [first])
    seen = f"{kept} 1 complete round can be seen with `make portal` and `tmflow claims`."
    assert stopped(plan, Request(), database) == seen
    record.write(second, [run for run in runs if run.round == 2])
    missing = " 1 complete round is not stored yet; `tmflow ingest FILE...` stores run files."
    assert stopped(plan, Request(), database) == seen + missing
    named = stopped(Plan(plan.study, "quick", plan.results), Request(("tiny",)), database)
    assert "and `tmflow study run --scale quick tiny` goes on from there." in named


def test_the_end_and_the_report_count_disturbed_trials(plan: Plan) -> None:
    runs = sample_runs(("tiny",), rounds=3, disturbed_rounds=(2,))
    record.write(plan.results / "runs.jsonl", runs)
    database = engine.sqlite_url(plan.results / "study.db")
    ingest(database, [plan.results / "runs.jsonl"])
    uid, created = runs[0].campaign.uid, runs[0].campaign.created_at_utc
    campaign.save(plan.results, Campaign(uid=uid, created_at_utc=created, scale="full", platform_sha256="0" * 64))
    assert study_summary.summarise_study(plan, engine.open_reader(database))[-1].startswith(
        "Other processes used the machine during 9 of 27 trials, and during most trials of 1 of 3 rounds, so "
    )


def test_the_end_and_the_report_count_runs_of_other_versions(plan: Plan) -> None:
    runs = sample_runs(("tiny",), rounds=3)
    older = sample_runs(("tiny",), rounds=2, campaign="older", day=-1)
    record.write(plan.results / "runs.jsonl", runs)
    record.write(plan.results / "older.jsonl", [run.model_copy(update={"software": ANOTHER_SOFTWARE}) for run in older])
    database = engine.sqlite_url(plan.results / "study.db")
    ingest(database, [plan.results / "runs.jsonl", plan.results / "older.jsonl"])
    uid, created = runs[0].campaign.uid, runs[0].campaign.created_at_utc
    campaign.save(plan.results, Campaign(uid=uid, created_at_utc=created, scale="full", platform_sha256="0" * 64))
    assert study_summary.summarise_study(plan, engine.open_reader(database))[-1] == (
        f"Of experiment tiny, {len(older)} runs by other versions of the software are left out."
    )
