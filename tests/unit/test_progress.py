"""Progress: counted from what is on disk, at a cost that does not disturb what is timed."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.conftest import TINY
from tests.sample_runs import sample_runs
from tmflow.runner import runfile
from tmflow.runner.journal import Journal
from tmflow.runner.runfile import Run
from tmflow.study import progress
from tmflow.study.config import check_study
from tmflow.study.plan import Plan
from tmflow.study.progress import Progress, watch


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Two rounds of four trials; the data are there, and so is the build."""
    for name, content in (
        ("data/dataset.json", {"name": "digits", "warning": "digits stand in"}),
        ("build/variants.json", {}),
    ):
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text(json.dumps(content))
    return Plan(check_study(TINY), "full", tmp_path)


@pytest.fixture
def runs() -> list[Run]:
    return sample_runs(strategies=("tf_lock", "nolock"), threads=(1, 2), rounds=1)


def test_a_journal_is_counted_as_it_grows_and_the_run_file_takes_its_place(plan: Plan, runs: list[Run]) -> None:
    watched = Progress(plan)
    assert (watched.look(0).planned, watched.look(0).done, watched.look(0).now) == (8, 0, "starting a process")
    journal = Journal(plan.run_files("tiny")[0])
    for number, run in enumerate(runs, start=1):
        journal.begin(run.model_copy(update={"uid": "under-way"}))
        assert watched.look(number).now == (
            f"now tiny, round 1: {run.spec.strategy} with {'1 thread' if run.spec.threads == 1 else '2 threads'}"
        )
        journal.append(run)
        assert watched.look(number).done == number
    with journal.path.open("a") as torn:
        torn.write('{"status": "ok"')
    assert watched.look(9).done == 4, "a line without its end is being written"
    journal.finish()
    assert (watched.look(10).done, watched.look(11).done) == (4, 4)
    runfile.write(plan.run_files("tiny")[1], runs)
    state = watched.look(12)
    assert (state.done, state.left_s, state.now) == (8, 0, "storing and drawing")


def test_a_note_that_a_killed_process_left_is_not_what_runs_now(plan: Plan, runs: list[Run]) -> None:
    journal = Journal(plan.run_files("tiny")[0])
    journal.begin(runs[0])
    os.utime(journal.run_file.with_name(journal.run_file.name + ".now"), (1, 1))
    watched = Progress(plan)
    assert watched.look(0).now == "starting a process"
    journal.begin(runs[0])
    assert watched.look(1).now.startswith("now tiny, round 1")


def test_nothing_is_left_to_measure_once_all_rounds_are_complete(plan: Plan, runs: list[Run]) -> None:
    """Though an experiment without runs of its own has figures to come."""
    drawn = {"question": "And that?", "runs_of": "tiny", "shows": ["accuracy"]}
    study = check_study({**TINY, "experiments": {**TINY["experiments"], "drawn": drawn}})
    two = Plan(study, "full", plan.results)
    for path in two.run_files("tiny"):
        runfile.write(path, runs)
    assert str(Progress(two).look(0)) == "0 failed, storing and drawing"


def test_failures_are_counted_and_a_journal_that_begins_anew_is_too(plan: Plan) -> None:
    runs = sample_runs(strategies=("tf_lock", "htm"), unsupported=("htm",), threads=(1, 2), rounds=1)
    refused = next(run for run in runs if run.status == "unsupported")
    ends = [refused, *(refused.model_copy(update={"status": status}) for status in ("failed", "timeout"))]
    watched, run_file = Progress(plan), plan.run_files("tiny")[0]
    journal = Journal(run_file)
    for run in ends:
        journal.append(run)
    assert (watched.look(0).done, watched.look(0).failed) == (3, 2)
    journal.path.unlink()
    Journal(run_file).append(ends[1])
    assert (watched.look(1).done, watched.look(1).failed) == (1, 1)


def test_time_left_follows_what_the_trials_took(plan: Plan, runs: list[Run]) -> None:
    """Told by the estimate at first; a study that is ten times as slow is believed in the end."""
    watched = Progress(plan)
    first = watched.look(0).left_s
    assert first == pytest.approx(plan.estimated_s("tiny"))
    journal = Journal(plan.run_files("tiny")[0])
    journal.begin(runs[0])
    watched.look(0)
    for run in runs:
        journal.append(run)
    assert watched.look(first / 2).left_s == pytest.approx(first / 2)
    assert watched.look(10 * first).left_s > 2 * first / 2


def sleeping(seconds: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({seconds}); raise SystemExit(3)"])


def test_without_a_terminal_a_line_now_and_then(
    plan: Plan, runs: list[Run], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress._Lines, "every_s", 0.05)
    runfile.write(plan.run_files("tiny")[0], runs)
    assert watch(sleeping(0.5), Progress(plan)) == 3
    warning, *lines = capfd.readouterr().err.splitlines()
    assert warning == "tmflow: digits stand in"
    assert len(lines) > 1
    assert lines[0].startswith("tmflow: 4 of 8 trials done, 0 failed, about ")
    assert lines[0].endswith(" left, starting a process")


def test_a_terminal_gets_one_bar(plan: Plan, runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    runfile.write(plan.run_files("tiny")[0], runs)
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 120))
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        assert watch(sleeping(0.1), Progress(plan)) == 3
        shown = ""
        while select.select([ours], [], [], 0.5)[0]:
            shown += os.read(ours, 10_000).decode()
    os.close(ours)
    assert "4/8 trials |" in shown
    assert "0 failed, about" in shown
    assert shown.count("\n") == 1, "the warning's; the bar stays in its line"


def test_a_look_costs_no_more_than_two_thousandths_of_one_core(plan: Plan, runs: list[Run]) -> None:
    """Of a study of 150 rounds, a third of them measured, with a journal of 100 trials."""
    many = {f"e{n}": {**TINY["experiments"]["tiny"], "rounds": 6} for n in range(25)}
    study = Plan(check_study({**TINY, "experiments": many}), "full", plan.results)
    for name in study.experiments[:8]:
        for path in study.run_files(name):
            runfile.write(path, runs)
    journal = Journal(study.run_files("e9")[0])
    journal.path.parent.mkdir(parents=True)
    journal.path.write_text("".join(map(runfile.to_line, runs * 25)))
    journal.begin(runs[0])
    watched = Progress(study)
    watched.look(0)
    before = time.process_time()
    for second in range(50):
        watched.look(second)
    assert (time.process_time() - before) / 50 < 0.002 * progress.LOOK_EVERY_S
