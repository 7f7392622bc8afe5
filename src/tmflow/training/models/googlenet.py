"""GoogLeNet without normalisation and without its auxiliary outputs: C. Szegedy et al., Going deeper with convolutions.

Source: benchmark_googlenet.py of github.com/soumith/convnet-benchmarks. The mean at the end is that of all places,
which are the 7 x 7 of the paper for its images of 224 pixels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tmflow.training.convnets import Layers, convnet


class Inception(NamedTuple):
    """The channels of a module: of its convolutions of 1, 3 and 5 pixels, what these two reduce to, and of its pool."""

    one: int
    reduced_three: int
    three: int
    reduced_five: int
    five: int
    pool: int


# The modules 3a to 5b of the paper, with a pool after 3b and after 4e.
MODULES = (
    (Inception(64, 96, 128, 16, 32, 32), Inception(128, 128, 192, 32, 96, 64)),
    (
        Inception(192, 96, 208, 16, 48, 64),
        Inception(160, 112, 224, 24, 64, 64),
        Inception(128, 128, 256, 24, 64, 64),
        Inception(112, 144, 288, 32, 64, 64),
        Inception(256, 160, 320, 32, 128, 128),
    ),
    (Inception(256, 160, 320, 32, 128, 128), Inception(384, 192, 384, 48, 128, 128)),
)


def inception(layers: Layers, images: Any, module: Inception) -> Any:
    one = layers.conv(images, 1, module.one)
    three = layers.conv(layers.conv(images, 1, module.reduced_three), 3, module.three)
    five = layers.conv(layers.conv(images, 1, module.reduced_five), 5, module.five)
    pool = layers.conv(layers.max_pool(images, 3, 1, padding="SAME"), 1, module.pool)
    return layers.concat([one, three, five, pool])


def define(layers: Layers, images: Any) -> Any:
    hidden = layers.conv(images, 7, 64, stride=2)
    hidden = layers.max_pool(hidden, 3, 2, padding="SAME")
    hidden = layers.conv(hidden, 1, 64)
    hidden = layers.conv(hidden, 3, 192)
    for modules in MODULES:
        hidden = layers.max_pool(hidden, 3, 2, padding="SAME")
        for module in modules:
            hidden = inception(layers, hidden, module)
    return layers.output(layers.mean(hidden))


NETWORK = convnet(define)
