"""Reads the zip file of a bundle defensively: its directory is checked against the file.

Only plain files are accepted: one disk, no comment, no encryption, no symbolic link, contiguous members with nothing
before, between or after them. So no two members share bytes, and other readers see the same content.

`zipfile` parses the directory. Members are decompressed here, because `zipfile` ignores what follows the end of the
compressed data, and decompresses LZMA without a bound on memory.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tmflow.bundle import format
from tmflow.bundle.format import Refused

METHODS = {
    zipfile.ZIP_STORED: "stored (0)",
    zipfile.ZIP_DEFLATED: "deflated (8)",
    zipfile.ZIP_LZMA: "LZMA (14)",  # as `tmflow bundle export` writes
}

_END = struct.Struct("<4s4H2LH")
_LOCAL = struct.Struct("<4s5H3L2H")
_END_SIGNATURE, _ENTRY_SIGNATURE, _LOCAL_SIGNATURE = b"PK\5\6", b"PK\1\2", b"PK\3\4"
_ZIP64_LOCATOR, _LOCATOR_SIZE = b"PK\6\7", 20
_DESCRIPTOR = b"PK\7\10"
_ENTRY_SIZE = 46  # bytes of a directory entry, without name and extra fields

_SIZES_BEHIND, _UTF8 = 8, 2048
_LEVEL = 2 | 4  # compression level; for LZMA, whether its end is marked
_UNIX = 3
_KIND = 0o170000
_REGULAR, _FOLDER = (0, 0o100000), (0, 0o040000)

_CHUNK = 1 << 16  # bytes read or decompressed at once; fits into a processor's cache
_LZMA_HEADER = 9  # bytes: version, length of the properties, properties


class Member(NamedTuple):
    """A file in the zip, on which the directory and its header agree. `data`: the offset of its packed bytes."""

    name: str
    method: int
    crc32: int
    packed: int
    bytes: int
    data: int


def members(file: BinaryIO, path: Path) -> list[Member]:
    """The files of a zip file, in its order. Raises Refused if it is not plain and complete."""
    start, n_members = _require_plain_end(file, path)
    try:
        entries = zipfile.ZipFile(file).infolist()
        if len(entries) != n_members:
            raise Refused(f"{path} has {len(entries)} entries in its directory, and its end says {n_members}.")
        members_read, end = [], 0
        for entry in sorted(entries, key=lambda entry: entry.header_offset):
            member = _checked_member(entry, end, file, path)
            members_read.append(member)
            end = member.data + member.packed
            if entry.flag_bits & _SIZES_BEHIND:
                end = _end_after_descriptor(file, end, member, path)
    except UnicodeDecodeError as error:
        name = error.object.decode("utf-8", "backslashreplace")
        raise Refused(f"{path}: the name {name!r} of a member is not UTF-8.") from error
    except (zipfile.BadZipFile, NotImplementedError, struct.error) as error:
        raise Refused(f"{path} is not a complete zip file: {error}.") from error
    if end != start:
        raise Refused(f"{path} is not a plain zip file: {start - end} bytes before its directory belong to no member.")
    if sum(member.bytes for member in members_read) > format.MAX_TOTAL:
        raise Refused(f"{path} has more than {format.MAX_TOTAL >> 30} GiB in all, which is the most allowed.")
    if len({member.name for member in members_read}) != len(members_read):
        twice = next(name for name, n in Counter(member.name for member in members_read).items() if n > 1)
        raise Refused(f"{path} has two members named {twice!r}; one is allowed.")
    return [member for member in members_read if not member.name.endswith("/")]


def read(file: BinaryIO, member: Member, where: str) -> Iterator[bytes]:
    """Yield the bytes of a member in chunks. Raises Refused if their number or CRC-32 differs from the directory."""
    n_bytes = crc32 = 0
    for chunk in unpack(_packed(file, member, where), member.method, where):
        n_bytes += len(chunk)
        if n_bytes > member.bytes:
            raise Refused(f"{where} is larger than the {member.bytes} bytes that its zip file says.")
        crc32 = zlib.crc32(chunk, crc32)
        yield chunk
    if n_bytes != member.bytes:
        raise Refused(f"{where} has {n_bytes} bytes, but its zip file says {member.bytes}.")
    if crc32 != member.crc32:
        raise Refused(f"{where} is damaged: its CRC-32 is {crc32:08x}, but its zip file says {member.crc32:08x}.")


def _packed(file: BinaryIO, member: Member, where: str) -> Iterator[bytes]:
    at, end = member.data, member.data + member.packed
    while at < end:
        file.seek(at)  # another reader may have moved the position
        chunk = file.read(min(end - at, _CHUNK))
        if not chunk:
            raise Refused(f"{where} is cut off.")
        at += len(chunk)
        yield chunk


def _require_plain_end(file: BinaryIO, path: Path) -> tuple[int, int]:
    """The offset of the directory and its number of entries, as the end of the file has them.

    This ensures that `zipfile` finds the directory in the same place, and can parse it in little memory.
    """
    size = file.seek(0, 2)
    if size > format.MAX_FILE:
        raise Refused(f"{path} has {size} bytes; the most allowed is {format.MAX_FILE}.")
    if size < _END.size:
        raise Refused(f"{path} is not a zip file.")
    file.seek(size - _END.size)
    signature, disk, directory_disk, here, n_members, n_bytes, start, comment = _END.unpack(file.read(_END.size))
    if signature != _END_SIGNATURE:
        raise Refused(f"{path} is not a zip file, or it is cut off, or it ends in a comment or something else.")
    if disk or directory_disk or here != n_members or comment:
        raise Refused(f"{path} is not a plain zip file: it is a part of one, or has a comment.")
    if n_members > format.MAX_MEMBERS:
        raise Refused(f"{path} has {n_members} members; the most allowed is {format.MAX_MEMBERS}.")
    if start + n_bytes != size - _END.size:
        raise Refused(f"{path} is not a plain zip file: its directory does not end where its end begins.")
    if n_bytes > n_members * (_ENTRY_SIZE + format.MAX_NAME + format.MAX_EXTRA):
        raise Refused(
            f"{path} has a directory of {n_bytes} bytes for {n_members} members; the most allowed for each are "
            f"{format.MAX_NAME} bytes of a name and {format.MAX_EXTRA} of extra fields."
        )
    file.seek(start)
    directory = file.read(n_bytes)
    if directory[-_LOCATOR_SIZE:].startswith(_ZIP64_LOCATOR) or directory.count(_ENTRY_SIGNATURE) > format.MAX_MEMBERS:
        raise Refused(f"{path} is not a plain zip file: its directory contains more than its entries.")
    return start, n_members


def _checked_member(entry: zipfile.ZipInfo, start: int, file: BinaryIO, path: Path) -> Member:
    """The member of an entry of the directory, which should begin at `start` with a header that agrees."""
    name, where = entry.orig_filename, f"{path}, member {entry.orig_filename!r}"
    if entry.volume or entry.comment:
        raise Refused(f"{path} is not a plain zip file: an entry of its directory is of a part, or has a comment.")
    if not name:
        raise Refused(f"{path} has a member without a name.")
    if len(name.encode()) > format.MAX_NAME or len(entry.extra) > format.MAX_EXTRA:
        raise Refused(
            f"{path} has a member with a name of {len(name.encode())} bytes and {len(entry.extra)} bytes of extra "
            f"fields; the most allowed are {format.MAX_NAME} and {format.MAX_EXTRA}."
        )
    if entry.header_offset != start:
        raise Refused(
            f"{path} is not a plain zip file: member {name!r} starts at byte {entry.header_offset}, where byte {start} "
            "should be the next."
        )
    data = _require_header(entry, file, path)
    member = Member(name, entry.compress_type, entry.CRC, entry.compress_size, entry.file_size, data)
    if entry.flag_bits & ~(_SIZES_BEHIND | _UTF8 | _LEVEL):
        raise Refused(f"{where} is encrypted or packed in an unknown way.")
    if member.method not in METHODS:
        raise Refused(f"{where} is compressed by method {member.method}; allowed: {', '.join(METHODS.values())}.")
    kind = entry.external_attr >> 16 & _KIND if entry.create_system == _UNIX else 0
    if name.endswith("/"):
        if kind not in _FOLDER or member.bytes or member.packed:
            raise Refused(f"{where} is a folder with something in it; a folder is a name alone.")
    elif kind not in _REGULAR:
        raise Refused(f"{where} is a link or another special file; files are allowed.")
    if member.bytes > format.max_bytes(name):
        raise Refused(f"{where} says it has {member.bytes} bytes; the most allowed is {format.max_bytes(name)}.")
    if member.bytes > max(format.MAX_RATIO * member.packed, format.MIB):
        raise Refused(f"{where} says it grows more than {format.MAX_RATIO} times when unpacked; run files do not.")
    return member


def _require_header(entry: zipfile.ZipInfo, file: BinaryIO, path: Path) -> int:
    """The offset of the packed bytes of a member. Raises Refused if its header and the directory disagree."""
    file.seek(entry.header_offset)
    signature, _, flags, method, _, _, *sizes, name_length, extra_length = _LOCAL.unpack(file.read(_LOCAL.size))
    name = file.read(name_length)
    listed = [entry.CRC, entry.compress_size, entry.file_size]
    if flags & _SIZES_BEHIND and not sizes[1]:
        listed = [0, 0, 0]
    agrees = (signature, flags, method, sizes) == (_LOCAL_SIGNATURE, entry.flag_bits, entry.compress_type, listed)
    # `zipfile` decodes names that are not marked as UTF-8 as cp437.
    if not agrees or name != entry.orig_filename.encode("utf-8" if flags & _UTF8 else "cp437"):
        raise Refused(f"{path}: the directory and the header of member {entry.orig_filename!r} disagree.")
    name.decode("utf-8" if flags & _UTF8 else "ascii")  # raises UnicodeDecodeError
    data: int = entry.header_offset + _LOCAL.size + name_length + extra_length
    return data


def _end_after_descriptor(file: BinaryIO, end: int, member: Member, path: Path) -> int:
    """The end of a member whose sizes follow it; they must agree with the directory."""
    file.seek(end)
    behind = file.read(16)
    sizes = struct.pack("<3L", member.crc32, member.packed, member.bytes)
    for descriptor in (_DESCRIPTOR + sizes, sizes):
        if behind.startswith(descriptor):
            return end + len(descriptor)
    raise Refused(f"{path}: the directory and the descriptor after member {member.name!r} disagree.")


class _Inflater:
    """The decompressor of `zlib` with the interface of `lzma`'s."""

    def __init__(self) -> None:
        self._decompressor = zlib.decompressobj(-zlib.MAX_WBITS)
        self.needs_input = True

    def decompress(self, data: bytes, max_length: int) -> bytes:
        chunk = self._decompressor.decompress(self._decompressor.unconsumed_tail + data, max_length)
        # zlib may hold back output after it has consumed all input
        self.needs_input = not self._decompressor.unconsumed_tail and len(chunk) < max_length
        return chunk

    @property
    def eof(self) -> bool:
        return self._decompressor.eof

    @property
    def unused_data(self) -> bytes:
        return self._decompressor.unused_data


