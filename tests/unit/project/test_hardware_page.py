"""The commands in docs/add-your-hardware.md and the README exist, with these options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from tmflow.base.paths import project_root
from tmflow.cli import app

ROOT = project_root()
PAGE = ROOT / "docs" / "add-your-hardware.md"
STATIC_HELP = (ROOT / "native_ops" / "runner" / "main.cc").read_text().partition("kHelp")[2].partition(')";')[0]


def commands() -> Iterator[str]:
    """Lines of code, and inline code that begins with one of our programs, without comments."""
    for text in (PAGE.read_text(), (ROOT / "README.md").read_text()):
        lines = re.findall(r"^ {4}(.+)$", text, re.MULTILINE)
        spans = re.findall(r"`([^`\n]+)`", text)
        for found in (*lines, *spans):
            line = re.sub(r"\s# .*", "", found).strip()
            line = line.removeprefix("numactl --cpunodebind=0 --membind=0 ")
            if re.match(r"(make|(\S+/)?tmflow(-native)?|run) [a-z-]", line):
                yield line


def unknown_to_tmflow(words: list[str]) -> list[str]:
    """The words of a call that are neither commands nor options of them; arguments are ignored."""
    at: Any = typer.main.get_command(app)
    wrong, words = [], list(words)
    while hasattr(at, "commands") and words and not words[0].startswith("-"):
        if words[0] not in at.commands:
            return [words[0]]
        at = at.commands[words.pop(0)]
    options = {option for parameter in at.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for word in words:
        if word.startswith("--") and word.partition("=")[0] not in options:
            wrong.append(word)
    return wrong


COMMANDS = sorted(set(commands()))


def test_the_page_has_both_ways() -> None:
    for command in (
        "make study",
        "make native",
        "./tmflow-native run",
        ".venv/bin/tmflow bundle export",
    ):
        assert command in COMMANDS


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_exists(line: str) -> None:
    program, *words = shlex.split(line.replace("[", "").replace("]", ""))
    if program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert words[0] in targets
    elif program in ("./tmflow-native", "run"):
        words = [program, *words] if program == "run" else words
        described = re.search(rf"^  {words[0]} (.*?)(?=^  \w|\Z)", STATIC_HELP, re.MULTILINE | re.DOTALL)
        assert described, words[0]
        assert all(word in described[1] for word in words if word.startswith("--"))
    else:
        assert unknown_to_tmflow(words) == []


@pytest.mark.parametrize("words", [["frob"], ["bundle", "frob"], ["bundle", "export", "--frob"], ["doctor", "--no=1"]])
def test_a_command_that_does_not_exist_is_noticed(words: list[str]) -> None:
    assert unknown_to_tmflow(words) == words[-1:]
