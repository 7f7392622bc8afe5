"""Checkpoints: files from which the training of a cluster continues after a fault, with all counts.

The chief writes one at a stop, while all workers wait at the barrier. No update is under way then, so the weights, the
position in the order of the batches and the counts belong to the same moment. What is done after the last checkpoint is
lost with its counts; it is done again, and counted once.

A file is a line with the version of its format and the SHA-256 of the rest, then an npz of NumPy: an array for each
variable, and the JSON of `Progress`. It is not the format of TensorFlow's Saver, which writes several files, so they
cannot be replaced atomically, and has no place for counts that are in no variable.
"""

from __future__ import annotations

import hashlib
import io
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from tmflow.base import files
from tmflow.base.errors import BadInput
from tmflow.spec.trial import TrialSpec
from tmflow.training.measurement import Measurement, Rows, pauses

Weights = dict[str, NDArray[Any]]

VERSION = 1
HEADER = re.compile(rb"tmflow checkpoint ([0-9]{1,9}) ([0-9a-f]{64})\n")
PROGRESS = "progress.json"  # no variable has a dot in its name
COUNTS = ("counters", "aborts", "staleness", "retries", "failed_publications", "taken_blocks", "reads", "lost")
# The columns of these rows that are counts or seconds; the others tell the rows apart.
SUMMED = frozenset(
    {"updates", "attempts", "commits", "fallbacks", "lock_waited_s", "lock_held_s", "n", "steps", "sections", "reads"}
    | {"torn", "expected", "lost"}
)


class CheckpointPlan(BaseModel):
    """The file of the checkpoints, and the number of steps of the training from one to the next."""

    model_config = ConfigDict(frozen=True)

    file: Path
    every: int = Field(ge=1)


class Progress(BaseModel):
    """What a training has done up to a step."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    factors: dict[str, Any]  # what identifies the spec
    step: int  # of all workers together: the position in the order of the batches
    updates: int  # TensorFlow's global step
    loop_s: float
    final_accuracy: float | None  # of a training that is complete
    curve: Rows
    counts: dict[str, Rows]  # those of COUNTS

    @property
    def total(self) -> int:
        """The number of steps of the training."""
        return int(self.factors["iterations"])

    def __str__(self) -> str:
        return f"{self.step} of {self.total} steps"

    def add_to(self, measured: Measurement) -> None:
        """Add the time of the loop, the curve and the counts to those of the steps that came later."""
        later = [point | {"elapsed_s": point["elapsed_s"] + self.loop_s} for point in measured.curve]
        measured.curve = [*self.curve, *later]
        measured.loop_s += self.loop_s
        for name, rows in self.counts.items():
            setattr(measured, name, sums([*rows, *getattr(measured, name)]))


@dataclass(frozen=True)
class Checkpoint:
    """The content of a file."""

    progress: Progress
    weights: Weights


class Stop(NamedTuple):
    """A step after which all workers stop, and what the chief does meanwhile."""

    step: int
    evaluates: bool
    saves: bool


def sums(rows: Rows) -> Rows:
    """Add up rows that differ in their counts only. A sum with a count that was not measured (None) is None."""
    totals: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        total = totals.setdefault(tuple((name, row[name]) for name in row if name not in SUMMED), {})
        for name, value in row.items():
            if name not in SUMMED or name not in total:
                total[name] = value
            else:
                total[name] = None if None in (value, total[name]) else value + total[name]
    return list(totals.values())


def stops(spec: TrialSpec, start: int, every: int | None) -> list[Stop]:
    """The stops of a training after the step `start`; every: the steps between two checkpoints, None for none.

    In mode sync all workers take part in each update, so with checkpoints the steps from a stop to the end are a
    multiple of the number of workers.
    """
    evaluated, saved = set(pauses(spec)), set[int]()
    if every is not None:
        group = spec.threads if spec.mode == "sync" else 1

        def round_up(step: int) -> int:
            return spec.iterations - (spec.iterations - step) // group * group

        evaluated = set(map(round_up, evaluated))
        saved = {spec.iterations, *map(round_up, range(every, spec.iterations, every))}
    return [Stop(step, step in evaluated, step in saved) for step in sorted(evaluated | saved) if step > start]


def save(
    file: Path, spec: TrialSpec, done: tuple[int, int], measured: Measurement, weights: Weights, old: Progress | None
) -> None:
    """Write a checkpoint atomically.

    done: the steps and the updates since the beginning. measured: the measurements since the restart from `old`, if
    there was one. Raises BadInput if the file cannot be written; the old one is kept.
    """
    measured = replace(measured)
    if old is not None:
        old.add_to(measured)
    progress = Progress(
        factors=spec.identity(),
        step=done[0],
        updates=done[1],
        loop_s=measured.loop_s,
        final_accuracy=measured.final_accuracy if done[0] == spec.iterations else None,
        curve=measured.curve,
        counts={name: getattr(measured, name) for name in COUNTS},
    )
    write(file, Checkpoint(progress, weights))


def write(file: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically, and remove what processes that were killed while they wrote have left."""
    text, body = checkpoint.progress.model_dump_json().encode(), io.BytesIO()
    arrays: dict[str, Any] = {**checkpoint.weights, PROGRESS: np.frombuffer(text, np.uint8)}
    np.savez(body, **arrays)
    digest = hashlib.sha256(body.getbuffer()).hexdigest()
    files.write_bytes(file, f"tmflow checkpoint {VERSION} {digest}\n".encode() + body.getvalue())
    for left in file.parent.iterdir():
        if re.fullmatch(rf"{re.escape(file.name)}\.[0-9]+\.tmp", left.name):
            left.unlink(missing_ok=True)


