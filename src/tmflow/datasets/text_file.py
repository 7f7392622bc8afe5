"""The words of a text file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tmflow.base.errors import BadInput

WORD = re.compile(r"[^\W\d_]+")  # letters of any script
OFTEN = 5  # rarer words are left out, as word2vec does
LEAST_WORDS, LEAST_LENGTH = 16, 1000


@dataclass(frozen=True)
class Text:
    """n words of a text, by their numbers from 0 [n], and how often each number occurs [words], descending."""

    words: NDArray[np.int64]
    counts: NDArray[np.int64]


def read_text(path: Path) -> Text:
    """Read a file in UTF-8: its words in small letters, without those that occur fewer than `OFTEN` times.

    Raises BadInput for a file that cannot be read, or in which too few words occur often.
    """
    try:
        tokens = np.array(WORD.findall(path.read_text(encoding="utf-8").lower()))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as a text in UTF-8: {error}") from error
    names, place, counts = np.unique(tokens, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] >= OFTEN]
    number = np.full(len(names), -1)
    number[order] = np.arange(len(order))
    words = number[place]
    words = words[words >= 0]
    if len(order) < LEAST_WORDS or len(words) < LEAST_LENGTH:
        raise BadInput(
            f"{path} has {len(order)} words that occur {OFTEN} times or more, {len(words)} times in all, but should "
            f"have at least {LEAST_WORDS}, {LEAST_LENGTH} times in all."
        )
    return Text(words, counts[order])
