"""Every command with every kind of wrong argument: one sentence and exit code 2, and never a traceback."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tmflow import cli

pytestmark = pytest.mark.slow

NOT_UTF8 = os.fsdecode(b"\xff\xfe")
# No valid path, folders instead of files, an impossible file name, and bytes that are no text; none of them is a number
# or a known name.
VALUES = {"empty": "", "here": ".", "root": "/", "above": "..", "long": "x" * 20_000, "not-utf8": NOT_UTF8}
FILLING = "none-such"  # for the other arguments that a command needs


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each command below this one, as a list of words."""
    if subcommands := getattr(command, "commands", None):
        for name, inner in subcommands.items():
            yield from commands(inner, (*path, name))
    else:
        yield path, command


def values_of(command: Any) -> list[Any]:
    """The arguments and options of a command that have a value."""
    return [parameter for parameter in command.params if not getattr(parameter, "is_flag", False)]


def lines_with(command: Any, value: str) -> Iterator[list[str]]:
    """The arguments of a command with the value for each parameter in turn; other required ones have a valid one."""
    for chosen in values_of(command):
        options, arguments = [], []
        for parameter in command.params:
            if parameter is not chosen and not parameter.required:
                continue
            text = value if parameter is chosen else FILLING
            if parameter.param_type_name == "argument":
                arguments.append(text)
            else:
                options.append(f"{parameter.opts[0]}={text}")
        yield [*options, "--", *arguments]


def started(*words: object) -> None:
    raise AssertionError(f"a wrong argument starts {words}")


COMMANDS = {words: command for words, command in commands(typer.main.get_command(cli.app)) if values_of(command)}


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, with an empty results folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMFLOW_RESULTS_DIR", str(tmp_path / "results"))
    monkeypatch.setenv("TMFLOW_QUARANTINE_DIR", str(tmp_path / "quarantine"))
    monkeypatch.delenv("TMFLOW_DB_URL", raising=False)
    return tmp_path


def call(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of `tmflow` with these words, in this process."""
    monkeypatch.setattr(sys, "argv", ["tmflow", *words])
    monkeypatch.setattr(os, "execv", started)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            cli.main()
    finally:
        signal.signal(signal.SIGTERM, before)
    return int(ended.value.code or 0)


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_wrong_argument_is_one_sentence(
    path: tuple[str, ...],
    kind: str,
    elsewhere: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for arguments in lines_with(COMMANDS[path], VALUES[kind]):
        code = call([*path, *arguments], monkeypatch)
        printed, complaint = capfd.readouterr()
        assert code == 2, (arguments, complaint)
        is_bundle = arguments[-1] == VALUES[kind]
        if path == ("bundle", "verify") and is_bundle and kind != "not-utf8":  # its report describes the fault
            assert complaint == ""
            assert printed.startswith("error: ")
            continue
        assert complaint.startswith("tmflow: "), (arguments, complaint)
        assert complaint.endswith(".\n"), (arguments, complaint)
        assert len(complaint.splitlines()) == 1, (arguments, complaint)
        assert ("is not UTF-8 text" in complaint) == (kind == "not-utf8"), (arguments, complaint)
