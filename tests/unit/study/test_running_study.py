"""A running study is read while its files come and go."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.study.test_plan import plan_of, recorded, study_with
from tmflow.runner import journal
from tmflow.study import campaign
from tmflow.study.cost_model import Costs
from tmflow.workflow.status import status


def test_files_that_the_end_of_a_trial_or_round_removes_are_skipped(tmp_path: Path) -> None:
    """A link to nothing is listed with its folder, and cannot be read: like a file that has just been removed."""
    plan = plan_of(study_with(), tmp_path)
    begun = campaign.begin(tmp_path, "full")
    campaign.save(tmp_path, begun)
    recorded(plan, 1, {("lock", 1): 10.0, ("lock", 4): 2.0}, begun.uid)
    before = sorted(Costs(tmp_path).uids)
    for name in ("round-002.jsonl.part", "round-002.jsonl.now", "round-002.jsonl.now.1.tmp"):
        plan.run_files("one")[0].with_name(name).symlink_to("removed")
    assert sorted(Costs(tmp_path).uids) == before != []
    assert status(plan)["trials_ok"] == 2


def test_a_round_that_ends_while_it_is_read_is_read_from_its_run_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(study_with(), tmp_path)
    recorded(plan, 1, {("lock", 1): 10.0}, "a-campaign")
    path = plan.run_files("one")[0]
    journal_file = path.with_name(path.name + ".part")
    path.rename(journal_file)

    class EndsMeanwhile(journal.Journal):
        def __init__(self, run_file: Path) -> None:
            if journal_file.exists():
                journal_file.rename(path)
            super().__init__(run_file)

    monkeypatch.setattr("tmflow.study.plan.Journal", EndsMeanwhile)
    assert len(list(plan.finished_runs("one"))) == 1
