"""The benchmark of updates: its plan, its calibration, and rounds that measure every subject."""

from __future__ import annotations

import hashlib
import math
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

from tmflow.base.errors import BadInput, unknown
from tmflow.base.processes import TooLong, WorkerFailed, Workers
from tmflow.benchmark.rows import LeftOut
from tmflow.benchmark.subjects import (
    BEST_MUTEX,
    MEMCPY,
    WRITING,
    Gradient,
    Subject,
    every_strategy,
    parse_subjects,
    references,
)
from tmflow.platform.sysfiles import Files
from tmflow.spec.process_env import process_environment

TARGET_S = 0.03  # duration of a measurement: hundreds of times the wake-up of the threads
MAX_UPDATES = 1_000_000_000


def calibrated(seconds: Callable[[int], float]) -> int:
    """Calibrate the number of updates per thread that take about TARGET_S; `seconds` measures a number of updates.

    The first updates are slower (cold caches, unmapped pages), so an estimate counts only if it took at least half of
    the target.
    """
    updates = 1
    while (took := max(seconds(updates), 1e-9)) < TARGET_S / 2 and updates < MAX_UPDATES:
        updates = min(updates * 32, math.ceil(updates * TARGET_S / took), MAX_UPDATES)
    return min(max(1, round(updates * TARGET_S / took)), MAX_UPDATES)


ELEMENTS = (10, 7850, 3211264)  # a bias, W and b of mnist_softmax as one, and the dense layer of mnist_deep
THREADS = (1, 2, 4)
GRADIENTS: tuple[Gradient, ...] = ("constant", "fresh")
MAX_ELEMENTS = 1_000_000_000
MAX_THREADS = 1024
MAX_ROUNDS = 1000


Turn = TypeVar("Turn")


class Cell(NamedTuple):
    """A configuration whose measurements are comparable: a size, a number of threads, a kind of gradient."""

    elements: int
    threads: int
    gradient: Gradient = "constant"


@dataclass(frozen=True)
class Plan:
    """A plan. reference: the baseline of ratios, a subject or BEST_MUTEX; cpus: the CPUs available to this process."""

    subjects: list[Subject]
    cells: list[Cell]
    rounds: int
    seed: int
    reference: str
    cpus: int

    def require_reference(self, runnable: list[Subject]) -> None:
        """Raise BadInput if the baseline of ratios cannot run here; std::mutex always can."""
        if self.reference not in {BEST_MUTEX, *(subject.name for subject in runnable)}:
            raise BadInput(f"--reference '{self.reference}' cannot run here.")

    def places(self, subjects: Sequence[Subject]) -> list[list[tuple[Subject, Cell]]]:
        """The measurements: for each cell, the subjects measured in it."""
        return [[(s, cell) for s in subjects if s.has_gradient(cell.gradient)] for cell in self.cells]


def shuffled_turns(cells: Sequence[Sequence[Turn]], seed: int, number: int) -> list[Turn]:
    """The turns of round `number`: shuffled cells, and within each cell its shuffled measurements.

    The generator's seed is the first 32 bits of the SHA-256 of "SEED/NUMBER". The static program has the same order
    (native_ops/runner/turns.hpp).
    """
    order = random.Random(int(hashlib.sha256(f"{seed}/{number}".encode()).hexdigest()[:8], 16))
    shuffled = [list(cell) for cell in cells]
    order.shuffle(shuffled)
    for cell in shuffled:
        order.shuffle(cell)
    return [turn for cell in shuffled for turn in cell]


def make_plan(
    elements: str | None,
    threads: str | None,
    strategy: str | None,
    rounds: int,
    seed: int,
    reference: str | None,
    gradient: str = "fresh",
) -> Plan:
    """Make the plan of the options; None selects the default of an option. Raises BadInput for invalid ones."""
    cpus = len(os.sched_getaffinity(0))
    sizes = list(ELEMENTS) if elements is None else numbers("elements", elements, MAX_ELEMENTS)
    counts = [t for t in THREADS if t <= cpus] if threads is None else numbers("threads", threads, MAX_THREADS)
    check_rounds_and_seed(rounds, seed)
    subjects = every_strategy() if strategy is None else parse_subjects(strategy)
    subjects += [one for one in references() if one.name not in {subject.name for subject in subjects}]
    names = [BEST_MUTEX, *(subject.name for subject in subjects if subject.strategy not in (MEMCPY, WRITING))]
    if reference is not None and reference not in names:
        raise unknown("reference", reference, names)
    cells = [Cell(n, t, one) for n in sizes for t in counts for one in _gradients(gradient)]
    _check_memory(cells)
    return Plan(subjects, cells, rounds, seed, reference or BEST_MUTEX, cpus)


