"""`measurement.measure` makes its rounds in time, also if calls take longer than they did at first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tmflow.advice import measurement
from tmflow.advice.candidates import Way
from tmflow.advice.measurement import MIN_ROUNDS, Counts, Measurement, measure
from tmflow.base.errors import BadInput

CALIBRATING_RUNS = 2  # of each way, before the first round
AUTO, LOCK, ALONE, OWN = Way("auto", 2), Way("lock", 2), Way("auto", 1), Way(None)
WAYS = [AUTO, LOCK, ALONE, OWN]


class Machine:
    """A subject with a clock of its own. From the first round on its calls take `slower` times as long as before it.

    us: of a step of each way, before the first round. prepare_s: of each way.
    """

    description, optimiser, most_per_call, has_own = "machine", "sgd", 1, True

    def __init__(self, us: dict[Way, float], slower: float, prepare_s: float = 0.0) -> None:
        self.us, self.slower, self.prepare_s = us, slower, prepare_s
        self.now, self.runs = 0.0, 0

    def monotonic(self) -> float:
        return self.now

    def factors(self) -> dict[str, Any]:
        raise BadInput("nothing is saved of it.")

    def prepare(self, way: Way) -> None:
        del way
        self.now += self.prepare_s

    def run(self, way: Way, calls: int) -> float:
        self.runs += 1
        slower = self.slower if self.runs > CALIBRATING_RUNS * len(self.us) else 1.0
        seconds = slower * self.us[way] * calls * way.per_call / 1e6
        self.now += seconds
        return seconds

    def count(self, way: Way, calls: int) -> Counts:
        del way, calls
        return Counts(None)

    def lines(self, way: Way, consistency: str) -> list[str]:
        return [f"{way} {consistency}"]


def measured_on(machine: Machine, seconds: float, monkeypatch: pytest.MonkeyPatch) -> Measurement:
    monkeypatch.setattr(measurement, "time", SimpleNamespace(monotonic=machine.monotonic))
    return measure(machine, list(machine.us), seconds, lambda _: None)


def steps_of_rounds(measured: Measurement) -> list[dict[Way, int]]:
    numbers = range(1, measured.rounds + 1)
    return [{one.way: one.steps for one in measured.slices if one.round == number} for number in numbers]


def test_rounds_that_fit_into_the_time_make_as_many_steps_as_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine({AUTO: 1000, LOCK: 1300, ALONE: 1900, OWN: 2100}, slower=1)
    measured = measured_on(machine, 60, monkeypatch)
    assert steps_of_rounds(measured) == [{AUTO: 400, LOCK: 400, ALONE: 400, OWN: 190}] * measured.rounds


def test_rounds_that_take_longer_than_planned_have_fewer_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(dict.fromkeys(WAYS, 1000.0), slower=3)
    measured = measured_on(machine, 4, monkeypatch)
    assert measured.rounds == MIN_ROUNDS
    assert machine.now < 2 * 4
    rounds = steps_of_rounds(measured)
    assert all(len(set(steps.values())) == 1 for steps in rounds)  # equal for ways that are equally fast
    assert rounds[1][AUTO] < rounds[0][AUTO]
    assert measured.calls == rounds[-1]


def test_the_times_are_per_step_of_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine({AUTO: 1000, LOCK: 2500, ALONE: 1500, OWN: 40_000}, slower=3)
    measured = measured_on(machine, 4, monkeypatch)
    rounds = steps_of_rounds(measured)
    assert rounds[0] != rounds[-1]
    for way in WAYS:
        assert measured.us[way] == pytest.approx([3 * machine.us[way]] * measured.rounds)
    for one in measured.slices:
        assert 1e6 * one.seconds / one.steps == pytest.approx(3 * machine.us[one.way])
        assert one.steps % one.way.workers == 0


def test_rounds_are_equal_if_calls_take_as_long_as_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where three rounds of the usual length do not fit into the time: those that are planned are shorter."""
    machine = Machine(dict.fromkeys(WAYS, 1000.0), slower=1.1)
    measured = measured_on(machine, 3, monkeypatch)
    assert measured.rounds >= MIN_ROUNDS
    rounds = steps_of_rounds(measured)
    assert rounds == [rounds[0]] * measured.rounds
    assert rounds[0][AUTO] < measurement.SLICE_S / 1e-3


def test_each_worker_has_a_call_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine({AUTO: 1e5, LOCK: 1.5e5, ALONE: 1e5}, slower=4)
    measured = measured_on(machine, 10, monkeypatch)
    assert measured.rounds == MIN_ROUNDS
    assert measured.calls == {AUTO: 2, LOCK: 2, ALONE: 2}


def test_what_cannot_be_done_in_twice_the_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(dict.fromkeys(WAYS, 1000.0), slower=1000)
    with pytest.raises(BadInput, match=r"the time is too short for 3 rounds of all ways: allow more seconds\."):
        measured_on(machine, 4, monkeypatch)
    slow = Machine(dict.fromkeys(WAYS, 1.2e6), slower=1)  # one call of each worker takes longer than that
    with pytest.raises(BadInput, match="the time is too short for 3 rounds"):
        measured_on(slow, 10, monkeypatch)


@pytest.mark.parametrize(
    ("workers", "calls", "share", "fewer"),
    [
        ((2, 1), (400, 400), 0.3, (120, 120)),
        ((2, 1), (400, 190), 0.01, (4, 1)),
        ((2, 3), (24, 24), 0.4, (6, 6)),  # equal before, equal after: whole calls for two workers and for three
        ((2, 3), (24, 15), 0.4, (8, 6)),
        ((2, 4), (8, 16), 1e-6, (2, 4)),
    ],
)
def test_fewer_calls_are_as_many_for_each_worker(
    workers: tuple[int, int], calls: tuple[int, int], share: float, fewer: tuple[int, int]
) -> None:
    ways = [Way("lock", number) for number in workers]
    given = dict(zip(ways, calls, strict=True))
    assert measurement.fewer_calls(given, share) == dict(zip(ways, fewer, strict=True))