def unpack(packed: Iterator[bytes], method: int, where: str) -> Iterator[bytes]:
    """Decompress the bytes of a member in small chunks. Raises Refused if they are malformed."""
    if method == zipfile.ZIP_STORED:
        yield from packed
        return
    first = next(packed, b"")
    decoder: _Inflater | lzma.LZMADecompressor = _Inflater()
    if method == zipfile.ZIP_LZMA:
        decoder, first = _lzma_decoder(first, where), first[_LZMA_HEADER:]
    try:
        for chunk in chain([first], packed):
            yield decoder.decompress(chunk, _CHUNK)
            while not (decoder.needs_input or decoder.eof):
                yield decoder.decompress(b"", _CHUNK)
    except (zlib.error, lzma.LZMAError, EOFError) as error:
        raise Refused(f"{where} cannot be unpacked: {error}.") from error
    if not decoder.eof or decoder.unused_data:
        raise Refused(f"{where} cannot be unpacked: it is cut off, or something follows its end.")


def _lzma_decoder(first: bytes, where: str) -> lzma.LZMADecompressor:
    """The LZMA decoder for the header in the first packed bytes."""
    properties, window = first[4:5], int.from_bytes(first[5:_LZMA_HEADER], "little")
    if len(first) < _LZMA_HEADER or int.from_bytes(first[2:4], "little") != 5 or properties[0] >= 9 * 5 * 5:
        raise Refused(f"{where} cannot be unpacked: it has no valid LZMA header.")
    if window > format.MAX_LZMA_WINDOW:
        raise Refused(f"{where} needs a window of {window} bytes for LZMA; allowed are {format.MAX_LZMA_WINDOW}.")
    rest, lc = divmod(properties[0], 9)
    pb, lp = divmod(rest, 5)
    if lc + lp > 4:
        raise Refused(f"{where} cannot be unpacked: liblzma reads no LZMA with {lc} and {lp} literal bits.")
    filters = [{"id": lzma.FILTER_LZMA1, "dict_size": max(window, 4096), "lc": lc, "lp": lp, "pb": pb}]
    return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters)
