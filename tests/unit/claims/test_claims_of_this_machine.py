"""`tmflow claims` uses the runs of this machine, names the source, and never silently uses those of another one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from sqlalchemy import URL
from typer.testing import CliRunner

from tests.support.forged import CLAIM, MACHINE, contribute, forged_runs, local_runs, store
from tmflow.base.errors import BadInput
from tmflow.cli import app
from tmflow.platform.facts import display_name, platform_facts
from tmflow.store import engine


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> URL:
    """The database of a results folder that the command line uses."""
    monkeypatch.setenv("TMFLOW_RESULTS_DIR", str(tmp_path))
    monkeypatch.delenv("TMFLOW_DB_URL", raising=False)
    return engine.sqlite_url(tmp_path / "study.db")


def claims(*arguments: str) -> tuple[int, str]:
    called = CliRunner().invoke(app, ["claims", *arguments], catch_exceptions=False)
    return called.exit_code, " ".join(called.output.split())


def verdict(*arguments: str) -> str:
    """The verdict on the claim that the local and the forged runs decide differently."""
    outcome = CliRunner().invoke(
        app, ["claims", "--evidence", "measured", "--json", *arguments], catch_exceptions=False
    )
    (judged,) = [judged for judged in json.loads(outcome.stdout) if judged["id"] == CLAIM]
    return str(judged["verdict"])


def test_without_runs_of_this_machine_nobody_elses_are_judged_unless_asked_for(
    url: URL, tmp_path: Path, tmflow: Callable[..., CompletedProcess[str]]
) -> None:
    store(url, tmp_path / "local", local_runs())
    refused = tmflow("claims", TMFLOW_RESULTS_DIR=tmp_path)
    text = refused.stderr.strip()
    assert (refused.returncode, refused.stdout, text.count("\n")) == (2, "", 0)
    assert f"this machine, {display_name(platform_facts())}, has no runs in this database; --platform NAME" in text
    assert text.endswith(f"{MACHINE}.")
    code, text = claims("--platform", MACHINE)
    assert code == 0
    assert text.startswith("Platform synthetic test machine, ")
    assert f"({MACHINE}): the runs that were ingested here." in text
    assert verdict("--platform", MACHINE) == "holds here"


def test_this_machine_is_the_one_that_is_judged_and_named(url: URL, tmp_path: Path) -> None:
    facts = platform_facts()
    here = [run.model_copy(update={"platform": facts, "uid": f"{run.uid}-here"}) for run in forged_runs(6)]
    store(url, tmp_path / "local", local_runs())
    store(url, tmp_path / "here", here)
    code, text = claims()
    assert code == 0
    assert text.startswith(f"Platform {display_name(facts)} (")
    assert f"({MACHINE})" not in text
    assert verdict("--platform", MACHINE) == "holds here"
    assert verdict() != "holds here"


def test_contributions_are_named_and_joined_only_when_asked_for(url: URL, tmp_path: Path) -> None:
    store(url, tmp_path / "local", local_runs())
    assert f"({MACHINE}): the runs that were ingested here. " in claims("--platform", MACHINE, "--join-sources")[1]
    key = contribute(url, tmp_path / "forged", forged_runs())
    assert f"Contributed to this platform and judged separately: {key}." in claims("--platform", MACHINE)[1]
    assert f"joined with 1 contribution: stranger.zip ({key})." in claims("--platform", MACHINE, "--join-sources")[1]
    outcome = [verdict("--platform", *how) for how in ([MACHINE], [key], [MACHINE, "--join-sources"])]
    assert outcome == ["holds here", "does not hold here", "does not hold here"]
    assert verdict("--platform", key) == "does not hold here"
    with pytest.raises(BadInput, match=r"^unknown platform 'nobody'"):
        claims("--platform", "nobody")
