"""The quarantine's commands."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.support.sample_bundles import sample_bundle
from tests.support.sample_runs import sample_runs
from tmflow import cli
from tmflow.base.errors import BadInput
from tmflow.bundle.verify import verify
from tmflow.contributions import quarantine
from tmflow.store import engine

Call = Callable[..., str]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """The output of `tmflow bundle ...`, with a temporary quarantine and database."""
    monkeypatch.setenv(quarantine.VARIABLE, str(tmp_path / "quarantine"))
    monkeypatch.setenv(engine.VARIABLE, f"sqlite:///{tmp_path}/study.db")

    def called(*words: str | Path) -> str:
        capsys.readouterr()
        typer.main.get_command(cli.app)(["bundle", *map(str, words)], standalone_mode=False)
        return capsys.readouterr().out

    return called


def audit(call: Call) -> list[tuple[str, str]]:
    rows: list[dict[str, Any]] = json.loads(call("audit", "--json"))
    assert all(row["by"].startswith("user ") for row in rows)
    return [(row["action"], row["outcome"]) for row in rows]


def test_a_bundle_from_its_staging_to_its_withdrawal(call: Call, bundle: Path) -> None:
    identity = verify(bundle).identity or ""
    assert call("waiting") == "nothing waits.\n"
    assert f"{identity}: 27 runs, all of them new. The bundle waits for a maintainer" in call("stage", bundle)
    assert call("waiting").startswith(f"{identity}: 27 runs of synthetic test machine")
    assert call("accept", identity[:10]) == f"{identity} is accepted: 27 runs stored, 0 known.\n"
    with pytest.raises(BadInput, match="was accepted"):
        call("accept", identity)
    assert f"restore {identity[:12]}`" in call("withdraw", identity[:10], "--reason", "a test")
    call("restore", identity)
    assert {row["identity"] for row in json.loads(call("audit", "--json"))} == {identity}
    assert audit(call) == [("upload", "staged"), ("accept", "accepted"), ("withdraw", "done"), ("restore", "done")]


def test_an_import_that_conflicts_leaves_the_bundle_to_be_compared(call: Call, bundle: Path, tmp_path: Path) -> None:
    run = sample_runs()[0]
    others = [run.model_copy(update={"setup_s": 0.2})]
    call("import", sample_bundle(tmp_path / "first", others, probe=None))
    identity = verify(bundle).identity or ""
    with pytest.raises(BadInput, match=f"`tmflow bundle compare {identity[:12]}`"):
        call("import", bundle)
    assert call("compare", identity) == f"run {run.uid}\nsetup_s: bundle 0.25, database 0.2\n"
    ((difference),) = json.loads(call("compare", identity, "--run", run.uid, "--json"))
    assert difference == {
        "uid": run.uid,
        "withdrawn": None,
        "fields": [{"field": "setup_s", "bundle": "0.25", "database": "0.2"}],
    }
    call("reject", identity, "--reason", "the other is right")
    assert audit(call) == [("import", "conflict"), ("reject", "rejected")]


def test_a_withdrawn_run_is_compared_and_said_to_be_withdrawn(call: Call, bundle: Path, tmp_path: Path) -> None:
    """It is still stored, so a bundle with another version of it conflicts."""
    run = sample_runs()[0]
    wrong = sample_bundle(tmp_path / "first", [run.model_copy(update={"setup_s": 0.2})], probe=None)
    call("import", wrong)
    call("withdraw", verify(wrong).identity or "", "--reason", "the clock was wrong")
    with pytest.raises(BadInput, match="`tmflow bundle compare"):
        call("import", bundle)
    said = f"contribution {wrong.name}: the clock was wrong"
    assert call("compare", verify(bundle).identity or "") == (
        f"run {run.uid}, withdrawn from the database with {said}\nsetup_s: bundle 0.25, database 0.2\n"
    )
    ((difference),) = json.loads(call("compare", verify(bundle).identity or "", "--json"))
    assert difference["withdrawn"] == said


def test_what_cannot_be_written_down_is_not_done(call: Call, bundle: Path, tmp_path: Path) -> None:
    call("import", bundle)
    (tmp_path / "quarantine").write_text("no folder")
    with pytest.raises(BadInput, match="quarantine"):
        call("withdraw", verify(bundle).identity or "", "--reason", "a test")
    assert "shown." in call("list")


def test_a_bundle_that_is_none_is_told_and_not_kept(call: Call, tmp_path: Path, tmflow: Any) -> None:
    (tmp_path / "x.zip").write_text("no zip")
    refused = tmflow("bundle", "stage", tmp_path / "x.zip")
    assert refused.returncode == 2
    assert "x.zip" in refused.stdout
    assert "no bundle: 1 error in the bundle" in refused.stdout
    assert call("waiting") == "nothing waits.\n"


def test_what_others_wrote_moves_no_cursor(call: Call, bundle: Path) -> None:
    call("stage", bundle, "--name", "\x1b[2Jgone\nnext")
    said = call("waiting")
    assert "\x1b" not in said
    assert said.count("\n") == 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize("words", [("stage",), ("import",)])
def test_what_is_no_file_is_refused_and_does_not_block(call: Call, tmp_path: Path, words: tuple[str, ...]) -> None:
    """Opening a pipe blocks until there is a writer, unless it is opened without blocking."""
    os.mkfifo(tmp_path / "pipe.zip")
    for name, message in (
        ("pipe.zip", "is a pipe or another special file; a bundle is a regular zip file"),
        (".", "is a folder; a bundle is a single zip file"),
        ("none.zip", "cannot be read: No such file or directory"),
    ):
        with pytest.raises(BadInput, match=message):
            call(*words, tmp_path / name)
