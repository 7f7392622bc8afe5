"""The measuring itself: rounds in which every subject has its turn, so that what drifts hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tmflow.base.errors import BadInput
from tmflow.base.processes import TooLong, WorkerFailed, Workers
from tmflow.benchmark.calibrated import calibrated
from tmflow.benchmark.left_out import LeftOut
from tmflow.benchmark.plan import Cell, Plan, shuffled_turns
from tmflow.benchmark.subjects import Subject
from tmflow.spec.process_env import process_environment

LIMIT_S = 10.0  # a measurement that takes longer is given up
START_LIMIT_S = 60.0  # of a worker's first answer
PATIENCE_S = 4.0  # a subject that has used so much of a cell gets no more rounds than FEWEST_ROUNDS
FEWEST_ROUNDS = 3

Answer = dict[str, Any]  # of the worker: `_core.MeasuredRow`, its aborts by text
Place = tuple[str, Cell]  # a subject by its name, in a cell


@dataclass
class Measured:
    """What was measured of a subject in a cell: an answer per round, None where it had no turn."""

    updates: int  # per thread and measurement, as calibrated
    by_round: list[Answer | None] = field(default_factory=list)
    turn_by_round: list[int] = field(default_factory=list)  # its place in the order of the round, from 0 on
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
    """The cost of an update does not follow from what was measured; the message says why."""


def update_times(cell: Cell, measured: Measured, written: Measured | None) -> list[float | None]:
    """Microseconds per update, round by round: those of a fresh gradient less the writing's of the same round.

    Raises NotMeasurable if that leaves nothing.
    """
    times = times_by_round(measured)
    if cell.gradient == "constant":
        return times
    if written is None:
        raise NotMeasurable("the writing of its gradient was not measured")
    found = [
        None if us is None or alone is None else us - alone
        for us, alone in zip(times, times_by_round(written), strict=True)
    ]
    if any(us is not None and us <= 0 for us in found):
        raise NotMeasurable("in a round it took no longer than the writing of its gradient")
    return found


def times_by_round(measured: Measured) -> list[float | None]:
    """Microseconds of wall time per update, with the writing of the gradient where it is fresh."""
    return [None if one is None else 1e6 * one["seconds"] / one["updates"] for one in measured.by_round]


class Bench:
    """Carries out a plan with the workers that it is given."""

    def __init__(self, plan: Plan, workers: Workers) -> None:
        self._plan = plan
        self._workers = workers

    def runnable(self) -> Outcome:
        """Which subjects run here, an outcome without measurements yet.

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
        """Calibrate every subject in every cell, then measure all rounds; told to `progress` as done of all."""
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
        """A failure ends the subject's turns in this cell; the others go on."""
        try:
            work(outcome, subject, cell)
        except WorkerFailed as failure:
            outcome.measured.pop((subject.name, cell), None)
            # Of several plain mutexes, one that takes too long in a cell is none of the best: nothing went wrong.
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
    """What a measurement of this size gives; without one, what the worker says of the subject here.

    Raises WorkerFailed.
    """
    environment = {} if subject.is_reference else process_environment(subject.strategy, subject.parameters)
    request = {"strategy": subject.strategy, "parameters": subject.given, "values": dict(subject.parameters)}
    return workers.of(environment).ask({**request, **(size or {})}, START_LIMIT_S if size is None else LIMIT_S)


def why_not(workers: Workers, subject: Subject) -> str | None:
    """Why a subject cannot run here; None if it can. Raises BadInput if one that was asked for by name cannot."""
    try:
        reason: str | None = ask(workers, subject)["why_not"]
    except WorkerFailed as failure:
        reason = str(failure).removeprefix(f"{subject.strategy} cannot run here: ")
    if reason is not None and subject.asked_for:
        raise BadInput(f"'{subject.name}' cannot run here: {reason}.")
    return reason
