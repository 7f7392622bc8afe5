"""The choice of rounds for claims: what it stores first, what it holds meanwhile, and what it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root
from tmflow.claims.allocation import ENOUGH, NOT_REQUESTED, TOO_MANY, Wish, Wishes
from tmflow.store import schema
from tmflow.store.engine import sqlite_url
from tmflow.study import campaign
from tmflow.study.config import load_study
from tmflow.study.plan import Plan
from tmflow.workflow import run, spare_time, stored_rounds
from tmflow.workflow.request import parse_request
from tmflow.workflow.spare_time import SpareTime

WISH = Wish("a-claim", {"fig-4.1": 3}, 30.0, 10.0)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return Plan(load_study(project_root() / "config.yaml"), "full", tmp_path, 8)


def spare(plan: Plan, hours: float = 8) -> SpareTime:
    return SpareTime(plan, parse_request(plan, []), sqlite_url(plan.results / "study.db"), hours)


def test_rounds_that_cannot_be_stored_add_none_and_do_not_end_the_study(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> list[Path]:
        raise BadInput("the database is on strike.")

    monkeypatch.setattr(stored_rounds, "not_stored", refuse)
    of_study = spare(plan)
    assert of_study.next_wish() is None
    assert "the database is on strike." in capsys.readouterr().err
    assert of_study.summary().endswith("No more, because the rounds so far could not be stored.")


def test_no_timed_work_runs_while_the_choice_is_made(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[bool] = []

    @contextmanager
    def lock() -> Iterator[None]:
        held.append(True)
        yield
        held.pop()

    def chosen(*_: Any) -> Wishes:
        assert held == [True]
        return Wishes([WISH], Counter())

    schema.upgrade(sqlite_url(plan.results / "study.db"))
    monkeypatch.setattr(spare_time, "machine_to_itself", lock)
    monkeypatch.setattr(spare_time, "wishes", chosen)
    of_study = spare(plan)
    assert of_study.next_wish() == WISH
    assert held == []
    assert spare(plan, 0.01).next_wish() is None, "the notebooks and the report take longer"


def test_the_reasons_are_the_true_ones(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    without = Counter({ENOUGH: 2, NOT_REQUESTED: 3, TOO_MANY: 1})
    schema.upgrade(sqlite_url(plan.results / "study.db"))
    of_study = spare(plan)
    monkeypatch.setattr(spare_time, "wishes", lambda *_: Wishes([], without))
    assert of_study.next_wish() is None
    assert of_study.summary() == (
        "--hours 8 added no round.\nClaims that get no further round, by reason: enough for 80% power: 2; "
        "an experiment that was not requested: 3; more than 1000 rounds needed: 1."
    )
    assert "with about 3 more rounds at its spread. Time left: about 4" in of_study.describe(WISH)
    few = of_study.describe(WISH._replace(few=True))
    assert "with about 3 more rounds; a verdict needs six rounds" in few
    assert "spread" not in few


def test_a_round_that_was_allotted_before_an_interruption_is_measured_by_the_next_call(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study ends between the decision and the first trial; nothing is recorded as added."""

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    request, before = parse_request(plan, ["fig-4.1"]), plan.rounds("fig-4.1")
    for path in plan.run_files("fig-4.1"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    current = campaign.begin(plan.results, "full")
    of_study = spare(plan)
    monkeypatch.setattr(of_study, "next_wish", lambda: WISH)
    monkeypatch.setattr(run, "_snakemake_logged", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run._add_rounds_of_claims(plan, request, (), current, of_study)
    assert of_study.summary().startswith("--hours 8 added no round.")
    (missing,) = [path for path in replace(plan).run_files("fig-4.1") if not path.exists()]
    assert missing.name == f"round-{before + 1:03}.jsonl"
    assert not plan.is_measured()
