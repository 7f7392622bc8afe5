"""How the model's variables are those of a session: each by itself, or all joined in one, updated and read together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tmflow.training.network import Array, Variable

JOINED = "joined"


class Layout:
    """Between the model's variables, of these shapes, and the session's: the same, or one flat one if `joined`."""

    def __init__(self, shapes: Sequence[Variable], *, joined: bool) -> None:
        self._shapes = shapes
        self._sizes = [math.prod(shape.shape) for shape in shapes]
        self._joined = joined
        self.variables = [Variable(JOINED, (sum(self._sizes),))] if joined else list(shapes)

    def apart(self, values: Sequence[Any]) -> list[Any]:
        """The model's tensors, from those of the session's variables."""
        import tensorflow as tf

        if not self._joined:
            return list(values)
        parts = tf.split(values[0], self._sizes)
        return [tf.reshape(part, shape.shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def together(self, values: Sequence[Any]) -> list[Any]:
        """The other way around."""
        import tensorflow as tf

        return [tf.concat([tf.reshape(value, [-1]) for value in values], 0)] if self._joined else list(values)

    def arrays_together(self, values: Sequence[Array]) -> list[Array]:
        """The same with values that are known."""
        return [np.concatenate([value.ravel() for value in values])] if self._joined else list(values)