def read(file: Path) -> Checkpoint:
    """Read a checkpoint. Raises BadInput if it cannot be read, is damaged, or has another format."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise BadInput(f"the checkpoint {file} cannot be read: {error.strerror}.") from error
    if (header := HEADER.match(content)) is None:
        raise BadInput(f"{file} is no checkpoint of tmflow: name another file.")
    version, digest, body = int(header[1]), header[2].decode(), memoryview(content)[header.end() :]
    if version != VERSION:
        raise BadInput(f"the checkpoint {file} has format {version}, and this tmflow reads format {VERSION}.")
    if hashlib.sha256(body).hexdigest() != digest:
        raise BadInput(f"the checkpoint {file} is damaged: name another file, or remove it to train from the start.")
    with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
        weights = {name: arrays[name] for name in arrays.files}
    return Checkpoint(Progress.model_validate_json(weights.pop(PROGRESS).tobytes()), weights)


def resume(file: Path, spec: TrialSpec) -> Checkpoint | None:
    """The checkpoint from which a training with the spec continues; None if there is no file.

    The number of workers may be another one. Raises BadInput as `read`, and if the checkpoint is of another training
    or of one that is complete, or if its remaining steps cannot be split over the workers.
    """
    if not file.exists():
        return None
    checkpoint = read(file)
    progress, here = checkpoint.progress, spec.identity()
    for factor in sorted((here.keys() | progress.factors.keys()) - {"threads"}):
        if (there := progress.factors.get(factor)) != here.get(factor):
            raise BadInput(
                f"the checkpoint {file} is of another training: its {factor} is {there}, and not {here.get(factor)}; "
                "name another file, or give the same options."
            )
    if progress.step == progress.total:
        raise BadInput(
            f"the checkpoint {file} is the end of this training: {progress} are done, with a test accuracy of "
            f"{progress.final_accuracy:.4f}; name another file to train again."
        )
    left = progress.total - progress.step
    if spec.mode == "sync" and left % spec.threads:
        raise BadInput(
            f"the checkpoint {file} has {progress}, and the other {left} cannot be split over {spec.threads} workers "
            "in mode sync: choose another number."
        )
    return checkpoint
