"""The subjects of the benchmark: variants of strategies, and references that are no strategies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from tmflow.base.errors import BadInput, unknown
from tmflow.native import loader, registry
from tmflow.native.registry import native_parameters
from tmflow.spec.strategies import Value

Gradient = Literal["constant", "fresh"]  # fresh: the thread writes it before every update

MEMCPY = "memcpy"  # threads copy private memory: the traffic of an update without arithmetic and lock
WRITING = "gradient_writing"  # threads only write their gradients: the cost of a fresh gradient
MUTEX_LOOP = "mutex_loop"  # a mutex and a loop in one function: the straightforward implementation
BEST_MUTEX = "best_mutex"  # the fastest of these loops in a cell: a baseline, not a subject
MUTEXES = ("std", "absl", "spin", "ticket", "mcs")
ALWAYS_ABORTS = "always_aborts"  # elision by transactions that abort immediately: the cost of elision
LOOPS: dict[str, dict[str, Value]] = {
    MUTEX_LOOP: {"mutex": MUTEXES[0]},
    ALWAYS_ABORTS: {"budget": 5},
}  # with default parameters

# Measured in addition to every strategy with default parameters: variants that work in another way.
MORE_VARIANTS = (
    *("combining:block=4096", "combining:block=1000000000", "adaptive:promise=block"),
    *("htm:chunk=1024", "stm:design=wt:manager=delay", "itm:method=gl_wt"),
)

# The parameter with the number of elements that a strategy updates atomically; 0 stands for all.
_AS_A_WHOLE = {"htm": "chunk", "stm": "chunk", "striped": "block", "combining": "block"}


@dataclass(frozen=True)
class Subject:
    """A subject: `name` as written ("stm:design=wt"), `given` the arguments of the library ("design=wt").

    parameters: all parameters, including defaults. promise: the guarantee for updates; None for a reference.
    """

    name: str
    strategy: str
    given: tuple[str, ...] = ()
    parameters: Mapping[str, Value] = field(default_factory=dict, compare=False)
    promise: str | None = None
    asked_for: bool = True

    @property
    def is_reference(self) -> bool:
        return self.promise is None

    def has_gradient(self, gradient: Gradient) -> bool:
        """Whether it is measured with this kind of gradient; the writing of gradients only with fresh ones."""
        return self.strategy != WRITING or gradient == "fresh"

    def promise_over(self, elements: int) -> str | None:
        """The guarantee for updates of a variable of this size."""
        return None if self.promise is None else promised(self.strategy, self.promise, self.parameters, elements)


def promised(strategy: str, promise: str, parameters: Mapping[str, Value], elements: int) -> str:
    """The guarantee of a strategy with these parameters for this size; `promise` is its general guarantee."""
    if strategy == "adaptive":
        return str(parameters["promise"])
    if strategy not in _AS_A_WHOLE:
        return promise
    part = parameters.get(_AS_A_WHOLE[strategy], 0)
    return "block" if isinstance(part, int) and 0 < part < elements else "tensor"


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
        raise BadInput(f"--strategy '{text}' has an empty place: write variants with a comma between two.")
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise BadInput(f"--strategy names '{twice[0]}' twice: once is enough.")
    return [parse_subject(name) for name in names]


def parse_subject(name: str) -> Subject:
    """Parse a subject: a strategy or a reference, and its parameters, each after a colon."""
    strategy, *given = name.split(":")
    if strategy in LOOPS:
        _checked(lambda: loader.core().measure(strategy, 1, 1, 1, given))
        return Subject(name, strategy, tuple(given), {**LOOPS[strategy], **dict(_pairs(given))})
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
        raise BadInput(f"'{name}' has emulated transactions, which take no time that means anything.")
    if "kernel=fused" in given:
        raise BadInput(f"'{name}' is to fuse an update with its gradient, but here gradients are given: it fuses none.")
    pairs = _pairs(given)
    if twice := [parameter for parameter, times in Counter(parameter for parameter, _ in pairs).items() if times > 1]:
        raise BadInput(f"'{name}' has the parameter '{twice[0]}' twice: once is enough.")
    for_library = native_parameters(strategy, dict(pairs))
    _checked(lambda: loader.core().check_parameters(strategy, for_library))
    fallbacks = {p.name: _value(p.fallback) for p in variant.parameters if p.fallback}
    parameters = {**fallbacks, **dict(pairs), **dict(_pairs(for_library))}
    return Subject(name, strategy, tuple(for_library), parameters, variant.promise_updates)


def _native() -> list[registry.Variant]:
    return [variant for variant in registry.variants() if variant.provider == "native"]


def _built(variant: registry.Variant) -> registry.Variant:
    if not variant.built:
        raise BadInput(f"strategy '{variant.name}' is not built: {variant.why_not}.")
    return variant


def _pairs(given: Iterable[str]) -> list[tuple[str, Value]]:
    """Split assignments "name=value" into pairs; the caller checks names and values."""
    for assignment in given:
        if "=" not in assignment:
            raise BadInput(f"parameter '{assignment}' is not of the form name=value.")
    return [(name, _value(value)) for name, _, value in (assignment.partition("=") for assignment in given)]


def _value(text: str) -> Value:
    return int(text) if text.isdecimal() else text


def _checked(call: Callable[[], object]) -> None:
    """Turn the library's refusal of parameters into BadInput."""
    try:
        call()
    except ValueError as error:
        raise BadInput(f"{error}.") from error
