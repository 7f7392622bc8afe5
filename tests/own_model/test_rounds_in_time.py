"""`measurement.measure` makes its rounds in time, also if calls take longer than they did at first."""

from __future__ import annotations

from itertools import chain, repeat

import pytest

from tests.own_model.clockwork import Clockwork, let_time_pass_by
from tmflow.advice import measurement
from tmflow.advice.candidates import Way
from tmflow.advice.measurement import MIN_ROUNDS, Measurement, measure
from tmflow.base.errors import BadInput

CALIBRATING_RUNS = 2  # of each way, before the first round
AUTO, LOCK, ALONE, OWN = Way("auto", 2), Way("lock", 2), Way("auto", 1), Way(None)
WAYS = [AUTO, LOCK, ALONE, OWN]


def slowing(us: dict[Way, float], slower: float) -> Clockwork:
    """A machine whose calls take `slower` times as long from the first round on. us: of a step before it."""
    return Clockwork({way: chain(repeat(one, CALIBRATING_RUNS), repeat(slower * one)) for way, one in us.items()})


def measured_on(machine: Clockwork, seconds: float, monkeypatch: pytest.MonkeyPatch) -> Measurement:
    let_time_pass_by(machine, monkeypatch)
    return measure(machine, list(machine.us), seconds, lambda _: None)


def steps_of_rounds(measured: Measurement) -> list[dict[Way, int]]:
    numbers = range(1, measured.rounds + 1)
    return [{one.way: one.steps for one in measured.slices if one.round == number} for number in numbers]


def test_rounds_that_fit_into_the_time_make_as_many_steps_as_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = slowing({AUTO: 1000, LOCK: 1300, ALONE: 1900, OWN: 2100}, slower=1)
    measured = measured_on(machine, 60, monkeypatch)
    assert steps_of_rounds(measured) == [{AUTO: 400, LOCK: 400, ALONE: 400, OWN: 190}] * measured.rounds


def test_rounds_that_take_longer_than_planned_have_fewer_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = slowing(dict.fromkeys(WAYS, 1000.0), slower=3)
    measured = measured_on(machine, 4, monkeypatch)
    assert measured.rounds == MIN_ROUNDS
    assert machine.passed_s < 2 * 4
    rounds = steps_of_rounds(measured)
    assert all(len(set(steps.values())) == 1 for steps in rounds)  # equal for ways that are equally fast
    assert rounds[1][AUTO] < rounds[0][AUTO]
    assert measured.calls == rounds[-1]


def test_the_times_are_per_step_of_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    us: dict[Way, float] = {AUTO: 1000, LOCK: 2500, ALONE: 1500, OWN: 40_000}
    measured = measured_on(slowing(us, slower=3), 4, monkeypatch)
    rounds = steps_of_rounds(measured)
    assert rounds[0] != rounds[-1]
    for way in WAYS:
        assert measured.us[way] == pytest.approx([3 * us[way]] * measured.rounds)
    for one in measured.slices:
        assert 1e6 * one.seconds / one.steps == pytest.approx(3 * us[one.way])
        assert one.steps % one.way.workers == 0


def test_rounds_are_equal_if_calls_take_as_long_as_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where three rounds of the usual length do not fit into the time: those that are planned are shorter."""
    machine = slowing(dict.fromkeys(WAYS, 1000.0), slower=1.1)
    measured = measured_on(machine, 3, monkeypatch)
    assert measured.rounds >= MIN_ROUNDS
    rounds = steps_of_rounds(measured)
    assert rounds == [rounds[0]] * measured.rounds
    assert rounds[0][AUTO] < measurement.SLICE_S / 1e-3


def test_each_worker_has_a_call_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = slowing({AUTO: 1e5, LOCK: 1.5e5, ALONE: 1e5}, slower=4)
    measured = measured_on(machine, 10, monkeypatch)
    assert measured.rounds == MIN_ROUNDS
    assert measured.calls == {AUTO: 2, LOCK: 2, ALONE: 2}


def test_what_cannot_be_done_in_twice_the_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = slowing(dict.fromkeys(WAYS, 1000.0), slower=1000)
    with pytest.raises(BadInput, match=r"the time is too short for 3 rounds of all ways: allow more seconds\."):
        measured_on(machine, 4, monkeypatch)
    slow = slowing(dict.fromkeys(WAYS, 1.2e6), slower=1)  # one call of each worker takes longer than that
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
