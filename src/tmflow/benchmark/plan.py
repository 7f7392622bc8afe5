"""The plan of a benchmark of updates: its subjects, its cells, and the order of its turns.

A subject is a variant of a strategy, or a reference that is not a strategy.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeVar

from tmflow.base.errors import BadInput, unknown
from tmflow.native import loader, registry
from tmflow.native.automatic import consistency_of
from tmflow.native.registry import resolve
from tmflow.platform.sysfiles import Files
from tmflow.spec.strategies import Value

Gradient = Literal["constant", "fresh"]  # fresh: the thread writes it before every update

MEMCPY = "memcpy"  # threads copy private memory: the traffic of an update without arithmetic or lock
WRITING = "gradient_writing"  # threads only write their gradients: the cost of a fresh gradient
MUTEX_LOOP = "mutex_loop"  # a mutex and a loop in one function: the straightforward implementation
BEST_MUTEX = "best_mutex"  # the fastest of these loops in a cell: a baseline, not a subject
MUTEXES = ("std", "absl", "spin", "ticket", "mcs")
ALWAYS_ABORTS = "always_aborts"  # elision by transactions that abort immediately: the cost of elision
LOOPS: dict[str, dict[str, Value]] = {
    MUTEX_LOOP: {"mutex": MUTEXES[0]},
    ALWAYS_ABORTS: {"budget": 5},
}  # with default parameters

# Measured in addition to every strategy with default parameters: variants that work differently.
MORE_VARIANTS = (
    *("combining:block=4096", "combining:block=1000000000", "adaptive:promise=block"),
    *("htm:chunk=1024", "stm:design=wt:manager=delay", "itm:method=gl_wt"),
)


@dataclass(frozen=True)
class Subject:
    """A subject: `name` as written ("stm:design=wt"), `given` the arguments of the library ("design=wt").

    parameters: all parameters, including defaults. consistency: of updates; None for a reference.
    """

    name: str
    strategy: str
    given: tuple[str, ...] = ()
    parameters: Mapping[str, Value] = field(default_factory=dict, compare=False)
    consistency: str | None = None
    asked_for: bool = True

    @property
    def is_reference(self) -> bool:
        return self.consistency is None

    def consistency_for(self, elements: int) -> str | None:
        """The consistency of updates of a variable of this size; None for a reference."""
        if self.consistency is None:
            return None
        return consistency_of(self.strategy, self.consistency, self.parameters, elements)


def references() -> list[Subject]:
    """The available references, which are always measured."""
    return [
        Subject(MEMCPY, MEMCPY),
        Subject(WRITING, WRITING),
        Subject(MUTEX_LOOP, MUTEX_LOOP, (), LOOPS[MUTEX_LOOP]),
        *(
            Subject(f"{MUTEX_LOOP}:mutex={mutex}", MUTEX_LOOP, (f"mutex={mutex}",), {"mutex": mutex}, asked_for=False)
            for mutex in MUTEXES[1:]
        ),
    ]


def every_strategy() -> list[Subject]:
    """All native strategies with default parameters, and MORE_VARIANTS, even if they cannot run here.

    Raises BadInput if one is not built.
    """
    names = [_built(variant).name for variant in _native()]
    more = [name for name in MORE_VARIANTS if name.partition(":")[0] in names]
    return [replace(parse_subject(name), asked_for=False) for name in (*names, *more)]


def parse_subjects(text: str) -> list[Subject]:
    """Parse a list such as "lock,stm:design=wt:manager=delay". Raises BadInput if it is invalid."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise BadInput(f"--strategy '{text}' has an empty item: separate variants by single commas.")
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise BadInput(f"--strategy names '{twice[0]}' twice: once is enough.")
    return [parse_subject(name) for name in names]


def parse_subject(name: str) -> Subject:
    """Parse a subject: a strategy or a reference, and its parameters, each after a colon."""
    strategy, *given = name.split(":")
    if strategy in LOOPS:
        _checked(lambda: loader.core().measure(strategy, 1, 1, 1, given))
        return Subject(name, strategy, tuple(given), {**LOOPS[strategy], **registry.assignments(name, given)})
    variants = {variant.name: variant for variant in registry.variants()}
    if strategy in variants and variants[strategy].provider == "stock":
        raise BadInput(
            f"strategy '{strategy}' is TensorFlow's own update, which cannot be measured without TensorFlow: "
            "`tmflow train` measures it."
        )
    if strategy not in variants:
        raise unknown("strategy", strategy, [*(variant.name for variant in _native()), *LOOPS])
    variant = _built(variants[strategy])
    if "provider=emulated" in given:
        raise BadInput(f"'{name}' has emulated transactions, whose times mean nothing.")
    if "kernel=fused" in given:
        raise BadInput(f"'{name}' would fuse an update with its gradient, but the benchmark provides the gradients.")
    parsed = registry.assignments(name, given)
    for_library = resolve(strategy, parsed).native_arguments
    _checked(lambda: loader.core().check_parameters(strategy, list(for_library)))
    fallbacks = registry.assignments(name, [f"{p.name}={p.fallback}" for p in variant.parameters if p.fallback])
    parameters = {**fallbacks, **parsed, **registry.assignments(name, for_library)}
    return Subject(name, strategy, for_library, parameters, variant.update_consistency)


