"""How to add a machine: every command exists and works, and the wanted machines follow from the claims."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import typer
from pages import commands, opened, texts
from sqlalchemy import URL

from tmflow import cli
from tmflow.base.paths import project_root
from tmflow.claims.next_run import Machine, find_missing_machines
from tmflow.claims.schema import load_claims
from tmflow.portal.pages.contribute import DOCS, STEPS
from tmflow.reports import docs_index
from tmflow.store import engine, schema

COMMANDS = [command for step in STEPS for command in step.commands]


def test_the_page_shows_every_command(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("contribute", seeded, monkeypatch)
    assert "\n".join(commands(app)) == "\n".join(COMMANDS)
    assert re.findall(r"#### (\d)\.", texts(app)) == ["1", "2", "3", "4"]
    assert not app.error


@pytest.mark.parametrize("exists", [False, True])
def test_the_whole_page_is_there_without_any_run(exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = engine.sqlite_url(tmp_path / "study.db")
    if exists:
        schema.upgrade(url)
    app = opened("contribute", url, monkeypatch)
    assert "\n".join(COMMANDS) in "\n".join(commands(app))
    assert not app.info
    assert not app.error
    wanted = find_missing_machines(load_claims(), [])
    assert wanted
    assert all(f"**{machine}**" in texts(app) for machine in wanted)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_exists(command: str) -> None:
    program, name, *words = shlex.split(command)
    if program == "make":
        done = subprocess.run(
            ["make", "--dry-run", name], cwd=project_root(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return
    assert program == ".venv/bin/tmflow"
    asked = typer.main.get_command(cli.app)
    while name in getattr(asked, "commands", {}):
        asked = asked.commands[name]
        name = words.pop(0) if words else ""
    asked.make_context("tmflow", [*([name] if name else []), *words])


SMALL, POWER = Machine("rtm", 4), Machine("htm", 80)


def test_a_machine_is_missing_if_none_has_the_transactions_and_the_threads() -> None:
    claims = load_claims()
    found = find_missing_machines(claims, [SMALL, Machine("none", 64), Machine("rtm", None)])
    assert {name for machine in found for name in machine.claims} >= {"power-capacity", "deep-htm-double"}
    assert {machine.hardware for machine in found} == {"power", "rtm"}  # machines of any kind with 64 threads exist
    assert all(machine.threads > 4 for machine in found if machine.hardware == "rtm")
    assert [len(machine.claims) for machine in found] == sorted((len(it.claims) for it in found), reverse=True)
    assert find_missing_machines(claims, [POWER, Machine("rtm", 64)]) == []
    every = [name for machine in find_missing_machines(claims, []) for name in machine.claims]
    assert sorted(every) == sorted(name for name, claim in claims.claims.items() if claim.checks and not claim.restates)


def test_the_page_names_the_machines_that_are_missing(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    said = texts(opened("contribute", seeded, monkeypatch))
    for machine in find_missing_machines(load_claims(), [Machine("none", 4)]):  # that of the seeded runs
        assert f"**{machine}**" in said
    assert "A machine with POWER's transactions, with at least 16 hardware threads" in said


def test_what_the_page_links_to_is_in_the_docs() -> None:
    assert DOCS in docs_index.pages()
