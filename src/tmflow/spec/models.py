"""What a model is: variables, a forward pass, and what it asks of a trial. Each is a file of `tmflow.training.models`.

The spec of a trial reads this too, so what is slow to import is imported where it is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tmflow.spec.strategies import Value

if TYPE_CHECKING:
    from tmflow.spec.trial import TrialSpec

CLASSES = 10
Array = NDArray[np.float32]
Initial = Callable[[tuple[int, ...], np.random.Generator], NDArray[np.float64]]


def zeros(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
    """Nothing but 0."""
    return np.zeros(shape)


def tenths(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
    """Nothing but 0.1: the biases of the study's `mnist_deep`."""
    return np.full(shape, 0.1)


def truncated_normal(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
    """A normal distribution of standard deviation 0.1, truncated at two deviations: the study's `truncated_normal`."""
    from scipy.special import ndtr, ndtri  # which no command waits for that draws nothing

    drawn: NDArray[np.float64] = 0.1 * ndtri(rng.uniform(ndtr(-2), ndtr(2), shape))
    return drawn


@dataclass(frozen=True)
class Variable:
    """A variable of a model: its name, its shape, and where its first values come from."""

    name: str
    shape: tuple[int, ...]
    initial: Initial = zeros


@dataclass(frozen=True)
class Model:
    """All that is particular to one model; its name is that of its file.

    variables: for a spec, in the order in which `logits` takes them. A forward pass takes the tensors that a step has
    read, never the variables: so the step decides when it reads, and the gradient is taken by what was read.

    logits: of a spec, images [n, matrix], the variables as read, and whether this is training, with its dropout: the
    output before the softmax [n, 10], in TensorFlow. scores: the same in NumPy, not in training, where the native
    driver has the model too (native_ops/src/train/models.cc); None where it has not.

    factors: those that mean something for this model and not for every one, each with its value where `tmflow train`
    is given none. A spec of the model has them all.

    step_us, evaluated_us: first guesses in microseconds, good for the order of magnitude until runs say better: by
    driver, what a step takes with a loop that is compiled well, and how much more each image of its batch; and what
    evaluating an image takes.
    """

    summary: str
    variables: Callable[[TrialSpec], list[Variable]]
    logits: Callable[[TrialSpec, Any, Sequence[Any], bool], Any]
    step_us: Mapping[str, tuple[float, float]]
    evaluated_us: float = 2.0
    scores: Callable[[TrialSpec, Array, Sequence[Array]], Array] | None = None
    factors: Mapping[str, Value | float] = field(default_factory=dict)
    all_pixels: bool = False  # it takes no matrix but the whole one
    learning_rate: float = 0.5  # at which it learns, for benchmarks of its steps: that of the study

    def initial_values(self, spec: TrialSpec, seed: int) -> list[Array]:
        """The variables as a trial with this seed begins."""
        return [values.copy() for values in _drawn(tuple(self.variables(spec)), seed)]

    def elements(self, spec: TrialSpec) -> int:
        """Of all its variables together."""
        return sum(math.prod(its.shape) for its in self.variables(spec))


@lru_cache(maxsize=2)  # a round draws the same values for each of its trials
def _drawn(variables: tuple[Variable, ...], seed: int) -> tuple[Array, ...]:
    rng = np.random.default_rng([seed, 2])
    return tuple(its.initial(its.shape, rng).astype(np.float32) for its in variables)
