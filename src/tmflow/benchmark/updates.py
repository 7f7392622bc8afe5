"""The benchmark of updates: calibration, the turns of all rounds (also those of reads), and the rows of the result."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Literal, TypeVar

from tqdm import tqdm

from tmflow.base.clock import utc_now
from tmflow.base.errors import BadInput
from tmflow.base.locks import machine_to_itself
from tmflow.base.processes import TooLong, WorkerFailed, Workers
from tmflow.benchmark.comparison import geometric_mean, interval_fields, with_ratios
from tmflow.benchmark.plan import MEMCPY, WRITING, Cell, Plan, Subject, shuffled_turns
from tmflow.benchmark.storage import (
    Copied,
    LeftOut,
    Row,
    Saved,
    Timed,
    TimedReference,
    TimedVariant,
    Written,
    facts_here,
)
from tmflow.runner import machine_load
from tmflow.spec.abort_codes import raw_code
from tmflow.spec.process_env import process_environment

TARGET_S = 0.03  # duration of a measurement: hundreds of times the wake-up of the threads
MAX_UPDATES = 1_000_000_000


def calibrated(seconds: Callable[[int], float]) -> int:
    """Find the number of updates per thread that takes about TARGET_S; `seconds` times a given number of updates.

    The first updates are slower (cold caches, unmapped pages), so an estimate counts only if it took at least half of
    the target.
    """
    updates = 1
    while (took := max(seconds(updates), 1e-9)) < TARGET_S / 2 and updates < MAX_UPDATES:
        updates = min(updates * 32, math.ceil(updates * TARGET_S / took), MAX_UPDATES)
    return min(max(1, round(updates * TARGET_S / took)), MAX_UPDATES)


LIMIT_S = 10.0  # a longer measurement is aborted
START_LIMIT_S = 60.0  # for a worker's first answer
PATIENCE_S = 4.0  # a subject that used more time in a cell gets only FEWEST_ROUNDS
FEWEST_ROUNDS = 3

Answer = dict[str, Any]  # of the worker: `_core.MeasuredRow`, its aborts by text, or `_core.ReadRow`
Place = TypeVar("Place", bound=Hashable)  # what is measured, and in which cell
Result = TypeVar("Result")


@dataclass
class Measured:
    """The measurements of a place: an answer per round, None if it had no turn."""

    repeats: int  # updates or reads per thread and measurement, as calibrated
    by_round: list[Answer | None] = field(default_factory=list)
    turn_by_round: list[int] = field(default_factory=list)  # its position in the round, from 0
    spent_s: float = 0.0

    @property
    def answers(self) -> list[Answer]:
        return [answer for answer in self.by_round if answer is not None]

    def us_by_round(self, of: Literal["updates", "reads"] = "updates") -> list[float | None]:
        """Microseconds of wall time per update (or read) and round, including the writing of a fresh gradient."""
        return [None if one is None else 1e6 * one["seconds"] / one[of] for one in self.by_round]


def measure_turns(
    cells: Sequence[Sequence[Place]],
    rounds: int,
    seed: int,
    ask_for: Callable[[Place, int], Answer],
    left_out: Callable[[Place, WorkerFailed], LeftOut],
    patience_s: float = math.inf,
) -> tuple[dict[Place, Measured], list[LeftOut]]:
    """Calibrate every place, then measure all rounds in turns; a place that fails is dropped and listed.

    `ask_for` measures a number of repeats. A place that used more than `patience_s` gets only FEWEST_ROUNDS.
    """
    measured: dict[Place, Measured] = {}
    failures = []
    turns = [(0, turn, place) for turn, place in enumerate(chain.from_iterable(cells))]
    for number in range(1, rounds + 1):
        turns += [(number, turn, place) for turn, place in enumerate(shuffled_turns(cells, seed, number))]
    for number, turn, place in tqdm(turns, disable=None, leave=False, file=sys.stderr, unit="turn"):
        try:
            if number == 0:
                measured[place] = Measured(calibrated(partial(_seconds, ask_for, place)))
            elif one := measured.get(place):
                one.turn_by_round.append(turn)
                if len(one.answers) >= FEWEST_ROUNDS and one.spent_s > patience_s:
                    one.by_round.append(None)
                    continue
                began = time.monotonic()
                one.by_round.append(ask_for(place, one.repeats))
                one.spent_s += time.monotonic() - began
        except WorkerFailed as failure:
            measured.pop(place, None)
            failures.append(left_out(place, failure))
    return measured, failures


def _seconds(ask_for: Callable[[Place, int], Answer], place: Place, repeats: int) -> float:
    return float(ask_for(place, repeats)["seconds"])


def measure_alone(measure: Callable[[Workers], Result]) -> tuple[Result, dict[str, Any]]:
    """Measure with the machine to itself; also return the fields of the header that describe the machine."""
    with machine_to_itself():
        began_at, before = utc_now(), machine_load.sample()
        with Workers() as workers:
            result = measure(workers)
        # The workers have ended, so their CPU time counts as our own.
        state = machine_load.between(before, machine_load.sample())
    return result, {"measured_at_utc": began_at, "machine": state, **facts_here()}


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


@dataclass
class Outcome:
    """The subjects of updates that run here, their measurements by name and cell, and what was not measured."""

    subjects: list[Subject]
    measured: dict[tuple[str, Cell], Measured] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)


def run(plan: Plan) -> Saved:
    """Measure a plan with the machine to itself.

    Raises BadInput before any timing if a requested subject cannot run here.
    """
    outcome, header = measure_alone(partial(measure, plan))
    return Saved(
        rounds=plan.rounds,
        seed=plan.seed,
        cpus_allowed=plan.cpus,
        rows=rows(plan, outcome),
        left_out=outcome.left_out,
        **header,
    )


def measure(plan: Plan, workers: Workers) -> Outcome:
    """Measure the subjects of a plan that can run here. Raises BadInput if one that was requested by name cannot."""
    outcome = Outcome([])
    for subject in plan.subjects:
        if reason := why_not(workers, subject):
            outcome.left_out.append(LeftOut(name=subject.name, reason=reason, failed=False))
        else:
            outcome.subjects.append(subject)
    plan.require_reference(outcome.subjects)

    def ask_for(place: tuple[Subject, Cell], updates: int) -> Answer:
        subject, cell = place
        return ask(workers, subject, {**cell._asdict(), "updates": updates})

    def left_out(place: tuple[Subject, Cell], failure: WorkerFailed) -> LeftOut:
        subject, cell = place
        # A plain mutex that takes too long in a cell cannot be the best one, so this is not a failure.
        expendable = subject.is_reference and not subject.asked_for and isinstance(failure, TooLong)
        return LeftOut(name=subject.name, reason=str(failure), **cell._asdict(), failed=not expendable)

    cells = plan.places(outcome.subjects)
    measured, failures = measure_turns(cells, plan.rounds, plan.seed, ask_for, left_out, PATIENCE_S)
    outcome.measured = {(subject.name, cell): measurement for (subject, cell), measurement in measured.items()}
    outcome.left_out += failures
    return outcome


BYTES = 12  # per element: an update reads variable and gradient and writes the variable, 4 each
WRITTEN_BYTES = 4  # per element of a gradient


class NotMeasurable(ValueError):
    """The cost of an update cannot be computed from the measurements; the message gives the reason."""


def rows(plan: Plan, outcome: Outcome) -> list[Row]:
    """The rows of all measurements: cell by cell, copy and writing first, then the fastest first.

    A subject that took no longer than the writing of its gradient is added to the outcome's `left_out`.
    """
    result: list[Row] = []
    for cell in plan.cells:
        by_name = {
            subject.name: (subject, measured)
            for subject in outcome.subjects
            if (measured := outcome.measured.get((subject.name, cell))) and measured.answers
        }
        _, copies = by_name.pop(MEMCPY, (None, None))
        _, written = by_name.pop(WRITING, (None, None))
        if copies is not None:
            us = copies.us_by_round()
            result.append(Copied(**_fields(plan, cell, copies, us, "memcpy_us", "memcpy", BYTES)))
        if written is not None:
            us = written.us_by_round()
            result.append(Written(**_fields(plan, cell, written, us, "writing_us", "writing", WRITTEN_BYTES)))
        timed: list[Timed] = []
        for subject, measured in by_name.values():
            try:
                timed.append(_timed(plan, cell, subject, measured, written))
            except NotMeasurable as reason:
                outcome.left_out.append(LeftOut(name=subject.name, reason=str(reason), failed=False, **cell._asdict()))
        timed.sort(key=lambda row: row.us_per_update)
        result += timed
    return with_ratios(result, plan.reference)


def _timed(plan: Plan, cell: Cell, subject: Subject, measured: Measured, written: Measured | None) -> Timed:
    """The row of a subject without ratios, which `comparison` adds.

    For fresh gradients, a time is that minus the time of writing in the same round. Raises NotMeasurable if a
    difference is not positive, or if the writing was not measured.
    """
    us_by_round, with_writing = measured.us_by_round(), None
    if cell.gradient == "fresh":
        if written is None:
            raise NotMeasurable("the writing of its gradient was not measured")
        with_writing, pairs = us_by_round, zip(us_by_round, written.us_by_round(), strict=True)
        us_by_round = [None if us is None or writing is None else us - writing for us, writing in pairs]
        if any(us is not None and us <= 0 for us in us_by_round):
            raise NotMeasurable("in a round it took no longer than the writing of its gradient")
    fields: dict[str, Any] = {
        **_fields(plan, cell, measured, us_by_round, "us_per_update", "us", BYTES),
        "parameters": dict(subject.parameters),
        "us_with_writing_by_round": with_writing,
        "turn_by_round": measured.turn_by_round,
        **dict.fromkeys(("ratio_to", "ratio", "ratio_low", "ratio_high")),
        **count_outcomes(measured.answers),
    }
    consistency = subject.consistency_for(cell.elements)
    if consistency is None:
        return TimedReference(reference=subject.name, **fields)
    return TimedVariant(variant=subject.name, strategy=subject.strategy, consistency=consistency, **fields)


def _fields(
    plan: Plan,
    cell: Cell,
    measured: Measured,
    us_by_round: list[float | None],
    estimate: str,
    name: str,
    bytes_per_element: int,
) -> dict[str, Any]:
    """The fields of any row; `estimate` and `name` are as for `interval_fields`."""
    us = interval_fields(estimate, geometric_mean(us_by_round), name)
    return {
        **cell._asdict(),
        "oversubscribed": cell.threads > plan.cpus,
        "rounds": len(measured.answers),
        "gb_per_s": bytes_per_element * cell.elements / us[estimate] / 1e3,
        **us,
        "us_by_round": us_by_round,
    }


def count_outcomes(answers: Sequence[Answer]) -> dict[str, Any]:
    """Sum the counts of all rounds and compute the shares."""

    def total(name: str) -> int:
        return sum(answer[name] for answer in answers)

    aborts: Counter[str] = Counter()
    for answer in answers:
        aborts.update({raw_code(int(status)): n for status, n in answer["aborts"].items()})
    aborted, updates = aborts.total(), total("updates")
    commits, sections = total("commits"), total("commits") + total("fallbacks")
    all_known = all(answer["attempts_known"] for answer in answers)
    return {
        "updates": updates,
        "lost_fraction": total("lost") / total("expected"),
        "doubled": total("doubled"),
        "corrupt_elements": total("corrupt_elements"),
        "commits": commits,
        "fallbacks": total("fallbacks"),
        "aborts": dict(sorted(aborts.items())),
        "attempts_known": all_known,
        "commit_fraction": commits / sections if sections else None,
        "aborts_per_commit": aborted / commits if commits and all_known else None,
        "aborts_per_update": aborted / updates if sections and all_known else None,
    }
