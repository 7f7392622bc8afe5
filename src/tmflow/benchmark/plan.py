"""What a benchmark is asked to do, checked before anything runs."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from tmflow.base.errors import BadInput, unknown
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

ELEMENTS = (10, 7850, 3211264)  # a bias, W and b of mnist_softmax as one, and the dense layer of mnist_deep
THREADS = (1, 2, 4)
GRADIENTS: tuple[Gradient, ...] = ("constant", "fresh")
MAX_ELEMENTS = 1_000_000_000
MAX_THREADS = 1024
MAX_ROUNDS = 1000


Turn = TypeVar("Turn")


class Cell(NamedTuple):
    """Within a cell, measurements compare: one size, one number of threads, one kind of gradient."""

    elements: int
    threads: int
    gradient: Gradient = "constant"


@dataclass(frozen=True)
class Plan:
    """`reference` names what the ratios are to, a subject or BEST_MUTEX; `cpus` may be used by this process."""

    subjects: list[Subject]
    cells: list[Cell]
    rounds: int
    seed: int
    reference: str
    cpus: int

    def require_reference(self, runnable: list[Subject]) -> None:
        """Raises BadInput if what the ratios are to does not run here; std::mutex always does."""
        if self.reference not in {BEST_MUTEX, *(subject.name for subject in runnable)}:
            raise BadInput(f"--reference '{self.reference}' cannot run here.")

    def places(self, subjects: Sequence[Subject]) -> list[list[tuple[Subject, Cell]]]:
        """What is measured: cell after cell, each of these subjects in it."""
        return [[(s, cell) for s in subjects if s.has_gradient(cell.gradient)] for cell in self.cells]


def shuffled_turns(cells: Sequence[Sequence[Turn]], seed: int, number: int) -> list[Turn]:
    """The turns of round `number`: the cells shuffled, and within each, close together in time, what is measured in it.

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
    """The plan that the options describe; None is the fallback of an option. Raises BadInput for what cannot be."""
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
    """Raises BadInput for what cannot be."""
    if not 1 <= rounds <= MAX_ROUNDS:
        raise BadInput(f"rounds is {rounds}, but should be from 1 to {MAX_ROUNDS}.")
    if not 0 <= seed < 2**31:
        raise BadInput(f"seed is {seed}, but should be from 0 to {2**31 - 1}.")


def numbers(name: str, text: str, high: int) -> list[int]:
    """The whole numbers, each from 1 to `high`, of a list with commas."""
    found = []
    for word in text.split(","):
        if not word.strip().isdecimal() or not 1 <= int(word) <= high:
            raise BadInput(f"{name} is '{word.strip()}' in '{text}', but should be whole numbers from 1 to {high}.")
        found.append(int(word))
    if len(set(found)) < len(found):
        raise BadInput(f"{name} has a number twice in '{text}': once is enough.")
    return found


def _gradients(text: str) -> list[Gradient]:
    """The kinds of gradient of a list with commas, in the order of GRADIENTS."""
    words = [word.strip() for word in text.split(",")]
    if not set(words) <= set(GRADIENTS) or len(set(words)) < len(words):
        raise BadInput(f"gradient is '{text}', but should be constant, fresh, or constant,fresh.")
    return [one for one in GRADIENTS if one in words]


def _check_memory(cells: list[Cell]) -> None:
    """Each thread has its gradient, or two halves of a copy: 12 bytes per element at most; the variable is one more."""
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
