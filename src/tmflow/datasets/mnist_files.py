"""The official MNIST files: their format (IDX, often gzipped), checksums and mirrors (mnist_files.json)."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tmflow.base.canonical_json import sha256_of
from tmflow.base.errors import BadInput

GZIP_MAGIC = b"\x1f\x8b"
UNSIGNED_BYTE = 0x08


def gunzip(data: bytes, where: object) -> bytes:
    """Decompress `data` if it is gzipped. Raises BadInput, naming `where`, if it is damaged."""
    if not data.startswith(GZIP_MAGIC):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{where} is a truncated or damaged gzip file: {error}.") from error


def decode_idx(content: bytes, where: object) -> NDArray[np.uint8]:
    """Decode an uncompressed IDX file of unsigned bytes to an array, without a copy; the header has the shape.

    Raises BadInput, naming `where`, for a wrong magic number or if the number of bytes differs from the header's.
    """
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != UNSIGNED_BYTE or content[3] == 0:
        raise BadInput(
            f"{where} is not an IDX file of unsigned bytes: it begins with 0x{content[:4].hex()} "
            "instead of 0x000008 and the number of dimensions."
        )
    dimensions = content[3]
    header = 4 + 4 * dimensions
    if len(content) < header:
        raise BadInput(f"{where} is truncated: it ends within its IDX header.")
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    if len(content) - header != math.prod(shape):
        raise BadInput(
            f"{where} is truncated or altered: {len(content) - header:,} bytes follow its IDX header, "
            f"which declares {math.prod(shape):,}."
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def read_uncompressed(path: Path) -> bytes:
    """Read a file, and decompress it if it is gzipped. Raises BadInput if either fails."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from error
    return gunzip(data, path)


@dataclass(frozen=True)
class IdxFile:
    """A required IDX file; `content_bytes` and `sha256` are those of its uncompressed content."""

    name: str
    items: int
    shape: tuple[int, ...]
    content_bytes: int
    sha256: str

    def decode(self, content: bytes, where: object) -> NDArray[np.uint8]:
        """Decode to [items, values of an item]. Raises BadInput, naming `where`, unless this is the official file."""
        array = decode_idx(content, where)
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
        """The identity of the dataset: the hash of the hashes of its files."""
        return sha256_of({role: file.sha256 for role, file in self.files.items()})


@cache
def _official() -> Catalogue:
    table = json.loads(files("tmflow.datasets").joinpath("mnist_files.json").read_text(encoding="utf-8"))
    entries = {role: IdxFile(**{**entry, "shape": tuple(entry["shape"])}) for role, entry in table["files"].items()}
    return Catalogue(tuple(table["mirrors"]), entries)


def catalogue() -> Catalogue:
    """The official MNIST. TMFLOW_MNIST_MIRRORS (addresses) replaces the mirrors; empty: no download."""
    official = _official()
    override = os.environ.get("TMFLOW_MNIST_MIRRORS")
    return official if override is None else Catalogue(tuple(override.split()), official.files)
