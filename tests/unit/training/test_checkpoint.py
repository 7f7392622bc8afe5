"""The file of a checkpoint: complete or refused, whatever happens to it; and the stops at which it is written."""

from __future__ import annotations

import itertools
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tmflow.base.errors import BadInput
from tmflow.spec.models import factors_of
from tmflow.spec.trial import TrialSpec
from tmflow.study.grid import make_spec
from tmflow.training.cluster.checkpoint import Checkpoint, Stop, read, resume, save, stops, sums, write
from tmflow.training.measurement import Measurement

WEIGHTS = {"W": np.arange(7840, dtype=np.float32).reshape(784, 10), "b": np.ones(10, np.float32)}
COUNTERS = [{"worker": worker, "variable": "W", "updates": 200} for worker in (0, 1)]


def spec_of(**factors: Any) -> TrialSpec:
    usual = {
        "model": "mnist_softmax", "dataset": "digits", "driver": "cluster", "strategy": "lock", "threads": 2,
        "batch": 20, "iterations": 1000, "learning_rate": 0.5,
    }  # fmt: skip
    return make_spec({**factors_of("mnist_softmax"), **usual, **factors}, "a test")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A checkpoint after 400 steps."""
    path = tmp_path / "folder" / "softmax.checkpoint"
    save(path, spec_of(), (400, 400), Measurement(loop_s=2.0, counters=COUNTERS), WEIGHTS, None)
    return path


def refusal(file: Path, **factors: Any) -> str:
    """The sentence with which a training with these factors refuses the file, which stays as it is."""
    content = file.read_bytes()
    with pytest.raises(BadInput) as refused:
        resume(file, spec_of(**factors))
    assert file.read_bytes() == content
    return str(refused.value)


def test_a_checkpoint_is_read_as_it_was_written(file: Path) -> None:
    checkpoint = resume(file, spec_of())
    assert checkpoint is not None
    assert str(checkpoint.progress) == "400 of 1000 steps"
    assert (checkpoint.progress.updates, checkpoint.progress.counts["counters"]) == (400, COUNTERS)
    assert {name: values.tolist() for name, values in checkpoint.weights.items()} == {
        name: values.tolist() for name, values in WEIGHTS.items()
    }


def test_without_a_file_training_starts_from_the_beginning(tmp_path: Path) -> None:
    assert resume(tmp_path / "none", spec_of()) is None


def test_counts_of_several_restarts_add_up(file: Path) -> None:
    old = read(file).progress
    later = Measurement(
        loop_s=1.0,
        curve=[{"iteration": 500, "elapsed_s": 1.0, "accuracy": 0.5}],
        counters=[{"worker": worker, "variable": "W", "updates": 50} for worker in range(3)],
    )
    save(file, spec_of(), (550, 550), later, WEIGHTS, old)
    progress = read(file).progress
    assert [row["updates"] for row in progress.counts["counters"]] == [250, 250, 50]
    assert [point["elapsed_s"] for point in progress.curve] == [3.0]
    assert progress.loop_s == 3.0
    assert (later.loop_s, later.curve[0]["elapsed_s"]) == (1.0, 1.0)  # those of this process go on


def test_only_counts_are_added_and_what_was_not_measured_stays_so() -> None:
    rows = [
        {"worker": 0, "variable": "W", "retries": 1, "sections": 5},
        {"worker": 0, "variable": "W", "retries": 2, "sections": 7},
        {"worker": 0, "variable": "W", "retries": 1, "sections": 1},
    ]
    assert [(row["retries"], row["sections"]) for row in sums(rows)] == [(1, 6), (2, 7)]
    assert sums([{"worker": 0, "attempts": None}, {"worker": 0, "attempts": 3}]) == [{"worker": 0, "attempts": None}]


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.99])
def test_a_truncated_file_is_refused(file: Path, share: float) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    assert any(words in refusal(file) for words in ("is damaged", "is no checkpoint of tmflow"))


@pytest.mark.parametrize("share", [0.0, 0.003, 0.5, 0.999])
def test_a_changed_byte_is_refused(file: Path, share: float) -> None:
    content = bytearray(file.read_bytes())
    content[int(share * len(content))] ^= 1
    file.write_bytes(content)
    assert any(words in refusal(file) for words in ("is damaged", "is no checkpoint of tmflow"))


def test_another_format_is_refused(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"tmflow checkpoint 1 ", b"tmflow checkpoint 2 ", 1))
    assert "has format 2, and this tmflow reads format 1" in refusal(file)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read: Is a directory"):
        resume(tmp_path, spec_of())


@pytest.mark.parametrize(
    ("factors", "expected"),
    [
        ({"strategy": "nolock"}, "its strategy is lock, and not nolock"),
        ({"iterations": 2000}, "its iterations is 1000, and not 2000"),
        ({"model": "mnist_mlp", "hidden": 16, "activation": "relu"}, "is of another training: its "),
        ({"seed": 9}, "and not 9"),
    ],
)
def test_a_checkpoint_of_other_factors_is_refused(file: Path, factors: dict[str, Any], expected: str) -> None:
    assert expected in refusal(file, **factors)


@pytest.mark.parametrize("threads", [1, 3, 8])
def test_another_number_of_workers_is_accepted(file: Path, threads: int) -> None:
    assert resume(file, spec_of(threads=threads)) is not None


def test_workers_that_cannot_share_the_rest_in_mode_sync_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "checkpoint"
    save(file, spec_of(mode="sync"), (400, 200), Measurement(), WEIGHTS, None)
    assert resume(file, spec_of(mode="sync", threads=4)) is not None
    save(file, spec_of(mode="sync"), (402, 201), Measurement(), WEIGHTS, None)
    sentence = refusal(file, mode="sync", threads=4)
    assert "has 402 of 1000 steps, and the other 598 cannot be split over 4 workers in mode sync" in sentence


def test_a_training_that_is_complete_is_not_repeated(file: Path) -> None:
    save(file, spec_of(), (1000, 1000), Measurement(final_accuracy=0.9125), WEIGHTS, None)
    assert "1000 of 1000 steps are done, with a test accuracy of 0.9125" in refusal(file)


WRITE_TOO_MUCH = """
import resource, signal, sys
from dataclasses import replace
from pathlib import Path
from tmflow.training.cluster.checkpoint import read, write
file = Path(sys.argv[1])
checkpoint = read(file)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
write(file, replace(checkpoint, progress=checkpoint.progress.model_copy(update={"step": 800})))
"""


def test_a_process_that_is_killed_while_it_writes_leaves_the_last_checkpoint(file: Path) -> None:
    """The kernel kills it at the 10,000th byte, by its limit on the size of a file."""
    before = read(file)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = subprocess.run([sys.executable, "-c", WRITE_TOO_MUCH, str(file)], check=False, capture_output=True)
    assert done.returncode == -signal.SIGXFSZ, done.stderr
    (left,) = [path for path in file.parent.iterdir() if path != file]
    assert 0 < left.stat().st_size <= 10_000
    assert read(file).progress == before.progress
    write(file, Checkpoint(before.progress, WEIGHTS))
    assert list(file.parent.iterdir()) == [file]


def test_a_training_stops_to_evaluate_and_to_save() -> None:
    assert stops(spec_of(), 0, None) == [Stop(1000, True, False)]
    assert stops(spec_of(), 0, 400) == [Stop(400, False, True), Stop(800, False, True), Stop(1000, True, True)]
    assert stops(spec_of(), 400, 400) == [Stop(800, False, True), Stop(1000, True, True)]
    assert stops(spec_of(curve_points=2), 0, 500) == [Stop(500, True, True), Stop(1000, True, True)]
    assert stops(spec_of(), 0, 5000) == [Stop(1000, True, True)]


def test_in_mode_sync_all_workers_take_part_between_any_two_stops() -> None:
    spec = spec_of(mode="sync", threads=4, curve_points=7)
    steps = [0, *(stop.step for stop in stops(spec, 0, 30))]
    assert steps[-1] == 1000
    assert all((last - first) % 4 == 0 < last - first for first, last in itertools.pairwise(steps))
