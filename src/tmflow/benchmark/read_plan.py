"""What a benchmark of reads is asked to do, checked before anything runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple

from tmflow.base.errors import BadInput
from tmflow.benchmark.plan import MAX_ELEMENTS, MAX_THREADS, check_rounds_and_seed, numbers
from tmflow.benchmark.subjects import Subject, every_strategy, parse_subjects
from tmflow.native import registry

ELEMENTS, READERS, WRITERS = "7850,3211264", "1", "1"


class ReadCell(NamedTuple):
    """Within a cell, measurements compare."""

    elements: int
    readers: int
    writers: int


@dataclass(frozen=True)
class Way:
    """A way to read under a strategy: by way of it (`consistent`), or by a plain copy that knows nothing of it."""

    subject: Subject
    consistent: bool
    promise: str

    @property
    def name(self) -> str:
        return f"{self.subject.name}, {'consistent' if self.consistent else 'plain'}"


@dataclass(frozen=True)
class ReadPlan:
    ways: list[Way]
    cells: list[ReadCell]
    rounds: int
    seed: int
    cpus: int


def make_read_plan(
    elements: str | None, readers: str | None, writers: str | None, strategy: str | None, rounds: int, seed: int
) -> ReadPlan:
    """The plan that the options describe; None is the fallback of an option. Raises BadInput for what cannot be."""
    cells = [
        ReadCell(n, r, w)
        for n in numbers("elements", elements or ELEMENTS, MAX_ELEMENTS)
        for r in numbers("readers", readers or READERS, MAX_THREADS)
        for w in numbers("writers", writers or WRITERS, MAX_THREADS)
    ]
    check_rounds_and_seed(rounds, seed)
    subjects = every_strategy() if strategy is None else parse_subjects(strategy)
    ways = [way for subject in subjects for way in ways_of(subject)]
    return ReadPlan(ways, cells, rounds, seed, len(os.sched_getaffinity(0)))


def ways_of(subject: Subject) -> list[Way]:
    """How variables can be read under it. Raises BadInput for a reference, which nobody reads."""
    if subject.is_reference:
        raise BadInput(f"'{subject.name}' is a reference for updates, which is not read.")
    variant = registry.require(subject.strategy)
    ways = []
    if (variant.promise_snapshots or "none") != "none":
        ways.append(Way(subject, consistent=True, promise=str(variant.promise_snapshots)))
    if not variant.keeps_elsewhere:
        ways.append(Way(subject, consistent=False, promise=str(variant.promise_reads)))
    return ways
