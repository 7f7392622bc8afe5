"""The IDX reader accepts valid files and refuses every other file, with its name."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from idx_bytes import encoded

from tmflow.base.errors import BadInput
from tmflow.datasets.mnist_files import decode_idx, read_uncompressed

PIXELS = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_reads_plain_and_gzipped(tmp_path: Path, compress) -> None:
    path = tmp_path / "images"
    path.write_bytes(compress(encoded(PIXELS)))
    assert np.array_equal(decode_idx(read_uncompressed(path), path), PIXELS)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is not an IDX file"),
        (b"<html>no such file</html>", "is not an IDX file of unsigned bytes: it begins with 0x3c68746d"),
        (b"\0\0\x0d\x01" + bytes(8), "is not an IDX file of unsigned bytes"),
        (b"\0\0\x08\x00", "is not an IDX file of unsigned bytes"),
        (encoded(PIXELS)[:10], "ends within its IDX header"),
        (encoded(PIXELS)[:-1], "23 bytes follow its IDX header, which declares 24"),
        (encoded(PIXELS) + b"x", "25 bytes follow its IDX header, which declares 24"),
    ],
)
def test_refuses_other_content_by_name(content: bytes, complaint: str) -> None:
    with pytest.raises(BadInput, match=r"^some/file ") as refusal:
        decode_idx(content, "some/file")
    assert complaint in str(refusal.value)


def test_refuses_a_truncated_and_a_damaged_gzip_file_by_name(tmp_path: Path) -> None:
    whole = gzip.compress(encoded(PIXELS))
    damaged = bytearray(whole)
    damaged[-6] ^= 0xFF  # in the checksum of the content
    for name, data in (("cut.gz", whole[:-9]), ("damaged.gz", bytes(damaged))):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(BadInput, match=f"{name} is a truncated or damaged gzip file"):
            read_uncompressed(tmp_path / name)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="absent cannot be read: No such file"):
        read_uncompressed(tmp_path / "absent")
