"""The benchmark of reads: its plan, and rounds that measure every way to read."""

from __future__ import annotations

import os
import random
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from tqdm import tqdm

from tmflow.analysis import stats
from tmflow.base.clock import utc_now
from tmflow.base.errors import BadInput
from tmflow.base.locks import machine_to_itself
from tmflow.base.processes import WorkerFailed, Workers
from tmflow.benchmark.rows import LeftOut, facts_here
from tmflow.benchmark.storage import Read, SavedReads
from tmflow.benchmark.subjects import Subject, every_strategy, parse_subjects, promised
from tmflow.benchmark.updates import MAX_ELEMENTS, MAX_THREADS, ask, calibrated, check_rounds_and_seed, numbers, why_not
from tmflow.native import registry
from tmflow.runner import machine_load

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
    """Make the plan of the options; None selects the default of an option. Raises BadInput for invalid ones."""
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
    if (variant.promise_snapshots or "none") != "none":
        ways.append(Way(subject, consistent=True, promise=str(variant.promise_snapshots)))
    if not variant.keeps_elsewhere:
        ways.append(Way(subject, consistent=False, promise=str(variant.promise_reads)))
    return ways


Answer = dict[str, Any]  # of the worker: `_core.ReadRow`
Turns = dict[tuple[str, ReadCell], list[Answer]]


def run(plan: ReadPlan) -> SavedReads:
    """Measure a plan. Raises BadInput before any timing if a requested subject cannot run here."""
    with machine_to_itself():
        began_at, before = utc_now(), machine_load.sample()
        with Workers() as workers:
            ways, left_out = _runnable(plan, workers)
            turns = _measured(plan, ways, workers, left_out)
        state = machine_load.between(before, machine_load.sample())
    return SavedReads(
        measured_at_utc=began_at,
        rounds=plan.rounds,
        seed=plan.seed,
        cpus_allowed=plan.cpus,
        machine=state,
        rows=summarised(plan, turns),
        left_out=left_out,
        **facts_here(),
    )


def _runnable(plan: ReadPlan, workers: Workers) -> tuple[list[Way], list[LeftOut]]:
    ways, left_out = [], []
    for way in plan.ways:
        if reason := why_not(workers, way.subject):
            left_out.append(LeftOut(name=way.name, reason=reason, failed=False))
        else:
            ways.append(way)
    return ways, left_out


def _measured(plan: ReadPlan, ways: list[Way], workers: Workers, left_out: list[LeftOut]) -> Turns:
    """Measure every way in every cell once per round; a way that fails in a cell is dropped there."""
    reads: dict[tuple[str, ReadCell], int] = {}
    turns: Turns = {}
    shuffler = random.Random(plan.seed)
    places = [(cell, way) for cell in plan.cells for way in ways]
    bar = tqdm(total=len(places) * (1 + plan.rounds), disable=None, leave=False, file=sys.stderr, unit="turn")
    for number in range(plan.rounds + 1):  # the first round calibrates the number of reads
        cells = shuffler.sample(plan.cells, len(plan.cells))
        for cell, way in [(cell, way) for cell in cells for way in shuffler.sample(ways, len(ways))]:
            bar.update()
            place = way.name, cell
            try:
                if number == 0:
                    reads[place] = calibrated(partial(_seconds, workers, way, cell))
                elif place in reads:
                    turns.setdefault(place, []).append(_read(workers, way, cell, reads[place]))
            except WorkerFailed as failure:
                reads.pop(place, None)
                turns.pop(place, None)
                left_out.append(LeftOut(name=way.name, reason=str(failure), elements=cell.elements, failed=True))
    bar.close()
    return turns


def _seconds(workers: Workers, way: Way, cell: ReadCell, reads: int) -> float:
    return float(_read(workers, way, cell, reads)["seconds"])


def _read(workers: Workers, way: Way, cell: ReadCell, reads: int) -> Answer:
    return ask(workers, way.subject, {"consistent": way.consistent, **cell._asdict(), "reads": reads})


def summarised(plan: ReadPlan, turns: Turns) -> list[Read]:
    """Summarise the measurements as rows: cell by cell, the fastest read first."""
    rows = []
    for cell in plan.cells:
        cell_rows = [_row(plan, way, cell, turns) for way in plan.ways if (way.name, cell) in turns]
        rows += sorted(cell_rows, key=lambda row: row.us_per_read)
    return rows


def _row(plan: ReadPlan, way: Way, cell: ReadCell, turns: Turns) -> Read:
    answers = turns[way.name, cell]
    times = _us(answers)
    us, us_low, us_high = stats.bounded(stats.ratio_interval(times, [1.0] * len(times)))
    plain = turns.get((Way(way.subject, consistent=False, promise="").name, cell))
    over = stats.paired_ratio(times, _us(plain)) if plain else None
    ratio, ratio_low, ratio_high = stats.bounded(over) if over else (None, None, None)
    seconds, checked = sum(one["seconds"] for one in answers), sum(one["checked"] for one in answers)
    promise = way.promise
    if way.consistent:
        promise = promised(way.subject.strategy, promise, way.subject.parameters, cell.elements)
    return Read(
        name=way.name,
        variant=way.subject.name,
        strategy=way.subject.strategy,
        consistent=way.consistent,
        promise=promise,
        **cell._asdict(),
        oversubscribed=cell.readers + cell.writers > plan.cpus,
        us_per_read=us,
        us_low=us_low,
        us_high=us_high,
        us_by_round=list(times),
        ratio=ratio,
        ratio_low=ratio_low,
        ratio_high=ratio_high,
        reads_per_s=sum(one["reads"] for one in answers) / seconds,
        updates_per_s=sum(one["updates"] for one in answers) / seconds,
        checked=checked,
        torn_fraction=sum(one["torn"] for one in answers) / checked,
        rounds=len(answers),
    )


def _us(answers: list[Answer]) -> list[float]:
    return [1e6 * one["seconds"] / one["reads"] for one in answers]
