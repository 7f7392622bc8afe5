"""VGG-16: K. Simonyan, A. Zisserman, Very deep convolutional networks for large-scale image recognition, 2014.

It is configuration D of the paper, 13 convolutions and 3 dense layers. benchmark_vgg.py of
github.com/soumith/convnet-benchmarks is configuration A of the same family, with 8 convolutions.
"""

from __future__ import annotations

from typing import Any

from tmflow.training.convnets import Layers, convnet

BLOCKS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # channels, and the number of convolutions


def define(layers: Layers, images: Any) -> Any:
    hidden = images
    for channels, convolutions in BLOCKS:
        for _ in range(convolutions):
            hidden = layers.conv(hidden, 3, channels)
        hidden = layers.max_pool(hidden, 2, 2)
    hidden = layers.dense(hidden, 4096)
    hidden = layers.dense(hidden, 4096)
    return layers.output(hidden)


NETWORK = convnet(define)
