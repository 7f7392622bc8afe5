"""Convolutional networks as functions that add one layer after another, as in convnet-benchmarks.

A network is written once, as a function of `Layers` and of its images. Called with `Shapes` it gives the variables, and
called with `Tensors` it computes the output in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Literal, Protocol

from tmflow.base.errors import BadInput
from tmflow.spec.trial import TrialSpec
from tmflow.training.network import Network, Variable, scaled_normal

CHANNELS = 3
CLASSES = 1000  # of ImageNet

Padding = Literal["SAME", "VALID"]
Shape = tuple[int, ...]


class Layers(Protocol):
    """What a network is made of. Images are [n, height, width, channels], and other values [n, units]."""

    def conv(self, images: Any, size: int, channels: int, stride: int = 1, padding: Padding = "SAME") -> Any:
        """A convolution of size x size with a bias, then ReLU."""
        ...

    def max_pool(self, images: Any, size: int, stride: int, padding: Padding = "VALID") -> Any:
        """The maxima of squares."""
        ...

    def mean(self, images: Any) -> Any:
        """The mean of each channel."""
        ...

    def concat(self, parts: Sequence[Any]) -> Any:
        """The channels of several images of the same size."""
        ...

    def dense(self, values: Any, units: int) -> Any:
        """A dense layer with a bias, then ReLU. It takes images, too."""
        ...

    def output(self, values: Any) -> Any:
        """A dense layer with a unit for each class, without ReLU."""
        ...


class Shapes:
    """Layers of shapes without the first axis: height, width and channels, or units. Records the variables."""

    def __init__(self) -> None:
        self.variables: list[Variable] = []
        self._convolutions, self._dense_layers = count(1), count(1)

    def conv(self, images: Shape, size: int, channels: int, stride: int = 1, padding: Padding = "SAME") -> Shape:
        *sides, inputs = images
        self._add(f"conv{next(self._convolutions)}", (size, size, inputs, channels))
        return (*(_extent(side, size, stride, padding) for side in sides), channels)

    def max_pool(self, images: Shape, size: int, stride: int, padding: Padding = "VALID") -> Shape:
        *sides, channels = images
        return (*(_extent(side, size, stride, padding) for side in sides), channels)

    def mean(self, images: Shape) -> Shape:
        return images[-1:]

    def concat(self, parts: Sequence[Shape]) -> Shape:
        return (*parts[0][:-1], sum(part[-1] for part in parts))

    def dense(self, values: Shape, units: int) -> Shape:
        inputs = 1
        for number in values:
            inputs *= number
        self._add(f"fc{next(self._dense_layers)}", (inputs, units))
        return (units,)

    def output(self, values: Shape) -> Shape:
        return self.dense(values, CLASSES)

    def _add(self, name: str, shape: Shape) -> None:
        self.variables += [Variable(f"{name}_W", shape, scaled_normal), Variable(f"{name}_b", shape[-1:])]


class Tensors:
    """Layers of TensorFlow, whose weights and biases are the tensors `read`, in the order of `Shapes.variables`."""

    def __init__(self, read: Sequence[Any]) -> None:
        self._read: Iterator[Any] = iter(read)

    def conv(self, images: Any, size: int, channels: int, stride: int = 1, padding: Padding = "SAME") -> Any:
        import tensorflow as tf

        weights, bias = next(self._read), next(self._read)
        return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(images, weights, strides=stride, padding=padding), bias))

    def max_pool(self, images: Any, size: int, stride: int, padding: Padding = "VALID") -> Any:
        import tensorflow as tf

        return tf.nn.max_pool2d(images, ksize=size, strides=stride, padding=padding)

    def mean(self, images: Any) -> Any:
        import tensorflow as tf

        return tf.reduce_mean(images, axis=[1, 2])

    def concat(self, parts: Sequence[Any]) -> Any:
        import tensorflow as tf

        return tf.concat(parts, axis=3)

    def dense(self, values: Any, units: int) -> Any:
        import tensorflow as tf

        return tf.nn.relu(self._product(values))

    def output(self, values: Any) -> Any:
        return self._product(values)

    def _product(self, values: Any) -> Any:
        import tensorflow as tf

        weights, bias = next(self._read), next(self._read)
        return tf.nn.bias_add(tf.matmul(tf.reshape(values, [-1, weights.shape[0]]), weights), bias)


def _extent(side: int, size: int, stride: int, padding: Padding) -> int:
    """The number of places along a side. Raises BadInput if the side is shorter than a square of this size."""
    places = -(-side // stride) if padding == "SAME" else (side - size) // stride + 1
    if places < 1:
        raise BadInput(f"squares of {size} pixels do not fit into {side} pixels: the images are too small.")
    return places


def convnet(define: Callable[[Layers, Any], Any], margin: int = 0) -> Network:
    """The network that `define` makes of images; these have `margin` more pixels on a side than `image_size`."""

    def image(spec: TrialSpec) -> Shape:
        assert spec.image_size is not None, "a spec of this model has it"
        side = spec.image_size + margin
        return side, side, CHANNELS

    def pixels(spec: TrialSpec) -> int:
        height, width, channels = image(spec)
        return height * width * channels

    def variables(spec: TrialSpec) -> list[Variable]:
        shapes = Shapes()
        define(shapes, image(spec))
        return shapes.variables

    def forward(spec: TrialSpec, images: Any, read: Sequence[Any]) -> Any:
        import tensorflow as tf

        return define(Tensors(read), tf.reshape(images, [-1, *image(spec)]))

    return Network(variables=variables, forward=forward, pixels=pixels, classes=lambda spec: CLASSES)