def check_rounds_and_seed(rounds: int, seed: int) -> None:
    """Raise BadInput for invalid values."""
    if not 1 <= rounds <= MAX_ROUNDS:
        raise BadInput(f"rounds is {rounds}, but should be from 1 to {MAX_ROUNDS}.")
    if not 0 <= seed < 2**31:
        raise BadInput(f"seed is {seed}, but should be from 0 to {2**31 - 1}.")


def numbers(name: str, text: str, high: int) -> list[int]:
    """Parse a comma-separated list of integers from 1 to `high`."""
    values = []
    for word in text.split(","):
        if not word.strip().isdecimal() or not 1 <= int(word) <= high:
            raise BadInput(f"{name} is '{word.strip()}' in '{text}', but should be whole numbers from 1 to {high}.")
        values.append(int(word))
    if len(set(values)) < len(values):
        raise BadInput(f"{name} has a number twice in '{text}': once is enough.")
    return values


def _gradients(text: str) -> list[Gradient]:
    """Parse a comma-separated list of kinds of gradient; the result is in the order of GRADIENTS."""
    words = [word.strip() for word in text.split(",")]
    if not set(words) <= set(GRADIENTS) or len(set(words)) < len(words):
        raise BadInput(f"gradient is '{text}', but should be constant, fresh, or constant,fresh.")
    return [one for one in GRADIENTS if one in words]


def _check_memory(cells: list[Cell]) -> None:
    """Raise BadInput if memory is short: at most 12 bytes per element and thread, and 4 for the variable."""
    available = _available_bytes()
    for cell in cells:
        needed = cell.elements * (12 * cell.threads + 4)
        if available is not None and needed > available:
            raise BadInput(
                f"elements {cell.elements} with threads {cell.threads} needs {needed / 1e9:.1f} GB, "
                f"but {available / 1e9:.1f} GB are available."
            )


def _available_bytes() -> int | None:
    for line in (Files().text("proc/meminfo") or "").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


LIMIT_S = 10.0  # a longer measurement is aborted
START_LIMIT_S = 60.0  # for a worker's first answer
PATIENCE_S = 4.0  # a subject that used more time in a cell gets only FEWEST_ROUNDS
FEWEST_ROUNDS = 3

Answer = dict[str, Any]  # of the worker: `_core.MeasuredRow`, its aborts by text
Place = tuple[str, Cell]  # a subject by its name, in a cell


@dataclass
class Measured:
    """The measurements of a subject in a cell: an answer per round, None if it had no turn."""

    updates: int  # per thread and measurement, as calibrated
    by_round: list[Answer | None] = field(default_factory=list)
    turn_by_round: list[int] = field(default_factory=list)  # its position in the round, from 0
    spent_s: float = 0.0

    @property
    def rounds(self) -> int:
        return sum(answer is not None for answer in self.by_round)


@dataclass
class Outcome:
    subjects: list[Subject]  # those that run here
    measured: dict[Place, Measured] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)


class NotMeasurable(ValueError):
    """The cost of an update cannot be computed from the measurements; the message gives the reason."""


def update_times(cell: Cell, measured: Measured, written: Measured | None) -> list[float | None]:
    """Microseconds per update and round; for fresh gradients, minus the time of writing in the same round.

    Raises NotMeasurable if that leaves nothing.
    """
    times = times_by_round(measured)
    if cell.gradient == "constant":
        return times
    if written is None:
        raise NotMeasurable("the writing of its gradient was not measured")
    differences = [
        None if us is None or writing is None else us - writing
        for us, writing in zip(times, times_by_round(written), strict=True)
    ]
    if any(us is not None and us <= 0 for us in differences):
        raise NotMeasurable("in a round it took no longer than the writing of its gradient")
    return differences


