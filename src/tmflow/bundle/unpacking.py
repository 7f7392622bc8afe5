"""What was stored, deflated or packed by LZMA in a zip file, unpacked in bounded memory."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Iterator
from itertools import chain
from typing import Protocol

from tmflow.bundle import format
from tmflow.bundle.refused import Refused

STORED, DEFLATED, LZMA = 0, 8, 14
METHODS = {STORED: "stored (0)", DEFLATED: "deflated (8)", LZMA: "LZMA (14)"}

_AT_ONCE = 1 << 16  # stays in a processor's own cache
_LZMA_HEADER = 9  # version, length of the properties, and those


class _Decoder(Protocol):
    """Unpacks; gives `_AT_ONCE` bytes at most, so that a bomb is seen before it is in memory."""

    def feed(self, packed: bytes) -> bytes: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def is_at_its_end(self) -> bool: ...


class _Deflated:
    def __init__(self) -> None:
        self._its = zlib.decompressobj(-zlib.MAX_WBITS)
        self._may_have_more = False  # zlib may hold what had no room, with all of its input taken

    def feed(self, packed: bytes) -> bytes:
        chunk = self._its.decompress(self._its.unconsumed_tail + packed, _AT_ONCE)
        self._may_have_more = len(chunk) == _AT_ONCE
        return chunk

    @property
    def needs_input(self) -> bool:
        return not (self._may_have_more or self._its.unconsumed_tail)

    @property
    def is_at_its_end(self) -> bool:
        return self._its.eof and not self._its.unused_data


class _Lzma:
    def __init__(self, its: lzma.LZMADecompressor) -> None:
        self._its = its

    def feed(self, packed: bytes) -> bytes:
        return self._its.decompress(packed, _AT_ONCE)

    @property
    def needs_input(self) -> bool:
        return self._its.needs_input

    @property
    def is_at_its_end(self) -> bool:
        return self._its.eof and not self._its.unused_data


def unpacked(packed: Iterator[bytes], method: int, where: str) -> Iterator[bytes]:
    """The bytes of a member from its packed ones. Raises Refused for those that no packer writes."""
    if method == STORED:
        yield from packed
        return
    first = next(packed, b"")
    decoder, first = _of_lzma(first, where) if method == LZMA else (_Deflated(), first)
    try:
        for chunk in chain([first], packed):
            yield decoder.feed(chunk)
            while not decoder.needs_input and not decoder.is_at_its_end:
                yield decoder.feed(b"")
    except (zlib.error, lzma.LZMAError, EOFError) as error:
        raise Refused(f"{where} cannot be unpacked: {error}.") from error
    if not decoder.is_at_its_end:
        raise Refused(f"{where} cannot be unpacked: it is cut off, or something follows its end.")


def _of_lzma(first: bytes, where: str) -> tuple[_Decoder, bytes]:
    """What unpacks LZMA as the header in the first packed bytes says, and those of them behind it."""
    properties, window = first[4:5], int.from_bytes(first[5:_LZMA_HEADER], "little")
    if len(first) < _LZMA_HEADER or int.from_bytes(first[2:4], "little") != 5 or properties[0] >= 9 * 5 * 5:
        raise Refused(f"{where} cannot be unpacked: it has no header of LZMA.")
    if window > format.MAX_LZMA_WINDOW:
        raise Refused(f"{where} needs a window of {window} bytes for LZMA; allowed are {format.MAX_LZMA_WINDOW}.")
    rest, lc = divmod(properties[0], 9)
    pb, lp = divmod(rest, 5)
    if lc + lp > 4:
        raise Refused(f"{where} cannot be unpacked: liblzma reads no LZMA with {lc} and {lp} literal bits.")
    filters = [{"id": lzma.FILTER_LZMA1, "dict_size": max(window, 4096), "lc": lc, "lp": lp, "pb": pb}]
    return _Lzma(lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters)), first[_LZMA_HEADER:]
