"""The benchmark of reads: its plan, and rounds that measure every way to read."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from tmflow.analysis import stats
from tmflow.base.errors import BadInput
from tmflow.base.processes import WorkerFailed, Workers
from tmflow.benchmark.comparison import geometric_mean, interval_fields
from tmflow.benchmark.plan import (
    MAX_ELEMENTS,
    MAX_THREADS,
    Subject,
    check_rounds_and_seed,
    every_strategy,
    numbers,
    parse_subjects,
)
from tmflow.benchmark.storage import LeftOut, Read, SavedReads
from tmflow.benchmark.updates import Answer, Measured, ask, measure_alone, measure_turns, why_not
from tmflow.native import registry
from tmflow.native.automatic import consistency_of

ELEMENTS, READERS, WRITERS = "7850,3211264", "1", "1"


class ReadCell(NamedTuple):
    """A configuration whose measurements are comparable."""

    elements: int
    readers: int
    writers: int


@dataclass(frozen=True)
class Way:
    """A way to read: through the strategy (`consistent`), or by a plain copy that bypasses it."""

    subject: Subject
    consistent: bool
    consistency: str

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
    """Make a plan from the options; None selects the default of an option. Raises BadInput for invalid ones."""
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
    """The ways to read under a subject. Raises BadInput for a reference, which has no reads."""
    if subject.is_reference:
        raise BadInput(f"'{subject.name}' is a reference for updates, which is not read.")
    variant = registry.require(subject.strategy)
    ways = []
    if (variant.snapshot_consistency or "none") != "none":
        ways.append(Way(subject, consistent=True, consistency=str(variant.snapshot_consistency)))
    if not variant.keeps_elsewhere:
        ways.append(Way(subject, consistent=False, consistency=str(variant.read_consistency)))
    return ways


Measurements = dict[tuple[str, ReadCell], Measured]  # by the name of the way


def measure_reads(plan: ReadPlan) -> SavedReads:
    """Measure a plan. Raises BadInput before any timing if a requested subject cannot run here."""
    (measured, left_out), header = measure_alone(partial(_measure, plan))
    return SavedReads(
        rounds=plan.rounds,
        seed=plan.seed,
        cpus_allowed=plan.cpus,
        rows=summarised(plan, measured),
        left_out=left_out,
        **header,
    )


def _measure(plan: ReadPlan, workers: Workers) -> tuple[Measurements, list[LeftOut]]:
    """Measure every way in every cell once per round; a way that fails in a cell is dropped there."""
    ways, left_out = [], []
    for way in plan.ways:
        if reason := why_not(workers, way.subject):
            left_out.append(LeftOut(name=way.name, reason=reason, failed=False))
        else:
            ways.append(way)

    def ask_for(place: tuple[Way, ReadCell], reads: int) -> Answer:
        way, cell = place
        return ask(workers, way.subject, {"consistent": way.consistent, **cell._asdict(), "reads": reads})

    def failed(place: tuple[Way, ReadCell], failure: WorkerFailed) -> LeftOut:
        way, cell = place
        return LeftOut(name=way.name, reason=str(failure), elements=cell.elements, failed=True)

    cells = [[(way, cell) for way in ways] for cell in plan.cells]
    measured, failures = measure_turns(cells, plan.rounds, plan.seed, ask_for, failed)
    return {(way.name, cell): measurement for (way, cell), measurement in measured.items()}, left_out + failures


def summarised(plan: ReadPlan, measured: Measurements) -> list[Read]:
    """Summarise the measurements as rows: cell by cell, the fastest read first."""
    rows = []
    for cell in plan.cells:
        cell_rows = [_row(plan, way, cell, measured) for way in plan.ways if (way.name, cell) in measured]
        rows += sorted(cell_rows, key=lambda row: row.us_per_read)
    return rows


def _row(plan: ReadPlan, way: Way, cell: ReadCell, measured: Measurements) -> Read:
    answers, us_by_round = measured[way.name, cell].answers, measured[way.name, cell].us_by_round("reads")
    plain = measured.get((replace(way, consistent=False).name, cell))
    total = {name: sum(one[name] for one in answers) for name in ("seconds", "reads", "updates", "checked", "torn")}
    consistency = way.consistency
    if way.consistent:
        consistency = consistency_of(way.subject.strategy, consistency, way.subject.parameters, cell.elements)
    return Read(
        name=way.name,
        variant=way.subject.name,
        strategy=way.subject.strategy,
        consistent=way.consistent,
        consistency=consistency,
        **cell._asdict(),
        oversubscribed=cell.readers + cell.writers > plan.cpus,
        **interval_fields("us_per_read", geometric_mean(us_by_round), "us"),
        us_by_round=us_by_round,
        **interval_fields("ratio", stats.paired_ratio(us_by_round, plain.us_by_round("reads")) if plain else None),
        reads_per_s=total["reads"] / total["seconds"],
        updates_per_s=total["updates"] / total["seconds"],
        checked=total["checked"],
        torn_fraction=total["torn"] / total["checked"],
        rounds=len(answers),
    )