def times_by_round(measured: Measured) -> list[float | None]:
    """Microseconds of wall time per update and round, including the writing of a fresh gradient."""
    return [None if one is None else 1e6 * one["seconds"] / one["updates"] for one in measured.by_round]


class Bench:
    """Runs a plan on the given workers."""

    def __init__(self, plan: Plan, workers: Workers) -> None:
        self._plan = plan
        self._workers = workers

    def runnable(self) -> Outcome:
        """Find the subjects that can run here; the outcome has no measurements yet.

        Raises BadInput if one that was asked for by name does not.
        """
        outcome = Outcome([])
        for subject in self._plan.subjects:
            if reason := why_not(self._workers, subject):
                outcome.left_out.append(LeftOut(name=subject.name, reason=reason, failed=False))
            else:
                outcome.subjects.append(subject)
        return outcome

    def measure(self, outcome: Outcome, progress: Callable[[int, int], None]) -> None:
        """Calibrate every subject in every cell, then measure all rounds; `progress` receives done and total."""
        cells = self._plan.places(outcome.subjects)
        places = [place for cell in cells for place in cell]
        total = len(places) * (1 + self._plan.rounds)
        for done, (subject, cell) in enumerate(places):
            progress(done, total)
            self._guarded(outcome, subject, cell, self._calibrate)
        for number in range(1, self._plan.rounds + 1):
            for turn, (subject, cell) in enumerate(shuffled_turns(cells, self._plan.seed, number)):
                progress(number * len(places) + turn, total)
                self._guarded(outcome, subject, cell, partial(self._take_turn, turn))
        progress(total, total)

    def _guarded(
        self, outcome: Outcome, subject: Subject, cell: Cell, work: Callable[[Outcome, Subject, Cell], None]
    ) -> None:
        """Measure a turn; a failure drops the subject from this cell only."""
        try:
            work(outcome, subject, cell)
        except WorkerFailed as failure:
            outcome.measured.pop((subject.name, cell), None)
            # A plain mutex that takes too long in a cell cannot be the best one: this is no failure.
            expendable = subject.is_reference and not subject.asked_for and isinstance(failure, TooLong)
            reason = str(failure)
            outcome.left_out.append(LeftOut(name=subject.name, reason=reason, **cell._asdict(), failed=not expendable))

    def _calibrate(self, outcome: Outcome, subject: Subject, cell: Cell) -> None:
        updates = calibrated(lambda n: float(self._ask(subject, cell, n)["seconds"]))
        outcome.measured[subject.name, cell] = Measured(updates)

    def _take_turn(self, turn: int, outcome: Outcome, subject: Subject, cell: Cell) -> None:
        if (measured := outcome.measured.get((subject.name, cell))) is None:
            return
        measured.turn_by_round.append(turn)
        if measured.rounds >= FEWEST_ROUNDS and measured.spent_s > PATIENCE_S:
            measured.by_round.append(None)
            return
        began = time.monotonic()
        measured.by_round.append(self._ask(subject, cell, measured.updates))
        measured.spent_s += time.monotonic() - began

    def _ask(self, subject: Subject, cell: Cell, updates: int) -> Answer:
        return ask(self._workers, subject, {**cell._asdict(), "updates": updates})


def ask(workers: Workers, subject: Subject, size: Mapping[str, Any] | None = None) -> Answer:
    """Request a measurement from a worker; without a size, ask whether the subject can run here.

    Raises WorkerFailed.
    """
    environment = {} if subject.is_reference else process_environment(subject.strategy, subject.parameters)
    request = {"strategy": subject.strategy, "parameters": subject.given, "values": dict(subject.parameters)}
    return workers.of(environment).ask({**request, **(size or {})}, START_LIMIT_S if size is None else LIMIT_S)


def why_not(workers: Workers, subject: Subject) -> str | None:
    """The reason why a subject cannot run here, or None. Raises BadInput if it was requested by name."""
    try:
        reason: str | None = ask(workers, subject)["why_not"]
    except WorkerFailed as failure:
        reason = str(failure).removeprefix(f"{subject.strategy} cannot run here: ")
    if reason is not None and subject.asked_for:
        raise BadInput(f"'{subject.name}' cannot run here: {reason}.")
    return reason
