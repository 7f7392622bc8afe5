"""After `kill -9` at any moment, the same command completes the study with every trial exactly once."""

from __future__ import annotations

import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import TINY, Checkout, Tmflow, environment
from tmflow.runfile import record
from tmflow.runfile.record import Run
from tmflow.runner.journal import Journal

pytestmark = pytest.mark.slow

SLOW = deepcopy(TINY)
SLOW["experiments"]["tiny"]["factors"]["iterations"] = 4000
TRIALS = 8
KILLS = 15

# Trials of a second in processes that take three to start, so some trials are left when the next command looks.
NATIVE = deepcopy(TINY)
NATIVE["defaults"] |= {"driver": "native", "strategy": ["lock", "nolock"]}
NATIVE["experiments"]["tiny"]["factors"]["iterations"] = 250_000

# Trials of tenths of a second in processes that take one to start, so a kill can hit any step up to the report.
SHORT = deepcopy(TINY)
SHORT["defaults"] |= {"driver": "native", "strategy": ["lock", "nolock", "striped"], "threads": [1, 2]}
SHORT["experiments"]["tiny"] |= {"rounds": 5}
SHORT["experiments"]["tiny"]["factors"]["iterations"] = 10_000
SHORT_TRIALS = 3 * 2 * 5


def start(checkout: Checkout, **streams: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tmflow", "study", "run"]
    return subprocess.Popen(command, env=environment(**checkout.variables), start_new_session=True, **streams)


def wait_for_words(file: Path, words: str) -> None:
    deadline = time.monotonic() + 120
    while words not in file.read_text():
        assert time.monotonic() < deadline, file.read_text()
        time.sleep(0.02)


def wait_for_trials(checkout: Checkout, number: int) -> list[Run]:
    """The trials in the journal, once there are `number` of them and the round is still running."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for path in checkout.results.glob("runs/full/tiny/*/round-001.jsonl.part"):
            runs = Journal(path.with_suffix("")).runs
            if len(runs) >= number:
                return runs
        time.sleep(0.02)
    raise AssertionError("the round did not get so far")


def finished(checkout: Checkout) -> list[Run]:
    assert not list(checkout.results.glob("runs/**/*.part"))
    return [run for path in checkout.results.glob("runs/full/tiny/*/round-*.jsonl") for run in record.read(path)]


def assert_each_exactly_once(runs: list[Run], trials: int = TRIALS) -> None:
    assert len(runs) == trials
    assert set(Counter((run.spec.sha256, run.round) for run in runs).values()) == {1}
    assert len({run.campaign.uid for run in runs}) == 1
    assert {run.status for run in runs} == {"ok"}


@pytest.mark.deep
def test_everything_killed_in_a_round(tmp_path: Path, tmflow: Tmflow, checkout_at: type[Checkout]) -> None:
    checkout = checkout_at(tmp_path / "checkout", SLOW)
    pipeline = start(checkout)
    kept = wait_for_trials(checkout, 2)
    os.killpg(pipeline.pid, signal.SIGKILL)
    pipeline.wait()

    done = tmflow("study", "run", **checkout.variables)
    assert done.returncode == 0, done.stderr
    runs = finished(checkout)
    assert_each_exactly_once(runs)
    assert {run.uid for run in kept} <= {run.uid for run in runs}, "a finished trial was run again"
    first = [run for run in runs if run.round == 1]
    assert {run.resumed for run in first} == {False, True}
    assert not any(run.resumed for run in runs if run.round == 2)


@pytest.mark.deep
@pytest.mark.parametrize("survivor", ["snakemake", "tmflow.runner.round"])
def test_what_outlives_the_command_is_waited_for(tmp_path: Path, checkout_at: type[Checkout], survivor: str) -> None:
    """The same command reports them, shows their progress, and runs nothing twice."""
    checkout = checkout_at(tmp_path / "checkout", NATIVE)
    pipeline = start(checkout)
    wait_for_trials(checkout, 1)
    itself = psutil.Process(pipeline.pid)
    family = [itself, *itself.children(recursive=True)]
    oldest = next(place for place, process in enumerate(family) if survivor in process.cmdline())
    for process in family[oldest:]:
        process.suspend()  # it must not finish before the next command looks
    for process in family[:oldest]:
        process.kill()
    pipeline.wait()

    log = tmp_path / "log"
    with log.open("wb") as file:
        again = start(checkout, stderr=file)
    try:
        wait_for_words(log, "waiting for it to end.")
    finally:
        for process in family[oldest:]:
            process.resume()
    assert again.wait(300) == 0, log.read_text()
    waits = r"still at work in \S+ \(process(es)? [\d, ]+\); waiting for it to end\.\n"
    progress = rf"tmflow: [1-{TRIALS - 1}] of {TRIALS} trials done, 0 failed, "
    assert re.search(waits + progress, log.read_text()), log.read_text()
    runs = finished(checkout)
    assert_each_exactly_once(runs)
    assert not any(run.resumed for run in runs)


@pytest.mark.deep
def test_a_complete_round_outlives_the_step_that_stores_it(
    tmp_path: Path, tmflow: Tmflow, checkout_at: type[Checkout]
) -> None:
    """Snakemake deletes the output of a failed step, so that step must not be the one that stores the round."""
    checkout = checkout_at(tmp_path / "checkout", SHORT)
    assert tmflow("db", "upgrade", **checkout.variables).returncode == 0
    pipeline = start(checkout)
    wait_for_trials(checkout, 1)
    blocked = sqlite3.connect(checkout.results / "study.db", isolation_level=None)
    blocked.execute("BEGIN IMMEDIATE")  # storing waits, so that a storing step can be found
    first = wait_for_round(checkout)
    storing_step(pipeline).kill()
    blocked.execute("ROLLBACK")
    blocked.close()
    assert pipeline.wait(60) == 1
    assert first.exists()

    done = tmflow("study", "run", **checkout.variables)
    assert done.returncode == 0, done.stderr
    assert_each_exactly_once(finished(checkout), SHORT_TRIALS)


def wait_for_round(checkout: Checkout) -> Path:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if complete := list(checkout.results.glob("runs/full/tiny/*/round-001.jsonl")):
            return complete[0]
        time.sleep(0.02)
    raise AssertionError("the round was not completed")


def storing_step(pipeline: subprocess.Popen[bytes]) -> psutil.Process:
    """The process of a round's step that waits for the database."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for process in psutil.Process(pipeline.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if "round" in process.cmdline() and any("study.db" in file.path for file in process.open_files()):
                    return process
        time.sleep(0.02)
    raise AssertionError("no step stores a round")


def kill_at_random(checkout: Checkout, moment: random.Random) -> None:
    """Start the study, kill one of its processes at some moment, and soon afterwards all others."""
    pipeline = start(checkout)
    with suppress(subprocess.TimeoutExpired):
        pipeline.wait(moment.uniform(0.5, 6))
    with suppress(psutil.NoSuchProcess):
        itself = psutil.Process(pipeline.pid)
        moment.choice([itself, *itself.children(recursive=True)]).kill()
    with suppress(subprocess.TimeoutExpired):
        pipeline.wait(moment.uniform(0, 1))
    with suppress(ProcessLookupError):
        os.killpg(pipeline.pid, signal.SIGKILL)
    pipeline.wait()


@pytest.mark.deep
def test_killed_again_and_again(tmp_path: Path, tmflow: Tmflow, checkout_at: type[Checkout]) -> None:
    checkout = checkout_at(tmp_path / "checkout", SHORT)
    moment = random.Random(KILLS)
    for _ in range(KILLS):
        kill_at_random(checkout, moment)
    done = tmflow("study", "run", **checkout.variables)
    assert done.returncode == 0, done.stderr
    assert f"{SHORT_TRIALS} of {SHORT_TRIALS} trials ok" in done.stdout
    runs = finished(checkout)
    assert_each_exactly_once(runs, SHORT_TRIALS)
    with sqlite3.connect(checkout.results / "study.db") as connection:
        stored = [uid for (uid,) in connection.execute("SELECT uid FROM run")]
    assert sorted(stored) == sorted(run.uid for run in runs)
    checked = tmflow("db", "check", **checkout.variables)
    assert checked.returncode == 0, checked.stdout + checked.stderr
