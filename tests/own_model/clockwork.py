"""A subject of the advice whose steps take given times, and a clock that only its runs let go on."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tmflow.advice import measurement
from tmflow.advice.candidates import Way
from tmflow.advice.measurement import Counts
from tmflow.base.errors import BadInput


class Clockwork:
    """A subject whose ways take given times, in microseconds per step; `passed_s` is the time of its runs."""

    description, optimiser, most_per_call, has_own = "clockwork", "sgd", 16, True

    def __init__(self, us: dict[Way, Iterator[float]]) -> None:
        self.us, self.ran, self.passed_s = us, list[Way](), 0.0

    def factors(self) -> dict[str, Any]:
        raise BadInput("nothing is saved of it.")

    def prepare(self, way: Way) -> None:
        if way not in self.us:
            raise BadInput("there is no such thing.")

    def run(self, way: Way, calls: int) -> float:
        self.ran.append(way)
        seconds = next(self.us[way]) * calls * way.per_call / 1e6
        self.passed_s += seconds
        return seconds

    def count(self, way: Way, calls: int) -> Counts:
        del way, calls
        return Counts(None)

    def lines(self, way: Way, consistency: str) -> list[str]:
        return [f"{way} {consistency}"]


def let_time_pass_by(subject: Clockwork, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of a measurement is that of its subject: a machine that is busy makes no deadline pass."""
    monkeypatch.setattr(measurement, "time", SimpleNamespace(monotonic=lambda: subject.passed_s))


def always(us: float) -> Iterator[float]:
    while True:
        yield us
