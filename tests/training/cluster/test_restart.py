"""A training that a fault ends, and that the same command continues: every step is done and counted once."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import Tmflow, environment
from tmflow.training.cluster.checkpoint import Progress, read

pytestmark = pytest.mark.slow

STEPS, EVERY = 3000, 300
TRAINING = (
    "train", "--driver", "cluster", "--dataset", "digits", "--batch", "5", "--test-images", "50", "--json",
    "--learning-rate", "0.1", "--measures", "full", "--checkpoint-every", str(EVERY),
)  # fmt: skip
PATIENCE_S = 300.0
CONTINUED = re.compile(r"tmflow: continuing from .*: (\d+) of (\d+) steps are done\.")


def task(process: psutil.Process, job: str, index: int) -> psutil.Process:
    """The process of a task of the cluster that this process has started."""
    words = ["tmflow.training.cluster.task", job, str(index)]
    (found,) = [child for child in process.children(recursive=True) if child.cmdline()[2:5] == words]
    return found


@contextmanager
def under_way(file: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A training that has written a checkpoint. At the end no process that it has started is left."""
    command = [sys.executable, "-m", "tmflow", *TRAINING, "--checkpoint", str(file), "--iterations", str(STEPS)]
    with subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        deadline = time.monotonic() + PATIENCE_S
        while not file.exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "no checkpoint appears"
            time.sleep(0.01)
        children = psutil.Process(process.pid).children(recursive=True)
        yield process
    assert not psutil.wait_procs(children, PATIENCE_S)[1]


def killed(file: Path, job: str, index: int, *options: str) -> tuple[dict[str, Any], str]:
    """Kill a task once there is a checkpoint; the run, which failed, and what the command told the user."""
    with under_way(file, *options) as process:
        os.kill(task(psutil.Process(process.pid), job, index).pid, signal.SIGKILL)
        output, told = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, told
    run: dict[str, Any] = json.loads(output)
    assert run["status"] == "failed"
    return run, told


def continued(tmflow: Tmflow, file: Path, *options: str) -> tuple[dict[str, Any], int]:
    """Give the same command again: its run, and the step from which it continued."""
    done = tmflow(*TRAINING, "--checkpoint", file, "--iterations", str(STEPS), *options)
    assert done.returncode == 0, done.stderr
    (match,) = [match for line in done.stderr.splitlines() if (match := CONTINUED.match(line))]
    run: dict[str, Any] = json.loads(done.stdout)
    assert run["resumed"]
    return run, int(match[1])


def updates_of(run: dict[str, Any]) -> Counter[str]:
    """The updates of each variable."""
    updates: Counter[str] = Counter()
    for row in run["counters"]:
        updates[row["variable"]] += row["updates"]
    return updates


def steps_of(run: dict[str, Any]) -> int:
    return sum(int(row["steps"]) for row in run["staleness"])


def progress_of(file: Path) -> Progress:
    """The progress of a checkpoint, whose counts agree with its step."""
    progress = read(file).progress
    updates = updates_of(progress.counts)
    assert updates == {"W": progress.updates, "b": progress.updates}
    return progress


@pytest.mark.parametrize(
    ("job", "index", "name", "workers"),
    [("ps", 0, "server 0", 2), pytest.param("worker", 0, "worker 0", 3, marks=pytest.mark.deep)],
)
def test_every_step_is_counted_once_after_a_server_or_the_chief_is_killed(
    tmflow: Tmflow, tmp_path: Path, job: str, index: int, name: str, workers: int
) -> None:
    file = tmp_path / "softmax.checkpoint"
    run, told = killed(file, job, index, "--threads", "2")
    assert run["reason"] == f"TaskEnded: {name} was ended by SIGKILL"
    progress = progress_of(file)
    assert progress.updates == progress.step < STEPS
    assert told.endswith(
        f"tmflow: the checkpoint {file} has {progress.step} of {STEPS} steps: the same command continues from there.\n"
    )
    run, start = continued(tmflow, file, "--threads", str(workers))
    assert start == progress.step
    assert (updates_of(run), steps_of(run)) == ({"W": STEPS, "b": STEPS}, STEPS)
    lost = {row["variable"]: (row["expected"], row["lost"]) for row in run["lost"]}
    assert lost == {"W": (STEPS * 7840, 0), "b": (STEPS * 10, 0)}
    assert sum(row["reads"] for row in run["reads"]) == 2 * STEPS
    assert run["final_accuracy"] > 0.8
    content = file.read_bytes()
    again = tmflow(*TRAINING, "--checkpoint", file, "--iterations", str(STEPS), "--threads", str(workers))
    assert (again.returncode, again.stdout, again.stderr.count("\n")) == (2, "", 1)
    assert f"{STEPS} of {STEPS} steps are done, with a test accuracy of {run['final_accuracy']:.4f}" in again.stderr
    assert file.read_bytes() == content


