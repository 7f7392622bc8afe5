"""Ctrl-C and SIGTERM end a study and all its processes without a kill; a second study is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from pathlib import Path

import psutil
import pytest

from tests.conftest import TINY, Checkout, Tmflow, environment
from tmflow.runner.journal import Journal
from tmflow.store import engine, queries

pytestmark = pytest.mark.slow

LONG = deepcopy(TINY)
LONG["defaults"] |= {"driver": "native", "strategy": ["lock"], "threads": [1]}
LONG["experiments"]["tiny"]["factors"]["iterations"] = [40, 10_000_000]
SESSION = deepcopy(TINY)
SESSION["experiments"]["tiny"]["factors"]["iterations"] = [10_000_000]
# The command line, which waits for its children instead of killing them after two seconds, and of giving up after four.
PATIENT = """
from tmflow.__main__ import main
from tmflow.base import processes
processes.GRACE_S = processes.GIVE_UP_S = 600.0
main()
"""


class Running:
    """A running study in a new session, as under a terminal. It kills no process: all have to end when asked to."""

    def __init__(self, checkout: Checkout, *prefix: str) -> None:
        command = [*prefix, sys.executable, "-c", PATIENT, "study", "run"]
        self.checkout = checkout
        self._itself = subprocess.Popen(
            command, env=environment(**checkout.variables), stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.pid = self._itself.pid

    def wait_for(self, what: Callable[[], object]) -> None:
        deadline = time.monotonic() + 300
        while True:
            with suppress(psutil.NoSuchProcess, FileNotFoundError):  # it ended while it was examined
                if what():
                    return
            assert self._itself.poll() is None, self._itself.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def trial_under_way(self) -> bool:
        """Whether the process of a round of this study is in its long trial."""
        rounds = {process.pid for process in self.children() if "tmflow.runner.round" in process.cmdline()}
        paths = self.checkout.results.glob("runs/full/tiny/*/*.now")
        notes = [note for path in paths if (note := Journal(path.with_suffix("")).under_way())]
        trials = [note.trials[0].spec for note in notes if note.pid in rounds and not note.warm_up]
        return any(trial.iterations == 10_000_000 for trial in trials)

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.pid).children(recursive=True)

    def stop(self, number: signal.Signals, *, group: bool = False) -> tuple[int, str]:
        """Stop the study; return its exit code and its output. None of its processes may remain.

        The signal is sent to the study, or to all processes of its `group`, as a terminal does.
        """
        started = self.children()
        assert started
        if group:
            os.killpg(self.pid, number)
        else:
            self._itself.send_signal(number)
        _, said = self._itself.communicate(timeout=60)  # the trial under way takes longer
        assert not [process for process in started if process.is_running()]
        return self._itself.returncode, said


def test_stopped_in_a_native_loop_and_resumed(tmp_path: Path, tmflow: Tmflow, checkout_at: type[Checkout]) -> None:
    checkout = checkout_at(tmp_path / "checkout", LONG)
    study = Running(checkout)
    study.wait_for(study.trial_under_way)

    elsewhere = {**checkout.variables, "TMFLOW_RESULTS_DIR": tmp_path / "elsewhere"}
    for variables in (checkout.variables, elsewhere):
        second = tmflow("study", "run", **variables)
        assert second.returncode == 2
        assert f"another study holds this machine: process {study.pid}, since 20" in second.stderr
        assert f"with the results folder {checkout.results}" in second.stderr
    assert tmflow("study", "run", "--dry-run", **checkout.variables).returncode == 0, "which changes nothing"

    code, said = study.stop(signal.SIGINT)
    assert code == 130
    assert said.splitlines()[-1] == (
        "tmflow: the study was stopped; what is done is kept, and `make study` goes on from there. "
        "No round is complete yet."
    )
    assert "Traceback" not in said
    (campaign,) = json.loads((checkout.results / "runs/full/campaign.json").read_text())["invocations"]
    assert campaign["ended_at_utc"]
    kept = {
        run.uid
        for path in checkout.results.glob("runs/full/tiny/*/*.part")
        for run in Journal(path.with_suffix("")).runs
    }

    study = Running(checkout)
    study.wait_for(study.trial_under_way)
    code, said = study.stop(signal.SIGTERM)
    assert code == 143, said
    journals = [Journal(path.with_suffix("")) for path in checkout.results.glob("runs/full/tiny/*/*.part")]
    assert kept <= {run.uid for journal in journals for run in journal.runs}


@pytest.mark.parametrize("prefix", [(), ("sh", "-c", "trap '' INT; exec \"$@\"", "sh")], ids=["terminal", "background"])
def test_rounds_are_stored_when_all_processes_are_interrupted_at_once(
    prefix: tuple[str, ...], tmp_path: Path, tmflow: Tmflow, checkout_at: type[Checkout]
) -> None:
    """As by Ctrl-C in a terminal; also if a script started the study in the background, with SIGINT ignored."""
    config = deepcopy(LONG)
    factors = {**config["experiments"]["tiny"]["factors"], "iterations": 40}
    config |= {"first": ["short"]}
    config["experiments"]["short"] = {"question": "Is it stored?", "factors": factors}
    study = Running(checkout_at(tmp_path / "checkout", config), *prefix)
    study.wait_for(study.trial_under_way)
    code, said = study.stop(signal.SIGINT, group=True)
    assert code == 130, said
    assert said.splitlines()[-1] == (
        "tmflow: the study was stopped; what is done is kept, and `make study` goes on from there. "
        "2 complete rounds can be seen with `make portal` and `tmflow claims`."
    )
    assert "snakemake" not in said.lower()
    claims = json.loads(tmflow("claims", "--json", **study.checkout.variables).stdout)
    assert claims
    rounds = queries.rounds(engine.open_reader(engine.sqlite_url(study.checkout.results / "study.db")))
    assert sorted(zip(rounds["experiment"], rounds["round"], strict=True)) == [("short", 1), ("short", 2)]


def test_stopped_in_a_step_of_a_session(tmp_path: Path, checkout_at: type[Checkout]) -> None:
    study = Running(checkout_at(tmp_path / "checkout", SESSION))
    study.wait_for(study.trial_under_way)
    code, said = study.stop(signal.SIGINT)
    assert code == 130, said


def test_stopped_in_the_build(tmp_path: Path, checkout_at: type[Checkout]) -> None:
    checkout = checkout_at(tmp_path / "checkout", LONG)
    (checkout.results / "build" / "variants.json").unlink()
    for library in (checkout.results / "build" / "lib").iterdir():
        library.unlink()
    study = Running(checkout)

    def compiles() -> bool:
        return any("cc1plus" in process.name() for process in study.children())

    study.wait_for(compiles)
    code, said = study.stop(signal.SIGINT)
    assert code == 130, said
    assert not (checkout.results / "build" / "variants.json").exists()
