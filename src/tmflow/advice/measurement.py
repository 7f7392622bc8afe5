"""Measure ways of training in interleaved rounds until the time is over."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tmflow.advice.candidates import Way
from tmflow.base.clock import utc_now
from tmflow.base.errors import BadInput
from tmflow.native.automatic import AUTO
from tmflow.runfile.record import MachineState
from tmflow.runner import machine_load

MIN_ROUNDS = 3  # for an interval that means something
SLICE_S = 0.4  # of one way in a round
MAX_CALL_S = 0.2  # the longest call of TensorFlow
MIN_CALLS = 4  # of a worker in a round, unless the time is short
PREPARING = 0.5  # the share of the time after which no further way is prepared
NEEDED = 0.5  # the share of the time until a refusal that MIN_ROUNDS shall take, since calls may become slower
LEAST = 0.1  # the smallest share of SLICE_S to which it is shortened; less would time the start of threads


class CountedRun(NamedTuple):
    """The steps and the seconds of a run that counts, and its lost updates: rows of `runfile.record.Lost`."""

    steps: int
    seconds: float
    lost: list[dict[str, Any]]


class Counts(NamedTuple):
    """Counts of a way in a run of its own, because counting makes its steps slower.

    lost: the share of the updates of elements, None if it is not counted. reads: how many reads of variables there
    were, since each step of this run first copies what it reads; torn: how many of them were torn, None if they cannot
    be told apart, and then uncounted says why. waited_us, held_us: microseconds of a step in which its updates waited
    for locks and held them, summed over the variables, which TensorFlow updates at the same time; None if the strategy
    has no such locks. run: the run itself.
    """

    lost: float | None
    reads: int | None = None
    torn: int | None = None
    waited_us: float | None = None
    held_us: float | None = None
    uncounted: str | None = None
    run: CountedRun | None = None


class Slice(NamedTuple):
    """A run of a way in a round: its place in the round's order, its steps, and what the machine did meanwhile.

    seconds: of the steps. total_s: with what came before and after them. lost: of a run that counts.
    """

    way: Way
    round: int
    ordinal: int
    started_at_utc: str
    steps: int
    seconds: float
    total_s: float
    machine: MachineState
    lost: list[dict[str, Any]] | None = None


class Subject(Protocol):
    """What is measured: a Keras model (`Rehearsal`), or updates of variables of given sizes (`SizedVariables`).

    optimiser: "sgd", "momentum", "adagrad" or "adam". most_per_call: steps of a call. has_own: whether there is an
    optimizer of Keras, too.
    """

    @property
    def description(self) -> str:
        """Its name and size."""

    @property
    def optimiser(self) -> str: ...

    @property
    def most_per_call(self) -> int: ...

    @property
    def has_own(self) -> bool: ...

    def factors(self) -> dict[str, Any]:
        """The factors that the runs of all ways share. Raises BadInput for what no run can hold."""

    def prepare(self, way: Way) -> None:
        """Make a way ready. Raises BadInput for one that is impossible."""

    def run(self, way: Way, calls: int) -> float:
        """The seconds that so many calls of a way take."""

    def count(self, way: Way, calls: int) -> Counts:
        """What a way loses, and how long its workers wait. Raises BadInput if it cannot be counted."""

    def lines(self, way: Way, consistency: str) -> list[str]:
        """The lines with which a user trains so."""


@dataclass
class Measurement:
    """The times of the ways: microseconds per step by round, the same rounds for all ways.

    us: wall time over the steps of all workers; a later round may have fewer steps. calls: of a way in the last round.
    left_out: the ways for which there was no time, and those that the model does not allow, with the reason. slices: of
    all rounds; the runs that count are a round of their own, after the others.
    """

    us: dict[Way, list[float]] = field(default_factory=dict)
    calls: dict[Way, int] = field(default_factory=dict)
    rounds: int = 0
    left_out: dict[Way, str] = field(default_factory=dict)
    state: MachineState | None = None
    slices: list[Slice] = field(default_factory=list)


def steps_of_call(subject: Subject) -> int:
    """How many steps a call shall make: as many as allowed, but for long steps fewer."""
    way = Way(AUTO)
    subject.prepare(way)
    calls = calls_of_slice(subject, way)
    step_s = subject.run(way, calls) / calls
    return max(1, min(subject.most_per_call, int(MAX_CALL_S / step_s)))


def calls_of_slice(subject: Subject, way: Way) -> int:
    """The calls of a prepared way in a round: about SLICE_S, and as many for each worker."""
    return _calls_of(way, seconds_of_call(subject, way))


def seconds_of_call(subject: Subject, way: Way) -> float:
    """The seconds of a call of a prepared way, from a few."""
    calls = MIN_CALLS * way.workers
    for _ in range(2):  # the first run has its costs of beginning
        call_s = max(subject.run(way, calls) / calls, 1e-9)
    return call_s


def measure(subject: Subject, ways: Sequence[Way], seconds: float, progress: Callable[[str], Any]) -> Measurement:
    """Prepare the ways in their order, and run all of them in each round, in an order shuffled by its number.

    If three rounds, the fewest, would take too long, those from then on make fewer calls. Raises BadInput if they take
    longer than twice the time all the same.
    """
    began, measured, watch = time.monotonic(), Measurement(), machine_load.Watch()
    before = machine_load.sample()
    round_s = 0.0  # of the last round; before the first one, as its calls were timed
    for way in ways:
        if time.monotonic() - began > PREPARING * seconds:
            measured.left_out[way] = "no time was left"
            continue
        progress(f"preparing {way}")
        try:
            subject.prepare(way)
            call_s = seconds_of_call(subject, way)
        except BadInput as error:
            measured.left_out[way] = str(error)
            continue
        measured.calls[way] = _equal_calls(way, _calls_of(way, call_s), measured.calls)
        measured.us[way] = []
        round_s += measured.calls[way] * call_s
    planned, share = dict(measured.calls), 1.0
    while (left := seconds - (time.monotonic() - began)) > round_s or measured.rounds < MIN_ROUNDS:
        if measured.rounds < MIN_ROUNDS and left < -seconds:
            raise BadInput(f"the time is too short for {MIN_ROUNDS} rounds of all ways: allow more seconds.")
        needed_s, allowed_s = (MIN_ROUNDS - measured.rounds) * round_s, NEEDED * (left + seconds)
        if needed_s > allowed_s:
            share = max(share * allowed_s / needed_s, LEAST)
            measured.calls = fewer_calls(planned, share)
        progress(f"round {measured.rounds + 1}")
        began_round = time.monotonic()
        for ordinal, way in enumerate(shuffled(measured.us, measured.rounds)):
            calls = measured.calls[way]
            slice_ = time_slice(subject, way, calls, measured.rounds + 1, ordinal, watch)
            measured.us[way].append(1e6 * slice_.seconds / slice_.steps)
            measured.slices.append(slice_)
        measured.rounds += 1
        round_s = time.monotonic() - began_round
    measured.state = MachineState(**machine_load.between(before, machine_load.sample()))
    return measured


def fewer_calls(calls: Mapping[Way, int], share: float) -> dict[Way, int]:
    """About this share of the calls of each way: as many for each worker, one at least, and equal if they were equal.

    calls: as many for each worker, too.
    """
    fewer = {}
    for way, number in calls.items():
        equal = [other for other in calls if (other.per_call, calls[other]) == (way.per_call, number)]
        of_each = math.lcm(*(other.workers for other in equal))
        fewer[way] = max(1, int(share * number / of_each)) * of_each
    return fewer


def shuffled(ways: Iterable[Way], seed: int) -> list[Way]:
    """The ways in the order of a round: that with the number seed + 1."""
    listed = list(ways)
    return random.Random(seed).sample(listed, len(listed))


def time_slice(subject: Subject, way: Way, calls: int, round: int, ordinal: int, watch: machine_load.Watch) -> Slice:
    """Run a way so many calls, and watch the machine meanwhile."""
    before, started_at = watch.begin(), utc_now()
    seconds = subject.run(way, calls)
    after = machine_load.sample()
    machine = MachineState(**watch.since(before, after))
    return Slice(way, round, ordinal, started_at, calls * way.per_call, seconds, after.at_s - before.at_s, machine)


def count(
    subject: Subject, ways: Sequence[Way], measured: Measurement, progress: Callable[[str], Any]
) -> dict[Way, Counts | str]:
    """Count what the ways lose, each in a run of as many calls as in the last round.

    For a way that cannot be counted the value is the reason. The runs are a round after the others, in shuffled order.
    """
    counts: dict[Way, Counts | str] = {}
    watch = machine_load.Watch()
    for ordinal, way in enumerate(shuffled(ways, measured.rounds)):
        progress(f"counting what {way.strategy} loses")
        before, started_at = watch.begin(), utc_now()
        try:
            counts[way] = counted = subject.count(way, measured.calls[way])
        except BadInput as error:
            counts[way] = str(error)
            continue
        after = machine_load.sample()
        if (run := counted.run) is not None:
            machine, total_s = MachineState(**watch.since(before, after)), after.at_s - before.at_s
            place = way, measured.rounds + 1, ordinal, started_at
            measured.slices.append(Slice(*place, run.steps, run.seconds, total_s, machine, run.lost))
    return {way: counts[way] for way in ways}


def _calls_of(way: Way, call_s: float) -> int:
    """The calls of SLICE_S: as many for each worker, and MIN_CALLS at least."""
    return max(MIN_CALLS, round(SLICE_S / call_s / way.workers)) * way.workers


def _equal_calls(way: Way, calls: int, others: Mapping[Way, int]) -> int:
    """The calls of the first way that has as many steps in a call, if they take half to twice the time.

    Runs with equal steps compare in the database, too.
    """
    first = next((n for other, n in others.items() if other.per_call == way.per_call), calls)
    return first if calls <= 2 * first <= 4 * calls and first % way.workers == 0 else calls
