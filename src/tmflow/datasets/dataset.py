"""A dataset for training: images, labels, and the hash of its content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from tmflow.base.errors import BadInput

if TYPE_CHECKING:
    from tmflow.spec.factors import Dataset as Name

CLASSES = 10

Floats = NDArray[np.float32]
Split = tuple[Floats, Floats]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images [n, 784] of pixels in [0, 1] and one-hot labels [n, 10], all float32 and read-only.

    `sha256` identifies the content of their source.
    """

    name: Name
    sha256: str
    train_images: Floats
    train_labels: Floats
    validation_images: Floats
    validation_labels: Floats
    test_images: Floats
    test_labels: Floats

    @classmethod
    def of(cls, name: Name, sha256: str, train: Split, validation: Split, test: Split) -> Self:
        """Make a dataset of the (images, labels) of each part; makes them read-only, because all workers share them."""
        arrays = (*train, *validation, *test)
        for array in arrays:
            array.flags.writeable = False
        return cls(name, sha256, *arrays)


def one_hot(labels: NDArray[np.integer], classes: int = CLASSES) -> Floats:
    """The labels [n], from 0, as float32 [n, classes]: 1 in the column of the label, else 0."""
    hot = np.zeros((len(labels), classes), np.float32)
    hot[np.arange(len(labels)), labels] = 1
    return hot


def truncate(images: Floats, matrix: int) -> Floats:
    """Keep the first `matrix` pixels of each image: [n, matrix], contiguous; no copy if these are all pixels.

    Raises BadInput if the images have fewer pixels.
    """
    if not 1 <= matrix <= images.shape[1]:
        raise BadInput(f"matrix {matrix} is not a number of pixels: give 1 to {images.shape[1]}.")
    return np.ascontiguousarray(images[:, :matrix])
