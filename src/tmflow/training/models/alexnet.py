"""AlexNet in its form of 2014, on one column: A. Krizhevsky, One weird trick for parallelizing convolutional networks.

Source: benchmark_alexnet.py of github.com/soumith/convnet-benchmarks. As there, the images have 3 pixels more than
their size (227 for 224), in place of the padding of the first convolution. Its last layer has a ReLU, which is wrong
before a softmax and is left out here, as in the other networks.
"""

from __future__ import annotations

from typing import Any

from tmflow.training.convnets import Layers, convnet


def define(layers: Layers, images: Any) -> Any:
    hidden = layers.conv(images, 11, 64, stride=4, padding="VALID")
    hidden = layers.max_pool(hidden, 3, 2)
    hidden = layers.conv(hidden, 5, 192)
    hidden = layers.max_pool(hidden, 3, 2)
    hidden = layers.conv(hidden, 3, 384)
    hidden = layers.conv(hidden, 3, 256)
    hidden = layers.conv(hidden, 3, 256)
    hidden = layers.max_pool(hidden, 3, 2)
    hidden = layers.dense(hidden, 4096)
    hidden = layers.dense(hidden, 4096)
    return layers.output(hidden)


NETWORK = convnet(define, margin=3)
