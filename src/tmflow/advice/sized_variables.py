"""Variables of given sizes, whose updates are measured without a model: for an advice before there is one."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tmflow.advice.candidates import Way
from tmflow.advice.measurement import CountedRun, Counts
from tmflow.arrays.shared_parameters import SharedParameters
from tmflow.base.errors import BadInput
from tmflow.native.automatic import AUTO, Consistency
from tmflow.parallel.threads import work_together
from tmflow.spec.factors import MAX_STEP_US
from tmflow.spec.shapes import Shape, shapes_text, variable_name

if TYPE_CHECKING:
    from tmflow.native._core import CounterRow
    from tmflow.spec.factors import Measures

WORK_ELEMENTS = 20_000  # of a worker's private array, which a second-level cache holds
MAX_DRAWN = 1_000_000  # numbers of rows of a variable that are drawn in advance


class SizedVariables:
    """Variables of float32 that workers update after every so many microseconds of work of their own.

    An update adds 1 to every element, or to those of some rows that were drawn at random, so the values count the
    updates that were not lost. The work in between is arithmetic on a private array: it uses no memory that others use,
    and the interpreter lock is free meanwhile.
    """

    most_per_call = 1
    optimiser = "sgd"
    has_own = False

    def __init__(self, shapes: Sequence[Shape], step_us: float, *, consistency: Consistency) -> None:
        """`step_us`: what a step takes but for the updates. Raises BadInput for a negative time."""
        if not 0 <= step_us <= MAX_STEP_US:
            raise BadInput(f"step_us is {step_us:,.12g}, but should be a number from 0 to {MAX_STEP_US:,}.")
        self._shapes = {variable_name(number): shape for number, shape in enumerate(shapes, start=1)}
        self._values = {name: np.zeros(shape.dimensions, np.float32) for name, shape in self._shapes.items()}
        self._gradients = {name: _gradients(shape) for name, shape in self._shapes.items()}
        self._step_us, self._consistency = step_us, consistency
        self._works = threading.local()
        self._elements_per_us = _arithmetic_speed()

    @property
    def description(self) -> str:
        """The number of elements, and the time of a step."""
        elements, updated = self._sums()
        of_which = "" if updated == elements else f", {updated:,} of which are"
        return (
            f"{elements:,} float32 in {len(self._values)} variables{of_which or ','} updated after every "
            f"{self._step_us:g} us of work"
        )

    def lines(self, way: Way, consistency: str) -> list[str]:
        """The lines for NumPy arrays; an optimizer of tmflow takes the same arguments."""
        chosen = f'consistency="{consistency}"' if way.strategy == AUTO else f'strategy="{way.strategy}"'
        return [
            "from tmflow.arrays import SharedParameters",
            f"shared = SharedParameters(arrays, {chosen})",
            "shared.apply(gradients, learning_rate)    # in each thread",
        ]

    def factors(self) -> dict[str, Any]:
        """The shapes and the time of a step; an update adds 1, which is a learning rate of 1."""
        given = {"driver": "arrays", "shapes": shapes_text(self._shapes.values())}
        return given | {"step_us": float(self._step_us), "batch": 1, "learning_rate": 1.0, "optimiser": self.optimiser}

    def prepare(self, way: Way) -> None:
        """Nothing has to be made ready."""

    def run(self, way: Way, calls: int) -> float:
        """The seconds of so many steps."""
        return self._run(way, calls)[0]

    def count(self, way: Way, calls: int) -> Counts:
        """The shares of lost updates and torn reads, and the times of locks; each step copies what it updates first.

        Torn reads and the times are None where there are more rows than can be watched.
        """
        calls = min(calls, 2**23)  # a float32 counts exactly up to 2^24
        copying, uncounted = replace(way, step="with copies"), None
        try:
            seconds, counters = self._run(copying, calls, "full")
        except BadInput as error:
            uncounted = str(error)
        if uncounted is not None:  # the exception does not hold the arrays any more
            seconds, counters = self._run(copying, calls)
        rows: list[dict[str, Any]] = []
        for name, array in self._values.items():
            expected = calls * self._shapes[name].updated
            lost = expected - int(array.sum(dtype=np.float64))
            rows.append({"variable": name, "expected": expected, "lost": lost})
        share = sum(row["lost"] for row in rows) / sum(row["expected"] for row in rows)
        run = CountedRun(calls, seconds, rows)
        reads, torn = (sum(row[name] or 0 for row in counters) for name in ("reads", "torn"))
        waited_us, held_us = (sum(row[name] for row in counters) / 1e3 / calls for name in ("waited_ns", "held_ns"))
        return Counts(
            lost=share, reads=reads or None, torn=torn if reads else None,
            waited_us=waited_us if held_us else None, held_us=held_us or None, uncounted=uncounted, run=run,
        )  # fmt: skip

    def _run(self, way: Way, calls: int, measures: Measures = "usual") -> tuple[float, list[CounterRow]]:
        """The seconds of so many steps, and the counters of all variables."""
        for array in self._values.values():
            array.fill(0)
        shared = SharedParameters(
            self._values,
            strategy=str(way.strategy),
            consistency=self._consistency if way.strategy == AUTO else None,
            workers=None if measures == "usual" else way.workers,  # full measures take memory for each
            measures=measures,
            by_rows=[name for name, shape in self._shapes.items() if shape.rows is not None],
        )
        numbers = itertools.count()  # whose next is atomic

        def step() -> bool:
            number = next(numbers)
            if number >= calls:
                return False
            gradients = {name: of[number % len(of)] for name, of in self._gradients.items()}
            if way.step == "with copies":
                for name, gradient in gradients.items():
                    shared.copy(name, gradient[0] if isinstance(gradient, tuple) else None)
            self._work()
            if way.step != "without update":
                shared.apply(gradients, -1.0)
            return True

        try:
            began = time.monotonic()
            work_together(way.workers, step)
            seconds = time.monotonic() - began
            return seconds, [row for rows in shared.counters().values() for row in rows]
        finally:
            shared.close()

    def _sums(self) -> tuple[int, int]:
        """The elements of all variables, and those that a step updates."""
        shapes = self._shapes.values()
        return sum(shape.elements for shape in shapes), sum(shape.updated for shape in shapes)

    def _work(self) -> None:
        if not self._step_us:
            return
        array: NDArray[Any] | None = getattr(self._works, "array", None)
        if array is None:
            array = self._works.array = np.full(WORK_ELEMENTS, 0.5)
        rounds, rest = divmod(round(self._step_us * self._elements_per_us), WORK_ELEMENTS)
        for _ in range(rounds):
            np.sin(array, out=array)
        np.sin(array[:rest], out=array[:rest])


def _gradients(shape: Shape) -> list[Any]:
    """The gradients of the steps, in turn: ones for the whole variable, or for different rows of it."""
    if shape.rows is None:
        return [np.ones(shape.dimensions, np.float32)]
    values, random = np.ones((shape.rows, *shape.dimensions[1:]), np.float32), np.random.default_rng(0)
    drawn = max(2, min(64, MAX_DRAWN // shape.rows))
    numbers = (np.sort(random.choice(shape.dimensions[0], shape.rows, replace=False)) for _ in range(drawn))
    return [(rows, values) for rows in numbers]


def _arithmetic_speed() -> float:
    """Elements of an array whose sine takes a microsecond, measured."""
    array, best = np.full(WORK_ELEMENTS, 0.5), math.inf
    for _ in range(20):
        began = time.perf_counter()
        np.sin(array, out=array)
        best = min(best, time.perf_counter() - began)
    return array.size / (1e6 * best)
