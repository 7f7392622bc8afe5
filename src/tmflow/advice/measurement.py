"""Measure ways of training in interleaved rounds until the time is over."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tmflow.advice.candidates import Way
from tmflow.base.errors import BadInput
from tmflow.runfile.record import MachineState
from tmflow.runner import machine_load

LEAST_ROUNDS = 3  # for an interval that means something
SLICE_S = 0.4  # of one way in a round
CALL_S = 0.005  # of one call of TensorFlow, beyond which its overhead does not matter
PREPARING = 0.5  # the share of the time after which no further way is prepared


class Counted(NamedTuple):
    """Counts of a way in a run of its own, because counting makes its steps slower.

    lost: the share of the updates of elements, None if it is not counted. waiting, holding: of the workers' time, the
    shares in which they waited for locks and held them; None if the strategy has no such locks.
    """

    lost: float | None
    waiting: float | None = None
    holding: float | None = None


class Subject(Protocol):
    """What is measured: a Keras model (`Rehearsal`), or updates of variables of given sizes (`SizedVariables`).

    optimiser: "sgd", "momentum", "adagrad" or "adam". most_per_call: steps of a call. first: the way that tells how
    long a step takes.
    """

    @property
    def description(self) -> str:
        """Its name and size."""

    @property
    def optimiser(self) -> str: ...

    @property
    def most_per_call(self) -> int: ...

    @property
    def first(self) -> Way: ...

    def prepare(self, way: Way) -> None:
        """Make a way ready. Raises BadInput for one that is impossible."""

    def run(self, way: Way, calls: int) -> float:
        """The seconds that so many calls of a way take."""

    def count(self, way: Way, calls: int) -> Counted:
        """What a way loses, and how long its workers wait. Raises BadInput if it cannot be counted."""

    def lines(self, way: Way, consistency: str) -> list[str]:
        """The lines with which a user trains so."""


@dataclass
class Measured:
    """The times of the ways: microseconds per step by round, the same rounds for all ways.

    us: wall time over the steps of all workers. left_out: the ways for which there was no time, and those that the
    model does not allow, with the reason.
    """

    us: dict[Way, list[float]] = field(default_factory=dict)
    rounds: int = 0
    left_out: dict[Way, str] = field(default_factory=dict)
    state: MachineState | None = None


def steps_of_call(subject: Subject) -> tuple[int, float]:
    """How many steps a call should make, and the seconds of a step of one thread."""
    way = subject.first
    subject.prepare(way)
    once = subject.run(way, 2)
    calls = max(2, min(200, int(SLICE_S / max(once, 1e-9))))
    step_s = subject.run(way, calls) / calls
    return max(1, min(subject.most_per_call, math.ceil(CALL_S / step_s))), step_s


def measure(
    subject: Subject, ways: Sequence[Way], step_s: float, seconds: float, tell: Callable[[str], Any]
) -> Measured:
    """Prepare the ways in their order, and run all of them in each round, in an order shuffled by its number.

    step_s: about the time of a step. Raises BadInput if the time is over before three rounds.
    """
    began, measured = time.monotonic(), Measured()
    before = machine_load.sample()
    for way in ways:
        if time.monotonic() - began > PREPARING * seconds:
            measured.left_out[way] = "no time was left"
            continue
        tell(f"preparing {way}")
        try:
            subject.prepare(way)
            subject.run(way, way.workers)
        except BadInput as error:
            measured.left_out[way] = str(error)
            continue
        measured.us[way] = []
    last_round_s = 0.0
    while (left := seconds - (time.monotonic() - began)) > last_round_s or measured.rounds < LEAST_ROUNDS:
        if measured.rounds < LEAST_ROUNDS and left < -seconds:
            raise BadInput(f"{seconds:g} seconds are too short for {LEAST_ROUNDS} rounds: give more with --seconds.")
        tell(f"round {measured.rounds + 1}")
        began_round = time.monotonic()
        for way in random.Random(measured.rounds).sample(list(measured.us), len(measured.us)):
            calls = calls_of_slice(way, step_s)
            measured.us[way].append(1e6 * subject.run(way, calls) / (calls * way.per_call))
        measured.rounds += 1
        last_round_s = time.monotonic() - began_round
    measured.state = MachineState(**machine_load.between(before, machine_load.sample()))
    return measured


def calls_of_slice(way: Way, step_s: float) -> int:
    """The calls of a way in a round, as many for each worker: about SLICE_S, or ten for each worker."""
    of_worker = max(10, round(SLICE_S / (step_s * way.per_call)))
    return of_worker * way.workers if way.workers > 1 else of_worker
