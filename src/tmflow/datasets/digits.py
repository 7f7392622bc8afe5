"""The digits of scikit-learn in the shape of MNIST, for training on machines without MNIST."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tmflow.base.canonical_json import sha256_of
from tmflow.base.errors import BadInput
from tmflow.datasets.dataset import Dataset, Floats, Split, one_hot

FILE_SHA256 = "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"  # of the uncompressed table

# The rows are in the order of writing, a few dozen per writer. They are split without shuffling, so that only the
# writer at each cut has digits in two parts: no leakage.
TRAIN, VALIDATION = 1_297, 200

SIDE, TARGET_SIDE, BRIGHTEST = 8, 28, 16


def load() -> Dataset:
    """1,297 images to train, 200 to validate, 300 to test; the same bits on every machine.

    Raises BadInput if the installed scikit-learn has another table.
    """
    table = _table()
    images, labels = upscale(table[:, :-1].reshape(-1, SIDE, SIDE)), one_hot(table[:, -1])

    def part(start: int, end: int) -> Split:
        return images[start:end], labels[start:end]

    cut = TRAIN + VALIDATION
    identity = sha256_of({"table": FILE_SHA256, "train": TRAIN, "validation": VALIDATION, "side": TARGET_SIDE})
    return Dataset.of("digits", identity, part(0, TRAIN), part(TRAIN, cut), part(cut, len(images)))


def upscale(images: NDArray[np.uint8]) -> Floats:
    """Upscale bilinearly from [n, 8, 8] of 0 to 16 to [n, 784] of 0 to 1; pixels have their centres at 0.5.

    Edges are repeated. The arithmetic is in integers up to the last division, so that no machine rounds differently.
    """
    weights, unit = _weights()
    scaled = weights @ images.astype(np.int64) @ weights.T
    return (scaled / (BRIGHTEST * unit**2)).astype(np.float32).reshape(len(images), -1)


def _weights() -> tuple[NDArray[np.int64], int]:
    """The weights of the 8 source rows in each of the 28 rows, [28, 8], in units of 1/56: a row sums to 56."""
    unit = 2 * TARGET_SIDE
    weights = np.zeros((TARGET_SIDE, SIDE), np.int64)
    for row in range(TARGET_SIDE):
        position = (2 * row + 1) * SIDE - TARGET_SIDE  # of the row's centre among the 8 centres, in 1/56
        below, share = divmod(position, unit)
        weights[row, max(below, 0)] += unit - share
        weights[row, min(below + 1, SIDE - 1)] += share
    return weights, unit


def _table() -> NDArray[np.uint8]:
    """The table that load_digits() of scikit-learn reads: [1797, 64 pixels and the label].

    Read directly, because importing scikit-learn takes seconds and each round is a new process.
    """
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise BadInput("the digits dataset needs scikit-learn, which is not installed.")
    path = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    try:
        content = gzip.decompress(path.read_bytes())
    except OSError as error:
        raise BadInput(f"the digits of scikit-learn cannot be read from {path}: {error}.") from error
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != FILE_SHA256:
        raise BadInput(f"{path} is not the table of digits that tmflow knows: SHA-256 {sha256}, not {FILE_SHA256}.")
    return np.loadtxt(content.decode().splitlines(), delimiter=",", dtype=np.uint8)
