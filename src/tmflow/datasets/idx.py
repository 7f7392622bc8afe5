"""The IDX format of MNIST: a magic number, the dimensions, then the bytes; often gzipped."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tmflow.base.errors import BadInput

GZIP_MAGIC = b"\x1f\x8b"
UNSIGNED_BYTE = 0x08


def gunzip(data: bytes, where: object) -> bytes:
    """`data` uncompressed, or as it is where it is not gzipped. Raises BadInput, naming `where`, if it is damaged."""
    if not data.startswith(GZIP_MAGIC):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{where} is a truncated or damaged gzip file: {error}.") from error


def decode(content: bytes, where: object) -> NDArray[np.uint8]:
    """The array of an uncompressed IDX file of unsigned bytes, without a copy; its shape is the one in the header.

    Raises BadInput, naming `where`, for a wrong magic number and for more or fewer bytes than the header promises.
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
            f"which promises {math.prod(shape):,}."
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def read(path: Path) -> bytes:
    """The uncompressed content of a file. Raises BadInput if it cannot be read or uncompressed."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from error
    return gunzip(data, path)
