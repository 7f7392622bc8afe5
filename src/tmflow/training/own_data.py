"""Examples from a file of the user: ratings for `matrix_factorisation`, a text for `skipgram`, features for
`sparse_logistic`.

The examples for tests are the same for all seeds. A run says the hash of the file, and nothing of its content.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tmflow.base.errors import BadInput
from tmflow.datasets.dataset import one_hot
from tmflow.datasets.libsvm_file import read_libsvm
from tmflow.datasets.ratings_file import read_ratings
from tmflow.datasets.text_file import read_text
from tmflow.spec.models import models_with_own_data
from tmflow.spec.trial import TrialSpec
from tmflow.training.data import RowData, with_values
from tmflow.training.synthetic.contexts import POWER, in_order, with_negatives
from tmflow.training.synthetic.zipf import drawer

MOST_TESTS = 10_000
LEAST_FEATURES = 8  # of the model
WINDOW = 5  # words before and after a word that count as near it, as in word2vec
TEXT_EXAMPLES = 200_000


class OwnData(ABC):
    """The data of a file. sizes: the factors that follow from it. tests: the number of examples for tests."""

    version: ClassVar[int] = 1  # of how examples are made from a file

    def __init__(self, path: Path) -> None:
        self.sizes: Mapping[str, int] = {}
        self.tests = 0
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        self.sha256 = hashlib.sha256(f"{type(self).__name__} {self.version} {content}".encode()).hexdigest()

    @abstractmethod
    def examples(self, spec: TrialSpec, seed: int) -> RowData:
        """The examples of a trial with this seed."""


class OwnRatings(OwnData):
    """A tenth of the ratings is for tests, at most `MOST_TESTS`; the others are in the seed's order."""

    def __init__(self, path: Path) -> None:
        ratings = read_ratings(path)
        super().__init__(path)
        self.sizes = {"users": int(ratings.users.max()) + 1, "items": int(ratings.items.max()) + 1}
        self.tests = min(len(ratings.users) // 10, MOST_TESTS)
        rows = np.stack([ratings.users, ratings.items + self.sizes["users"]], axis=1).astype(np.int32)
        order = np.random.default_rng(0).permutation(len(rows))
        self._rows, self._liked = rows[order], ratings.liked[order].astype(np.int64)

    def examples(self, spec: TrialSpec, seed: int) -> RowData:
        train = len(self._rows) - self.tests
        order = np.concatenate([np.random.default_rng([seed, 7]).permutation(train), np.arange(train, len(self._rows))])
        rows, hot = self._rows[order], one_hot(self._liked[order], 2)
        return RowData.split(rows, hot, train, rows=sum(self.sizes.values()))


class OwnFeatures(OwnData):
    """A tenth of the examples is for tests, at most `MOST_TESTS`; the others are in the seed's order."""

    def __init__(self, path: Path) -> None:
        self._read = read_libsvm(path)
        super().__init__(path)
        examples, most = self._read.features.shape
        self.sizes = {
            "features": max(self._read.number, LEAST_FEATURES), "nonzeros": most, "width": len(self._read.labels)
        }  # fmt: skip
        self.tests = min(examples // 10, MOST_TESTS)
        self._order = np.random.default_rng(0).permutation(examples)

    def examples(self, spec: TrialSpec, seed: int) -> RowData:
        train = len(self._order) - self.tests
        order = np.concatenate(
            [self._order[:train][np.random.default_rng([seed, 9]).permutation(train)], self._order[train:]]
        )
        rows = with_values(self._read.features[order], self._read.values[order])
        hot = one_hot(self._read.classes[order], len(self._read.labels))
        return RowData.split(rows, hot, train, rows=self.sizes["features"], has_values=True)


class OwnText(OwnData):
    """Words of the first nine tenths of the text with one near them, drawn at random; tests: of the last tenth."""

    def __init__(self, path: Path) -> None:
        self._text = read_text(path)
        super().__init__(path)
        self.sizes = {"words": len(self._text.counts)}
        self._train = len(self._text.words) * 9 // 10
        self.tests = min(len(self._text.words) - self._train, MOST_TESTS)

    def examples(self, spec: TrialSpec, seed: int) -> RowData:
        train = self._draw(spec, np.random.default_rng([seed, 8]), 0, self._train, TEXT_EXAMPLES)
        test = self._draw(spec, np.random.default_rng(0), self._train, len(self._text.words), self.tests)
        rows, labels = np.concatenate([train[0], test[0]]), np.concatenate([train[1], test[1]])
        classes = rows.shape[1] - 1
        return RowData.split(rows, one_hot(labels, classes), len(train[0]), rows=2 * self.sizes["words"])

    def _draw(
        self, spec: TrialSpec, rng: np.random.Generator, begin: int, end: int, examples: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Draw examples from the words [begin, end) of the text: their rows, and which word was near."""
        assert spec.negatives is not None, "a spec of this model has it"
        at = rng.integers(begin, end, examples)
        distance = rng.integers(1, WINDOW + 1, examples) * rng.choice([-1, 1], examples)
        neighbours = np.where((at + distance < begin) | (at + distance >= end), at - distance, at + distance)
        words = self._text.words
        draw = drawer(rng, self._text.counts.astype(np.float64) ** POWER)
        others = with_negatives(words[neighbours], draw, spec.negatives)
        return in_order(words[at], others, np.arange(self.sizes["words"]))[:2]


_KINDS: Mapping[str, type[OwnData]] = {
    "matrix_factorisation": OwnRatings, "skipgram": OwnText, "sparse_logistic": OwnFeatures
}  # fmt: skip


@lru_cache(maxsize=2)
def load_own_data(model: str, path: Path) -> OwnData:
    """Read the file for a model, once. Raises BadInput for another model, and for a file that does not fit it."""
    if model not in _KINDS:
        *others, last = models_with_own_data()
        raise BadInput(f"{model} takes no file of yours; {', '.join(others)} and {last} do.")
    if not path.is_file():
        raise BadInput(f"{path} is not a file.")
    return _KINDS[model](path)
