"""What the official MNIST files are, and where they can be had: checksums.json, typed."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from tmflow.base.canonical_json import sha256_of
from tmflow.base.errors import BadInput
from tmflow.datasets import idx


@dataclass(frozen=True)
class IdxFile:
    """An IDX file as it must be: `content_bytes` and `sha256` are those of its uncompressed content."""

    name: str
    items: int
    shape: tuple[int, ...]
    content_bytes: int
    sha256: str

    def decode(self, content: bytes, where: object) -> NDArray[np.uint8]:
        """The verified array, [items, values of an item]. Raises BadInput, naming `where`, if it is another file."""
        array = idx.decode(content, where)
        sha256 = hashlib.sha256(content).hexdigest()
        if sha256 != self.sha256:
            raise BadInput(
                f"{where} is not the official {self.name}: the SHA-256 of its uncompressed content is {sha256}, "
                f"not {self.sha256}."
            )
        return array.reshape(self.items, math.prod(self.shape))


@dataclass(frozen=True)
class Catalogue:
    """The files of a dataset by role (train_images, train_labels, test_images, test_labels), and their mirrors."""

    mirrors: tuple[str, ...]
    files: Mapping[str, IdxFile]

    @property
    def sha256(self) -> str:
        """The identity of the dataset: the hash over the hashes of its files."""
        return sha256_of({role: file.sha256 for role, file in self.files.items()})


@cache
def _official() -> Catalogue:
    table = json.loads(files("tmflow.datasets").joinpath("checksums.json").read_text(encoding="utf-8"))
    entries = {role: IdxFile(**{**entry, "shape": tuple(entry["shape"])}) for role, entry in table["files"].items()}
    return Catalogue(tuple(table["mirrors"]), entries)


def mnist() -> Catalogue:
    """The official MNIST. TMFLOW_MNIST_MIRRORS (addresses) replaces the mirrors; empty: no download."""
    official = _official()
    override = os.environ.get("TMFLOW_MNIST_MIRRORS")
    return official if override is None else Catalogue(tuple(override.split()), official.files)
