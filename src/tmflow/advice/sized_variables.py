"""Variables of given sizes, whose updates are measured without a model: for an advice before there is one."""

from __future__ import annotations

import itertools
import math
import threading
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmflow.advice.candidates import Way
from tmflow.advice.measurement import CountedRun, Counts
from tmflow.arrays.shared_parameters import SharedParameters
from tmflow.base.errors import BadInput
from tmflow.native.automatic import AUTO, Consistency
from tmflow.parallel.threads import work_together
from tmflow.spec import shapes
from tmflow.spec.shapes import Shape, shapes_text, variable_name

MAX_ELEMENTS = 1_000_000_000
WORK_ELEMENTS = 20_000  # of a worker's private array, which a second-level cache holds


class SizedVariables:
    """Variables of float32 that workers update after every so many microseconds of work of their own.

    An update adds 1 to every element, so the values count the updates that were not lost. The work in between is
    arithmetic on a private array: it uses no memory that others use, and the interpreter lock is free meanwhile.
    """

    most_per_call = 1
    optimiser = "sgd"
    has_own = False

    def __init__(self, shapes: list[Shape], step_us: float, *, consistency: Consistency) -> None:
        """`step_us`: what a step takes but for the updates; see `parse_shapes`. Raises BadInput for a negative time."""
        if not 0 <= step_us <= 60_000_000:
            raise BadInput(f"a step of {step_us:g} microseconds is none of 0 to 60,000,000.")
        self._values = {
            variable_name(number): np.zeros(shape, np.float32) for number, shape in enumerate(shapes, start=1)
        }
        self._gradients = {name: np.ones_like(array) for name, array in self._values.items()}
        self._step_us, self._consistency = step_us, consistency
        self._works = threading.local()
        self._elements_per_us = _arithmetic_speed()

    @property
    def description(self) -> str:
        """The number of elements, and the time of a step."""
        elements = sum(array.size for array in self._values.values())
        return (
            f"{elements:,} float32 in {len(self._values)} variables, updated after every {self._step_us:g} us of work"
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
        given = {"driver": "arrays", "shapes": shapes_text(array.shape for array in self._values.values())}
        return given | {"step_us": float(self._step_us), "batch": 1, "learning_rate": 1.0, "optimiser": self.optimiser}

    def prepare(self, way: Way) -> None:
        """Nothing has to be made ready."""

    def run(self, way: Way, calls: int) -> float:
        """The seconds of so many steps."""
        return self._run(way, calls)

    def count(self, way: Way, calls: int) -> Counts:
        """The share of the updates of elements that was lost."""
        calls = min(calls, 2**23)  # a float32 counts exactly up to 2^24
        seconds = self._run(way, calls)
        rows: list[dict[str, Any]] = []
        for name, array in self._values.items():
            expected = calls * array.size
            lost = expected - int(array.sum(dtype=np.float64))
            rows.append({"variable": name, "expected": expected, "lost": lost})
        share = sum(row["lost"] for row in rows) / sum(row["expected"] for row in rows)
        return Counts(share, run=CountedRun(calls, seconds, rows))

    def _run(self, way: Way, calls: int) -> float:
        for array in self._values.values():
            array.fill(0)
        shared = SharedParameters(
            self._values, strategy=str(way.strategy), consistency=self._consistency if way.strategy == AUTO else None
        )  # fmt: skip
        numbers = itertools.count()  # whose next is atomic

        def step() -> bool:
            if next(numbers) >= calls:
                return False
            self._work()
            shared.apply(self._gradients, -1.0)
            return True

        try:
            began = time.monotonic()
            work_together(way.workers, step)
            return time.monotonic() - began
        finally:
            shared.close()

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


def parse_shapes(text: str) -> list[Shape]:
    """Parse shapes such as "3136x1024,1024". Raises BadInput for what is none, and for too many elements."""
    parsed = shapes.parse_shapes(text)
    if (elements := sum(math.prod(shape) for shape in parsed)) > MAX_ELEMENTS:
        raise BadInput(f"the variables have {elements:,} elements, more than {MAX_ELEMENTS:,}.")
    return parsed


def _arithmetic_speed() -> float:
    """Elements of an array whose sine takes a microsecond, measured."""
    array, best = np.full(WORK_ELEMENTS, 0.5), math.inf
    for _ in range(20):
        began = time.perf_counter()
        np.sin(array, out=array)
        best = min(best, time.perf_counter() - began)
    return array.size / (1e6 * best)
