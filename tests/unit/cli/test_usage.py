"""A command line that Typer refuses gives one sentence in our style; help and version are unchanged."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tmflow import cli


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def called(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    """The exit code of the command line."""
    monkeypatch.setattr(sys, "argv", ["tmflow", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("study plan --scale fulll", "tmflow study plan: --scale is 'fulll', but should be one of 'full', 'quick'."),
        (
            "claims --evidence guessed",
            "tmflow claims: --evidence is 'guessed', but should be one of 'measured', 'emulated', 'simulated', "
            "'published'.",
        ),
        (
            "train --threads two",
            "tmflow train: --threads is 'two', but should be a valid integer, unable to parse string as an integer.",
        ),
        (
            "study plan --scael full",
            "tmflow study plan: no such option: --scael (Possible options: --help, --scale). "
            "See `tmflow study plan --help`.",
        ),
        ("study run --hours 0", "--hours is 0, but must be a number of hours above 0, for example 8."),
        ("study run --hours -1", "--hours is -1, but must be a number of hours above 0, for example 8."),
        ("study run --hours nan", "--hours is nan, but must be a number of hours above 0, for example 8."),
        ("study run --hours inf", "--hours is inf, but must be a number of hours above 0, for example 8."),
        (
            "study run --hours eight",
            "tmflow study run: --hours is 'eight', but should be a valid number, unable to parse string as a number.",
        ),
        (
            "study run --scale quick --hours 8",
            "--hours adds rounds for claims, and quick runs decide none: give --scale full, or no --scale.",
        ),
        (
            "study run results/report.html --hours 8",
            "--hours adds rounds to the whole study or to named experiments: name no file or rule with it.",
        ),
        (
            "study plan --power high",
            "tmflow study plan: --power is 'high', but should be a valid number, unable to parse string as a number.",
        ),
        ("study plan --power 80", "--power is 80, but must be above 0 and below 1, for example 0.8."),
        ("ingest", "tmflow ingest: missing argument 'files'. See `tmflow ingest --help`."),
        (
            "studdy",
            "tmflow: no such command 'studdy'. Did you mean 'study'? See `tmflow --help`.",
        ),
    ],
)
def test_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str, says: str
) -> None:
    assert called(monkeypatch, *line.split()) == 2
    assert capsys.readouterr().err == f"tmflow: {says}\n"


def test_a_folder_in_the_place_of_the_database(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("TMFLOW_DB_URL", f"sqlite:///{tmp_path}")
    for command in (("claims",), ("db", "check"), ("db", "upgrade"), ("ingest", "none.jsonl")):
        assert called(monkeypatch, *command) == 2
        said = capsys.readouterr().err
        assert said == f"tmflow: database {tmp_path} is a folder; name a file, such as {tmp_path / 'study.db'}.\n"


def test_what_is_not_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert not called(monkeypatch, "--version")
    assert not called(monkeypatch, "train", "--help")
    assert "--learning-rate" in capsys.readouterr().out
    assert called(monkeypatch, "study") == 2
    assert "Usage: tmflow study" in capsys.readouterr().err


def test_a_right_that_is_missing_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "runs").touch()  # instead of a folder
    monkeypatch.setenv("TMFLOW_RESULTS_DIR", str(tmp_path / "runs" / "here"))
    assert called(monkeypatch, "step", "probe", str(tmp_path / "platform.json")) == 2
    said = capsys.readouterr().err
    assert said == f"tmflow: {tmp_path / 'runs' / 'here'} cannot be used: Not a directory.\n"
