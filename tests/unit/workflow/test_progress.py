"""Progress is counted from files, at a cost that does not disturb measurements."""

from __future__ import annotations

import cProfile
import json
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import TINY
from tests.support.sample_runs import sample_runs
from tmflow.runfile import record
from tmflow.runfile.record import Run
from tmflow.runner.journal import Journal, UnderWay
from tmflow.study.config import check_study
from tmflow.study.plan import Plan
from tmflow.workflow import progress
from tmflow.workflow.progress import Pace, Progress, build_log, snakemake_log, watch
from tmflow.workflow.request import parse_request


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Two rounds of four trials; the data and the build exist."""
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


def under_way(trials: Sequence[Run], *, warm_up: bool = False, pid: int | None = None) -> UnderWay:
    """A journal entry of this process, or of another one."""
    return UnderWay(pid=pid or os.getpid(), warm_up=warm_up, trials=list(trials))


def test_a_round_that_ends_during_a_look_is_counted_by_the_next(
    plan: Plan, runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched, journal = Progress(plan), Journal(plan.run_files("tiny")[0])
    for run in runs:
        journal.append(run)
    with monkeypatch.context() as meanwhile:
        exists = Path.exists

        def ends(path: Path) -> bool:
            there = exists(path)
            if path == journal.path:
                journal.finish()
            return there

        meanwhile.setattr(Path, "exists", ends)
        assert watched.look().done == 0
    assert watched.look().done == len(runs)


def test_a_journal_is_counted_as_it_grows_and_the_run_file_takes_its_place(plan: Plan, runs: list[Run]) -> None:
    watched = Progress(plan)
    assert (watched.look().planned, watched.look().done, watched.look().now) == (8, 0, "starting a process")
    journal = Journal(plan.run_files("tiny")[0])
    for number, run in enumerate(runs, start=1):
        journal.begin(under_way([run]))
        assert watched.look().now == (
            f"now tiny, round 1: {run.spec.strategy} with {'1 thread' if run.spec.threads == 1 else '2 threads'}"
        )
        journal.append(run)
        assert watched.look().done == number
    with journal.path.open("a") as torn:
        torn.write('{"status": "ok"')
    assert watched.look().done == 4, "a line without its end is being written"
    journal.finish()
    assert (watched.look().done, watched.look().done) == (4, 4)
    record.write(plan.run_files("tiny")[1], runs)
    state = watched.look()
    assert (state.done, state.left_s, state.now) == (8, 0, "storing and drawing")


def test_a_note_that_a_killed_process_left_is_not_what_runs_now(plan: Plan, runs: list[Run]) -> None:
    journal, watched = Journal(plan.run_files("tiny")[0]), Progress(plan)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as another:
        journal.begin(under_way(runs[:1], pid=another.pid))
        assert watched.look().now.startswith("now tiny, round 1")
    assert watched.look().now == "starting a process"


def test_a_warm_up_is_called_one_and_what_lasts_is_told_with_its_time(plan: Plan, runs: list[Run]) -> None:
    journal, watched = Journal(plan.run_files("tiny")[0]), Progress(plan)
    four = [run for run in runs if run.spec.threads == 2]
    journal.begin(under_way(four, warm_up=True))
    assert watched.look().now == f"now tiny, round 1: warming up {four[0].spec.strategy} with 2 threads"
    long_ago = time.time() - 250
    os.utime(journal.run_file.with_name(journal.run_file.name + ".now"), (long_ago, long_ago))
    assert watched.look().now.endswith("with 2 threads for 4 min")


def test_nothing_is_left_to_measure_once_all_rounds_are_complete(plan: Plan, runs: list[Run]) -> None:
    """Although an experiment without runs still needs its figures."""
    drawn = {"question": "And that?", "runs_of": "tiny", "shows": ["accuracy"]}
    study = check_study({**TINY, "experiments": {**TINY["experiments"], "drawn": drawn}})
    two = Plan(study, "full", plan.results)
    for path in two.run_files("tiny"):
        record.write(path, runs)
    assert str(Progress(two).look()) == "0 failed, storing and drawing"


def test_of_one_figure_only_the_runs_behind_it_are_counted(tmp_path: Path) -> None:
    config = deepcopy(TINY)
    config["experiments"]["other"] = {"question": "?", "factors": config["experiments"]["tiny"]["factors"]}
    config["experiments"]["drawn"] = {"question": "?", "runs_of": "tiny", "shows": ["accuracy"]}
    plan = Plan(check_study(config), "full", tmp_path)
    assert Progress(plan).planned == Progress(plan, plan.experiments).planned == 16
    assert Progress(plan, parse_request(plan, ["drawn"]).sources(plan)).planned == 8
    assert Progress(plan, parse_request(plan, ["drawn", "tiny"]).sources(plan)).planned == 8
    assert Progress(plan, parse_request(plan, ["drawn", "results/report.html"]).sources(plan)).planned == 16


def test_what_is_drawn_is_told_from_the_log_of_this_call(plan: Plan, runs: list[Run]) -> None:
    for path in plan.run_files("tiny"):
        record.write(path, runs)
    log = snakemake_log(plan.results)
    log.parent.mkdir()
    log.write_text("localrule figures:\n    wildcards: experiment=of-an-earlier-call\n9 of 9 steps (100%) done\n")
    watched = Progress(plan)
    assert watched.look().now == "storing and drawing"
    for said, message in (
        ("localrule ingest:\n    input: a, b\n    wildcards: experiment=fig-4.1, definition=0a\n", "storing fig-4.1"),
        ("Finished jobid: 3 (Rule: ingest)\n7 of 31 steps (23%) done\n", "storing fig-4.1 (7 of 31 steps done)"),
        ("localrule figures:\n    wildcards: experiment=fig-4.10\n", "drawing fig-4.10 (7 of 31 steps done)"),
        ("rule notebook:\n    wildcards: notebook=autopsy\n", "executing notebook autopsy (7 of 31 steps done)"),
        ("localrule report:\n    input: c\n30 of 31 steps (97%) done\n", "writing the report (30 of 31 steps done)"),
    ):
        with log.open("a") as file:
            file.write(said)
        assert watched.look().now == message


def test_the_files_of_the_build_are_counted_and_its_time_is_estimated(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plan.results / "build" / "variants.json").unlink()
    log = build_log(plan.results)
    log.parent.mkdir()
    log.write_text("[75/75] Linking an earlier build\n")
    os.utime(log, (1, 1))
    watched = Progress(plan)
    measuring_s = watched.look().left_s
    assert watched.look().now == "building the native strategies"

    seconds = iter((100.0, 110.0, 120.0))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))
    for line, now, left_s in (
        ("-- Configuring done\n[1/58] Building a\n", " (1 of 58 files)", 0),
        ("[11/58] Building b\n", " (11 of 58 files)", 47),
        ("a warning [3/4]\n[21/58] Building c\n[22/5", " (21 of 58 files)", 37),
    ):
        with log.open("a" if left_s else "w") as file:
            file.write(line)
        state = watched.look()
        assert state.now == f"building the native strategies{now}"
        assert state.left_s - measuring_s == pytest.approx(left_s)


def test_failures_are_counted_and_a_journal_that_begins_anew_is_too(plan: Plan) -> None:
    runs = sample_runs(strategies=("tf_lock", "htm"), unsupported=("htm",), threads=(1, 2), rounds=1)
    refused = next(run for run in runs if run.status == "unsupported")
    ends = [refused, *(refused.model_copy(update={"status": status}) for status in ("failed", "timeout"))]
    watched, run_file = Progress(plan), plan.run_files("tiny")[0]
    journal = Journal(run_file)
    for run in ends:
        journal.append(run)
    assert (watched.look().done, watched.look().failed) == (3, 2)
    journal.path.unlink()
    Journal(run_file).append(ends[1])
    assert (watched.look().done, watched.look().failed) == (1, 1)


def taking(runs: list[Run], plan: Plan, times: float) -> list[Run]:
    """The runs, each taking this many times its estimate."""
    return [run.model_copy(update={"total_s": times * plan.costs.trial_s(run.spec)}) for run in runs]


def test_time_left_follows_what_the_trials_took(plan: Plan, runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """At first from the estimate; a study that is ten times as slow is believed once enough of it is measured."""
    first = Progress(plan).look().left_s
    assert first == pytest.approx(plan.estimated_s("tiny"))
    record.write(plan.run_files("tiny")[0], taking(runs, plan, 10))
    assert Progress(plan).look().left_s == pytest.approx(first / 2)
    monkeypatch.setattr(progress, "TRUSTED_S", 0.1 * plan.costs.trial_s(runs[0].spec))
    assert Progress(plan).look().left_s == pytest.approx(10 * first / 2)


def test_trials_that_hung_for_minutes_do_not_make_hours_of_what_is_left() -> None:
    """3 of 4680 trials hung for 5 minutes each: the mean would be twelve times as long."""
    measured = Pace()
    for _ in range(3):
        measured.add(1.0, 300.0)
    assert measured.slower == 1
    for number in range(80):
        measured.add(1.0, 1.1 + number / 1000)
    assert 1.1 < measured.slower < 1.2


def test_a_resumed_study_does_not_take_the_runs_of_its_estimate_for_news(plan: Plan, runs: list[Run]) -> None:
    """They agree with the estimate because it was made from them: the following runs may be slower."""
    record.write(plan.run_files("tiny")[0], taking(runs, plan, 200))
    resumed = Plan(plan.study, plan.scale, plan.results)
    assert resumed.costs.uids == {run.uid for run in runs}
    assert Progress(resumed).look().left_s == pytest.approx(resumed.estimated_s("tiny") / 2)
    assert Progress(resumed)._pace.slower == 1


def sleeping(seconds: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({seconds}); raise SystemExit(3)"])


def test_without_a_terminal_a_line_now_and_then(
    plan: Plan, runs: list[Run], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.05)
    record.write(plan.run_files("tiny")[0], runs)
    waits: list[float] = []
    with subprocess.Popen(["sh", "-c", "cat; exit 3"], stdin=subprocess.PIPE) as child:

        def wait(ends: list[int], _: list[int], __: list[int], within_s: float) -> Any:
            """The child ends after two lines."""
            waits.append(within_s)
            if len(waits) == 2 and child.stdin:
                child.stdin.close()
            return select.select(ends, [], [], within_s)

        monkeypatch.setattr(progress, "select", SimpleNamespace(select=wait))
        assert watch(child, Progress(plan)) == 3
    warning, *lines = capfd.readouterr().err.splitlines()
    assert warning == "tmflow: digits stand in"
    assert len(lines) >= 2
    assert waits == [0.05] * len(lines)
    assert lines[0].startswith("tmflow: 4 of 8 trials done, 0 failed, about ")
    assert lines[0].endswith(" left, starting a process")


def test_a_terminal_gets_one_bar(plan: Plan, runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    record.write(plan.run_files("tiny")[0], runs)
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


def test_a_look_is_a_few_calls_for_each_round_that_is_not_complete(plan: Plan, runs: list[Run]) -> None:
    """A study of 150 rounds, a third of them measured, with a journal of 100 trials. Calls do not vary as times do."""
    many = {f"e{n}": {**TINY["experiments"]["tiny"], "rounds": 6} for n in range(25)}
    study = Plan(check_study({**TINY, "experiments": many}), "full", plan.results)
    for name in study.experiments[:8]:
        for path in study.run_files(name):
            record.write(path, runs)
    journal = Journal(study.run_files("e9")[0])
    journal.path.parent.mkdir(parents=True)
    journal.path.write_text("".join(map(record.to_line, runs * 25)))
    journal.begin(under_way(runs[:1]))
    watched = Progress(study)
    watched.look()
    for _ in range(5000):
        watched._pace.add(1.0, 1.1)
    profile = cProfile.Profile()
    profile.runcall(watched.look)
    incomplete = sum(not round_.complete for round_ in watched._rounds)
    assert sum(entry.callcount for entry in profile.getstats()) < 100 * incomplete
