"""`tmflow regressions --since`: exit code 0 for no regression, 1 for regressions, 2 for wrong input."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL

from tests.support.campaigns import campaign, store
from tests.support.sample_runs import FULL, PLATFORM
from tmflow import cli
from tmflow.runfile.record import Lost

Call = Callable[..., tuple[object, str, str]]
ELSEWHERE = PLATFORM | {"cpu_model": "another test machine"}


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def call(sqlite: URL, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run the command; return its exit code, its output and its errors."""

    def run(*words: str) -> tuple[object, str, str]:
        url = sqlite.render_as_string(hide_password=False)
        monkeypatch.setattr(sys, "argv", ["tmflow", "regressions", f"--db={url}", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return (ended.value.code or 0, *capsys.readouterr())

    return run


def test_a_slower_point_is_listed_and_the_exit_code_is_1(sqlite: URL, tmp_path: Path, call: Call) -> None:
    store(sqlite, tmp_path, campaign(1), campaign(2, slower=1.5))
    code, output, errors = call("--since", "2026-01-03")
    assert (code, errors) == (1, "")
    head, *lines = output.splitlines()
    assert head == (
        "Since 2026-01-03, 2 points became worse. Compared: speed relative to the lock of 2 points; "
        "test accuracy of 4 points."
    )
    assert len(lines) == 2
    for line in lines:
        assert "nolock" in line
        assert "commits 0101010101..0202020202 (campaigns of 2026-01-02 and 2026-01-03)" in line


@pytest.mark.parametrize("since", ["0101010", "campaign-1", "2026-01-03T00:00"])
def test_json_has_the_points_and_their_campaigns(since: str, sqlite: URL, tmp_path: Path, call: Call) -> None:
    store(sqlite, tmp_path, campaign(1), campaign(2, slower=1.5))
    code, output, _ = call("--since", since, "--json")
    assert code == 1
    document = json.loads(output)
    assert document["compared"] == {"speed_ratio": 2, "accuracy": 4}
    first, second = document["regressions"]
    assert {first["factors"]["threads"], second["factors"]["threads"]} == {1, 2}
    assert first["factors"]["strategy"] == "nolock"
    assert (first["measure"], first["kind"]) == ("speed_ratio", "ratio")
    assert first["low"] < 1 / 1.5 < first["high"] < 1 / 1.05
    assert (first["before"]["git_commit"], first["after"]["git_commit"]) == ("01" * 20, "02" * 20)
    assert (first["before"]["campaign_uid"], first["after"]["campaign_uid"]) == ("campaign-1", "campaign-2")


def test_without_a_regression_the_exit_code_is_0(sqlite: URL, tmp_path: Path, call: Call) -> None:
    store(sqlite, tmp_path, campaign(1), campaign(2), campaign(3, slower=0.5))
    code, output, _ = call("--since", "2026-01-03")
    assert code == 0
    assert output.startswith("Since 2026-01-03, no point became worse.")


def test_more_lost_updates_are_a_regression(sqlite: URL, tmp_path: Path, call: Call) -> None:
    before, after = (campaign(day, strategies=("nolock",), **FULL) for day in (1, 2))
    loses = [Lost(variable="W", expected=1000, lost=400), Lost(variable="b", expected=1000, lost=0)]
    store(sqlite, tmp_path, before, [run.model_copy(update={"lost": loses}) for run in after])
    code, output, _ = call("--since", "2026-01-03", "--json")
    assert code == 1
    assert {found["measure"] for found in json.loads(output)["regressions"]} == {"lost"}


def test_a_measure_and_a_platform_may_be_chosen(sqlite: URL, tmp_path: Path, call: Call) -> None:
    store(
        sqlite,
        tmp_path,
        campaign(1),
        campaign(2, slower=1.5),
        campaign(3, platform=ELSEWHERE),
        campaign(4, platform=ELSEWHERE),
    )
    _, output, _ = call("--since", "2026-01-03", "--json")
    (platform,) = {found["platform"] for found in json.loads(output)["regressions"]}
    assert call("--since", "2026-01-03", "--platform", platform)[0] == 1
    assert call("--since", "2026-01-03", "--measure", "accuracy")[0] == 0
    code, _, errors = call("--since", "2026-01-03", "--platform", "nowhere")
    assert (code, errors.startswith("tmflow: unknown platform 'nowhere'")) == (2, True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--since", "nonsense"], "tmflow: --since 'nonsense' is neither a date such as 2026-11-01, nor the beginning"),
        (["--since", "2026-99-01"], "tmflow: --since '2026-99-01' is no date"),
        (["--since", "2025-01-01"], "tmflow: nothing to compare with --since 202"),
        (["--since", "2027-01-01"], "tmflow: nothing to compare with --since 202"),
        (["--since", "2026-01-03", "--measure", "speed"], "tmflow: unknown measure 'speed'"),
        (["--since", "\x1b[31m'; DROP TABLE run; --"], "tmflow: --since '\\x1b[31m'; DROP TABLE run; --' is neither"),
        ([], "tmflow: tmflow regressions: missing option '--since'"),
        (["--since", "2026-01-03", "--db", "mysql://u:secret@host/x"], "tmflow: unknown kind of database in --db"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_sentence_and_exit_code_2(
    words: list[str], says: str, sqlite: URL, tmp_path: Path, call
) -> None:
    store(sqlite, tmp_path, campaign(1), campaign(2))
    code, output, errors = call(*words)
    assert (code, output) == (2, "")
    assert errors.startswith(says)
    assert errors.count("\n") == 1
    assert "secret" not in errors


def test_hostile_names_of_experiments_move_no_cursor(sqlite: URL, tmp_path: Path, call: Call) -> None:
    hostile = [
        [
            run.model_copy(update={"experiment": run.experiment.model_copy(update={"name": "<b>\u202efig"})})
            for run in runs
        ]
        for runs in (campaign(1), campaign(2, slower=1.5))
    ]
    store(sqlite, tmp_path, *hostile)
    code, output, _ = call("--since", "2026-01-03")
    assert code == 1
    assert "\\u202efig" in output
    assert "\u202e" not in output
