"""A model's network: its variables, their initial values and layout in a session, and its forward pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmflow.spec.trial import TrialSpec

CLASSES = 10
JOINED = "joined"
Array = NDArray[np.float32]
Layer = Callable[[TrialSpec, Any, Any, Any, bool], Any]
Initial = Callable[[tuple[int, ...], np.random.Generator], NDArray[np.floating[Any]]]


def zeros(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
    """Initial values of 0."""
    return np.zeros(shape)


def tenths(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
    """Initial values of 0.1: the biases of the study's `mnist_deep`."""
    return np.full(shape, 0.1)


def ones(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
    """Initial values of 1."""
    return np.ones(shape)


def standard_normal(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
    """A normal distribution of mean 0 and standard deviation 1."""
    return rng.standard_normal(shape)


def truncated_normal(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
    """A normal distribution of standard deviation 0.1, truncated at two deviations: the study's `truncated_normal`."""
    from scipy.special import ndtr, ndtri  # imported here, because it is slow and most commands do not need it

    values: NDArray[np.float64] = 0.1 * ndtri(rng.uniform(ndtr(-2), ndtr(2), shape))
    return values


def scaled_normal(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
    """A normal distribution whose variance is 2 over the number of inputs of a unit; the last axis has the units.

    A layer of ReLU units then keeps the scale of its input (He et al., 2015), so deep networks have ordinary numbers.
    """
    return rng.standard_normal(shape, np.float32) * np.float32(math.sqrt(2 / math.prod(shape[:-1])))


@dataclass(frozen=True)
class Variable:
    """A variable of a model: its name, its shape, and the function that makes its initial values."""

    name: str
    shape: tuple[int, ...]
    initial: Initial = zeros


@dataclass(frozen=True)
class Network:
    """The network of a model.

    variables: for a spec, the weights and the bias of each layer.

    layers: each takes a spec, the output of the layer before (the first takes images [n, matrix]), its weights and its
    bias as read, and whether this is training (with dropout); returns its output, in TensorFlow.

    scores: the same as `logits` in NumPy, without training, for the native driver (native_ops/src/train/models.cc);
    None for a model that the native driver does not train.

    forward: for a network that is no sequence of such layers, in place of `layers`: takes a spec, the images and all
    variables as read; returns the output. gradients: for a network without a loss: takes a spec and the variables as
    read; returns the gradients of a step. loss: takes the labels and the scores [n, classes]; returns the loss of each
    example [n], by default the cross-entropy of the softmax. is_optimised: TensorFlow may simplify the graph of a step.

    pixels, classes: the numbers of an image, and of a label. An example of a model of rows (`tmflow.spec.models`) is
    int32 [pixels], the numbers of its rows.
    """

    variables: Callable[[TrialSpec], list[Variable]]
    layers: tuple[Layer, ...] = ()
    scores: Callable[[TrialSpec, Array, Sequence[Array]], Array] | None = None
    forward: Callable[[TrialSpec, Any, Sequence[Any]], Any] | None = None
    gradients: Callable[[TrialSpec, Sequence[Any]], list[Any]] | None = None
    loss: Callable[[Any, Any], Any] | None = None
    is_optimised: bool = True
    pixels: Callable[[TrialSpec], int] = lambda spec: spec.matrix
    classes: Callable[[TrialSpec], int] = lambda spec: CLASSES

    def logits(
        self,
        spec: TrialSpec,
        images: Any,
        read: Sequence[Any],
        training: bool,
        place: Callable[[int], AbstractContextManager[Any]] = lambda layer: nullcontext(),
    ) -> Any:
        """The output before the softmax [n, classes] for images [n, pixels], in TensorFlow.

        read: the tensors read from the variables, never the variables, because the step decides when to read, and the
        gradient is taken with respect to these tensors. place: gives the context for each layer, by its number.
        """
        if self.forward is not None:
            return self.forward(spec, images, read)
        output = images
        for number, (layer, weights, bias) in enumerate(zip(self.layers, read[::2], read[1::2], strict=True)):
            with place(number):
                output = layer(spec, output, weights, bias, training)
        return output

    def initial_values(self, spec: TrialSpec, seed: int) -> list[Array]:
        """The initial values of the variables in a trial with this seed."""
        return [values.copy() for values in _draw(tuple(self.variables(spec)), seed)]

    def elements(self, spec: TrialSpec) -> int:
        """The number of elements of all variables together."""
        return sum(math.prod(variable.shape) for variable in self.variables(spec))


@lru_cache(maxsize=2)  # a round draws the same values for each of its trials
def _draw(variables: tuple[Variable, ...], seed: int) -> tuple[Array, ...]:
    rng = np.random.default_rng([seed, 2])
    return tuple(variable.initial(variable.shape, rng).astype(np.float32) for variable in variables)


class Layout:
    """Converts between the model's variables and the session's: the same, or one flat variable if `joined`."""

    def __init__(self, shapes: Sequence[Variable], *, joined: bool) -> None:
        self._shapes = shapes
        self._sizes = [math.prod(shape.shape) for shape in shapes]
        self._joined = joined
        self.variables = [Variable(JOINED, (sum(self._sizes),))] if joined else list(shapes)

    def separate(self, values: Sequence[Any]) -> list[Any]:
        """Split the tensors of the session's variables into the model's."""
        import tensorflow as tf

        if not self._joined:
            return list(values)
        parts = tf.split(values[0], self._sizes)
        return [tf.reshape(part, shape.shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def together(self, values: Sequence[Any]) -> list[Any]:
        """Join the model's tensors into those of the session's variables."""
        import tensorflow as tf

        return [tf.concat([tf.reshape(value, [-1]) for value in values], 0)] if self._joined else list(values)

    def arrays_together(self, values: Sequence[Array]) -> list[Array]:
        """Join the model's arrays into those of the session's variables."""
        return [np.concatenate([value.ravel() for value in values])] if self._joined else list(values)
