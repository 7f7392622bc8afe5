"""Examples in the format of LIBSVM: a label and the features that are not zero, one example in each line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tmflow.base.errors import BadInput
from tmflow.base.text import several

LEAST = 100
MOST_CLASSES = 512
MOST_FEATURES = 10_000_000
MOST_NONZEROS = 1024
MOST_PADDED = 200_000_000  # 8 bytes each


@dataclass(frozen=True)
class Features:
    """n examples, each with at most k features.

    features [n, k]: their numbers, from 0, padded with the first one; values [n, k]: padded with 0; classes [n]: from
    0; number: of all features; labels: those of the classes, in ascending order.
    """

    features: NDArray[np.int32]
    values: NDArray[np.float32]
    classes: NDArray[np.int64]
    number: int
    labels: list[float]


def read_libsvm(path: Path) -> Features:
    """Read a file. Raises BadInput, with the number of the line, for a line of another format.

    The format is that of https://www.csie.ntu.edu.tw/~cjlin/libsvm: `label index:value index:value ...`, with indices
    that ascend from 1. Text after # is a comment.
    """
    labels: list[float] = []
    places: list[int] = []
    values: list[float] = []
    lengths: list[int] = []
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                words = line.partition("#")[0].split()
                if words:
                    where = f"{path}, line {number}"
                    labels.append(_number(where, "label", words[0]))
                    lengths.append(_read_features(where, words[1:], places, values))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as a text: {error}") from error
    if len(labels) < LEAST:
        raise BadInput(f"{path} has {len(labels)} examples, but should have at least {LEAST}.")
    distinct, classes = np.unique(labels, return_inverse=True)
    if not 2 <= len(distinct) <= MOST_CLASSES:
        raise BadInput(
            f"{path} has {several(len(distinct), 'label')}, but should have 2 to {MOST_CLASSES}: one for each class."
        )
    if not places:
        raise BadInput(f"{path} has no features: no line has an index:value after its label.")
    if (padded := len(lengths) * max(lengths)) > MOST_PADDED:
        raise BadInput(
            f"{path} has {len(lengths):,} examples, and one of them has {max(lengths)} features: every example takes "
            f"the memory of the largest, {padded:,} features in all, but at most {MOST_PADDED:,} are allowed."
        )
    return _padded(np.array(lengths), np.array(places, np.int32), np.array(values, np.float32), classes, distinct)


def _read_features(where: str, words: list[str], places: list[int], values: list[float]) -> int:
    """Append the features of a line that are not 0 in float32; return how many they are."""
    if len(words) > MOST_NONZEROS:
        raise BadInput(f"{where}: it has {len(words)} features, but at most {MOST_NONZEROS} are allowed.")
    last = kept = 0
    for word in words:
        index, colon, value = word.partition(":")
        if not colon or not index.isdecimal():
            raise BadInput(f"{where}: {word!r} should be index:value, such as 3:0.5.")
        place = int(index)
        if not last < place <= MOST_FEATURES:
            raise BadInput(f"{where}: index {place} is not allowed: indices must ascend from 1, up to {MOST_FEATURES}.")
        last = place
        if number := np.float32(_number(where, f"the value of feature {index}", value)):
            places.append(place - 1)
            values.append(float(number))
            kept += 1
    return kept


def _number(where: str, what: str, text: str) -> float:
    try:
        value = np.nan if "_" in text else float(text)
    except ValueError:
        value = np.nan
    if not abs(value) <= float(np.finfo(np.float32).max):  # also infinite ones, and NaN
        raise BadInput(f"{where}: {what} is {text!r}, but should be a finite number in float32.")
    return value


def _padded(
    lengths: NDArray[np.int64],
    places: NDArray[np.int32],
    values: NDArray[np.float32],
    classes: NDArray[np.int64],
    labels: NDArray[np.float64],
) -> Features:
    shape = len(lengths), int(lengths.max())
    taken = np.arange(shape[1]) < lengths[:, None]
    features, padded = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    features[taken], padded[taken] = places, values
    features = np.where(taken, features, features[:, :1])
    return Features(features, padded, classes.reshape(-1), int(places.max()) + 1, labels.tolist())
