"""OverFeat, its fast model: P. Sermanet et al., OverFeat: integrated recognition, localization and detection, 2013.

Source: benchmark_overfeat.py of github.com/soumith/convnet-benchmarks. The original images have 231 pixels.
"""

from __future__ import annotations

from typing import Any

from tmflow.training.convnets import Layers, convnet


def define(layers: Layers, images: Any) -> Any:
    hidden = layers.conv(images, 11, 96, stride=4, padding="VALID")
    hidden = layers.max_pool(hidden, 2, 2)
    hidden = layers.conv(hidden, 5, 256, padding="VALID")
    hidden = layers.max_pool(hidden, 2, 2)
    hidden = layers.conv(hidden, 3, 512)
    hidden = layers.conv(hidden, 3, 1024)
    hidden = layers.conv(hidden, 3, 1024)
    hidden = layers.max_pool(hidden, 2, 2)
    hidden = layers.dense(hidden, 3072)
    hidden = layers.dense(hidden, 4096)
    return layers.output(hidden)


NETWORK = convnet(define)