@pytest.mark.deep
def test_nothing_is_saved_without_the_steps_of_a_worker_that_was_killed(tmflow: Tmflow, tmp_path: Path) -> None:
    file = tmp_path / "softmax.checkpoint"
    run, _ = killed(file, "worker", 1, "--threads", "2")
    assert "worker 1 was ended by SIGKILL; the others went on" in run["reason"]
    assert progress_of(file).step < STEPS
    run, _ = continued(tmflow, file, "--threads", "2")
    assert (updates_of(run), steps_of(run)) == ({"W": STEPS, "b": STEPS}, STEPS)


@pytest.mark.deep
def test_another_number_of_workers_continues_in_mode_sync(tmflow: Tmflow, tmp_path: Path) -> None:
    file = tmp_path / "softmax.checkpoint"
    killed(file, "ps", 0, "--threads", "2", "--mode", "sync")
    progress = progress_of(file)
    assert progress.updates == progress.step // 2
    run, start = continued(tmflow, file, "--threads", "3", "--mode", "sync")
    updates = progress.updates + (STEPS - start) // 3
    assert updates_of(run) == {"W": updates, "b": updates}
    assert progress_of(file).updates == updates
    assert run["final_accuracy"] > 0.8


@pytest.mark.deep
def test_layers_on_several_workers_continue_after_any_of_them_is_killed(tmflow: Tmflow, tmp_path: Path) -> None:
    """Each of its workers is needed, so that the training ends with any of them."""
    file, options = tmp_path / "mlp.checkpoint", ("--threads", "2", "--mode", "model_parallel", "--model", "mnist_mlp")
    run, told = killed(file, "worker", 1, *options)
    assert run["reason"] == "TaskEnded: worker 1 was ended by SIGKILL"
    assert "the same command continues from there" in told
    run, start = continued(tmflow, file, *options)
    assert 0 < start < STEPS
    assert set(updates_of(run).values()) == {STEPS}
    assert steps_of(run) == STEPS


@pytest.mark.deep
def test_one_worker_reaches_the_weights_of_a_training_without_a_fault(tmflow: Tmflow, tmp_path: Path) -> None:
    file, other = tmp_path / "interrupted", tmp_path / "whole"
    with under_way(file, "--curve-points", "10") as process:
        process.kill()  # the command itself
    run, start = continued(tmflow, file, "--curve-points", "10")
    assert 0 < start < STEPS
    whole = tmflow(*TRAINING, "--checkpoint", other, "--iterations", str(STEPS), "--curve-points", "10")
    assert whole.returncode == 0, whole.stderr
    curves = [
        [(point["iteration"], point["accuracy"]) for point in of["curve"]] for of in (run, json.loads(whole.stdout))
    ]
    assert len(curves[0]) == 10
    assert curves[0] == curves[1]
    reached, expected = read(file).weights, read(other).weights
    assert {name: values.tolist() for name, values in reached.items()} == {
        name: values.tolist() for name, values in expected.items()
    }


def test_a_damaged_file_is_refused_in_one_sentence(tmflow: Tmflow, tmp_path: Path) -> None:
    file = tmp_path / "checkpoint"
    file.write_bytes(b"tmflow checkpoint 1 " + b"0" * 64 + b"\nPK")
    content = file.read_bytes()
    done = tmflow(*TRAINING, "--checkpoint", file)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"tmflow: the checkpoint {file} is damaged: ")
    assert file.read_bytes() == content


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--driver", "native"), "--checkpoint belongs to driver cluster, not to native."),
        (("--rounds", "2"), "--rounds is 2: leave out --rounds."),
        (("--save",), "--checkpoint excludes --save and --save-file"),
        (("--save-file", "run.jsonl"), "--checkpoint excludes --save and --save-file"),
        (("--checkpoint-every", "0"), "--checkpoint-every is 0, but should be at least 1."),
        (("--checkpoint", "/proc/none/checkpoint"), "--checkpoint /proc/none/checkpoint cannot be written"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tmflow_here: Tmflow, tmp_path: Path, options: tuple[str, ...], expected: str
) -> None:
    given = ("train", "--driver", "cluster", "--checkpoint", str(tmp_path / "c"), "--checkpoint-every", "5")
    done = tmflow_here(*given, "--dataset", "digits", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_two_options_belong_together(tmflow_here: Tmflow, tmp_path: Path) -> None:
    done = tmflow_here("train", "--driver", "cluster", "--checkpoint", tmp_path / "c")
    assert done.returncode == 2
    assert "--checkpoint and --checkpoint-every belong together" in done.stderr
