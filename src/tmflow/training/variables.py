"""Mapping of the model's variables to those of a session: separate, or joined into one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tmflow.training.network import Array, Variable

JOINED = "joined"


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
