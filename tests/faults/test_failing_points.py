"""Points that crash, hang, run out of memory or diverge are recorded with a reason, and the study continues."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import Checkout, Tmflow, environment
from tmflow.base.errors import BadInput
from tmflow.runfile import record
from tmflow.runner.journal import Journal
from tmflow.spec.trial import TrialSpec

pytestmark = [pytest.mark.slow, pytest.mark.deep]

ENDLESS = 10_000_000
MANY = range(20, 60)  # steps: a third of such trials diverge; in the others all units stay at zero
CONFIG: dict[str, Any] = {
    "dataset": "digits",
    "rounds": 1,
    "trial_timeout_s": 15,
    "defaults": {"strategy": "lock", "test_images": 50, "learning_rate": 0.5},
    "experiments": {
        "ends": {
            "question": "How does a trial end that another signal, or its time, ends?",
            "factors": {
                "driver": "native", "model": "mnist_softmax", "batch": [1, 2, 3], "threads": 1,
                "iterations": [40, ENDLESS],
            },
        },
        "memory": {
            "question": "What becomes of a trial whose 64 gradients of 31 MB do not fit?",
            "factors": {
                "driver": "native", "model": "mnist_mlp", "hidden": 10_000, "activation": "relu", "batch": 1000,
                "threads": [64], "iterations": 64,
            },
        },
        "diverges": {
            "question": "What becomes of a trial that leaves the numbers?",
            "factors": {
                "model": "mnist_deep", "dropout_keep": 0.5, "batch": 1, "threads": 1, "learning_rate": 50,
                "iterations": [1, *MANY],
            },
        },
    },
}  # fmt: skip
SIGNALS = {1: signal.SIGSEGV, 2: signal.SIGKILL}  # by batch: a crash, and the kernel's kill when memory is full
MEMORY_BYTES = 3 * 2**30


class Faults(threading.Thread):
    """Ends the endless trials by their signals at every attempt, and limits the memory of `memory`."""

    def __init__(self, study: psutil.Process, results: Path) -> None:
        super().__init__()
        self._study, self._results = study, results

    def run(self) -> None:
        while self._study.is_running() and self._study.status() != psutil.STATUS_ZOMBIE:
            for process in self._study.children(recursive=True):
                with suppress(psutil.Error):
                    step = process.parent()
                    if step and "tmflow.runner.round" in process.cmdline():
                        self._meet(process, step.cmdline())
            time.sleep(0.02)

    def _meet(self, process: psutil.Process, step: list[str]) -> None:
        if "memory" in step:
            process.rlimit(psutil.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        elif "ends" in step and (spec := self._under_way(process)) and spec.iterations == ENDLESS:
            with suppress(KeyError):
                process.send_signal(SIGNALS[spec.batch])

    def _under_way(self, process: psutil.Process) -> TrialSpec | None:
        for note in self._results.glob("runs/full/ends/*/*.now"):
            with suppress(FileNotFoundError, BadInput):  # it may be deleted while it is read
                what = Journal(note.with_suffix("")).under_way()
                if what and what.pid == process.pid and not what.warm_up:
                    return what.trials[0].spec
        return None


def test_the_study_goes_on_and_says_why(tmp_path: Path, tmflow: Tmflow, checkout_at: type[Checkout]) -> None:
    checkout = checkout_at(tmp_path / "checkout", CONFIG)
    command = [sys.executable, "-m", "tmflow", "study", "run"]
    variables = environment(**checkout.variables)
    study = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    faults = Faults(psutil.Process(study.pid), checkout.results)
    faults.start()
    said, complained = study.communicate(timeout=500)
    faults.join()
    assert study.returncode == 0, complained

    runs = [run for path in checkout.results.glob("runs/full/*/*/round-*.jsonl") for run in record.read(path)]
    ends = {(run.experiment.name, run.spec.batch, run.spec.iterations): (run.status, run.reason) for run in runs}
    many = [ends.pop(("diverges", 1, iterations)) for iterations in MANY]
    assert ends == {
        **{("ends", batch, 40): ("ok", None) for batch in (1, 2, 3)},
        ("ends", 1, ENDLESS): ("failed", "its process was ended by SIGSEGV, 2 times"),
        ("ends", 2, ENDLESS): ("failed", "its process was ended by SIGKILL, 2 times"),
        ("ends", 3, ENDLESS): ("timeout", "took longer than 15 s"),
        ("memory", 1000, 64): ("failed", "MemoryError: std::bad_alloc"),
        ("diverges", 1, 1): ("ok", None),
    }  # fmt: skip
    diverged = ("failed", "Diverged: the weights, or the scores of test images, are not finite numbers")
    assert {diverged} <= set(many) <= {diverged, ("ok", None)}
    failed = 4 + many.count(diverged)
    assert f"{len(runs) - failed} of {len(runs)} trials ok, {failed} failed, 0 unsupported" in said
    state = json.loads(tmflow("study", "status", "--json", **checkout.variables).stdout)
    assert state["trials_failed"] == failed