def _native() -> list[registry.Variant]:
    return [variant for variant in registry.variants() if variant.provider == "native"]


def _built(variant: registry.Variant) -> registry.Variant:
    if not variant.built:
        raise BadInput(f"strategy '{variant.name}' is not built: {variant.why_not}.")
    return variant


def _checked(call: Callable[[], object]) -> None:
    """Turn the library's refusal of parameters into BadInput."""
    try:
        call()
    except ValueError as error:
        raise BadInput(f"{error}.") from error


ELEMENTS = (10, 7850, 3211264)  # a bias, W and b of mnist_softmax as one, and the dense layer of mnist_deep
THREADS = (1, 2, 4)
GRADIENTS: tuple[Gradient, ...] = ("constant", "fresh")
MAX_ELEMENTS = 1_000_000_000
MAX_THREADS = 1024
MAX_ROUNDS = 1000

Turn = TypeVar("Turn")


class Cell(NamedTuple):
    """A configuration whose measurements are comparable: a size, a number of threads, a kind of gradient."""

    elements: int
    threads: int
    gradient: Gradient = "constant"


@dataclass(frozen=True)
class Plan:
    """A plan. reference: the baseline of ratios, a subject or BEST_MUTEX; cpus: the CPUs available to this process."""

    subjects: list[Subject]
    cells: list[Cell]
    rounds: int
    seed: int
    reference: str
    cpus: int

    def require_reference(self, runnable: list[Subject]) -> None:
        """Raise BadInput if the baseline of ratios cannot run here; std::mutex always can."""
        if self.reference not in {BEST_MUTEX, *(subject.name for subject in runnable)}:
            raise BadInput(f"--reference '{self.reference}' cannot run here.")

    def places(self, subjects: Sequence[Subject]) -> list[list[tuple[Subject, Cell]]]:
        """The measurements: for each cell, its subjects; gradients are written only where they are fresh."""
        return [
            [(subject, cell) for subject in subjects if subject.strategy != WRITING or cell.gradient == "fresh"]
            for cell in self.cells
        ]


def shuffled_turns(cells: Sequence[Sequence[Turn]], seed: int, number: int) -> list[Turn]:
    """The turns of round `number`: shuffled cells, and within each cell its shuffled measurements.

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
    """Make a plan from the options; None selects the default of an option. Raises BadInput for invalid ones."""
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
    """Raise BadInput for invalid values."""
    if not 1 <= rounds <= MAX_ROUNDS:
        raise BadInput(f"rounds is {rounds}, but should be from 1 to {MAX_ROUNDS}.")
    if not 0 <= seed < 2**31:
        raise BadInput(f"seed is {seed}, but should be from 0 to {2**31 - 1}.")


def numbers(name: str, text: str, high: int) -> list[int]:
    """Parse a comma-separated list of integers from 1 to `high`."""
    values = []
    for word in text.split(","):
        if not word.strip().isdecimal() or not 1 <= int(word) <= high:
            raise BadInput(f"{name} is '{word.strip()}' in '{text}', but should be whole numbers from 1 to {high}.")
        values.append(int(word))
    if len(set(values)) < len(values):
        raise BadInput(f"{name} has a number twice in '{text}': once is enough.")
    return values


def _gradients(text: str) -> list[Gradient]:
    """Parse a comma-separated list of kinds of gradient; the result is in the order of GRADIENTS."""
    words = [word.strip() for word in text.split(",")]
    if not set(words) <= set(GRADIENTS) or len(set(words)) < len(words):
        raise BadInput(f"gradient is '{text}', but should be constant, fresh, or constant,fresh.")
    return [one for one in GRADIENTS if one in words]


def _check_memory(cells: list[Cell]) -> None:
    """Raise BadInput if memory is too small: up to 12 bytes per element and thread, and 4 for the variable."""
    meminfo = (Files().text("proc/meminfo") or "").splitlines()
    available = next((1024 * int(line.split()[1]) for line in meminfo if line.startswith("MemAvailable:")), None)
    for cell in cells:
        needed = cell.elements * (12 * cell.threads + 4)
        if available is not None and needed > available:
            raise BadInput(
                f"elements {cell.elements} with threads {cell.threads} needs {needed / 1e9:.1f} GB, "
                f"but {available / 1e9:.1f} GB are available."
            )
