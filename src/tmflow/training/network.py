"""A model's network: its variables, where their first values come from, and its forward pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    from scipy.special import ndtr, ndtri  # slow to import, and no command that draws nothing waits for it

    values: NDArray[np.float64] = 0.1 * ndtri(rng.uniform(ndtr(-2), ndtr(2), shape))
    return values


@dataclass(frozen=True)
class Variable:
    """A variable of a model: its name, its shape, and where its first values come from."""

    name: str
    shape: tuple[int, ...]
    initial: Initial = zeros


@dataclass(frozen=True)
class Network:
    """The network of a model.

    variables: for a spec, in the order in which `logits` takes them.

    logits: of a spec, images [n, matrix], the variables as read, and whether this is training, with its dropout: the
    output before the softmax [n, 10], in TensorFlow. It takes the tensors that a step has read, never the variables:
    the step decides when it reads, and the gradient is taken with respect to what was read.

    scores: the same in NumPy, not in training, for the native driver (native_ops/src/train/models.cc); None for a model
    that the native driver does not train.
    """

    variables: Callable[[TrialSpec], list[Variable]]
    logits: Callable[[TrialSpec, Any, Sequence[Any], bool], Any]
    scores: Callable[[TrialSpec, Array, Sequence[Array]], Array] | None = None

    def initial_values(self, spec: TrialSpec, seed: int) -> list[Array]:
        """The variables as a trial with this seed begins."""
        return [values.copy() for values in _draw(tuple(self.variables(spec)), seed)]

    def elements(self, spec: TrialSpec) -> int:
        """The number of elements of all its variables together."""
        return sum(math.prod(variable.shape) for variable in self.variables(spec))


@lru_cache(maxsize=2)  # a round draws the same values for each of its trials
def _draw(variables: tuple[Variable, ...], seed: int) -> tuple[Array, ...]:
    rng = np.random.default_rng([seed, 2])
    return tuple(variable.initial(variable.shape, rng).astype(np.float32) for variable in variables)
