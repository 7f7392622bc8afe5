"""Reads the zip file of a bundle defensively: its directory is checked against the file.

Only plain files are accepted: one disk, no comment, no encryption, no symbolic link, contiguous members with nothing
before, between or after them. So no two members share bytes, and other readers see the same content.
"""

from __future__ import annotations

import lzma
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from tmflow.bundle import format
from tmflow.bundle.format import Refused

_END = struct.Struct("<4s4H2LH")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_END_SIGNATURE, _CENTRAL_SIGNATURE, _LOCAL_SIGNATURE = b"PK\5\6", b"PK\1\2", b"PK\3\4"
_DESCRIPTOR = b"PK\7\10"

_ENCRYPTED, _SIZES_BEHIND, _STRONGLY_ENCRYPTED, _UTF8 = 1, 8, 64, 2048
_LEVEL = 2 | 4  # compression level; for LZMA, whether its end is marked
_UNIX = 3
_LINK, _KIND = 0o120000, 0o170000
_REGULAR = (0, 0o100000)
_FOLDER = 0o040000

_CHUNK = 1 << 16


class Member(NamedTuple):
    """A file in the zip, on which the directory and its header agree."""

    name: str
    method: int
    crc32: int
    packed: int
    bytes: int
    start: int
    """The offset of its header."""
    data: int
    """The offset of its packed bytes."""


class _DirectoryEntry(NamedTuple):
    """The directory's entry of a member."""

    name: bytes
    flags: int
    method: int
    crc32: int
    packed: int
    bytes: int
    start: int
    mode: int


def members(file: BinaryIO, path: Path) -> list[Member]:
    """The files of a zip file, in its order. Raises Refused if it is not plain and complete."""
    try:
        return _members(file, path)
    except struct.error as error:
        raise Refused(f"{path} is no whole zip file: a header is cut off.") from error


def read(file: BinaryIO, member: Member, where: str) -> Iterator[bytes]:
    """Yield the bytes of a member in chunks. Raises Refused if their number differs from the directory.

    The caller checks the content by the SHA-256 of the manifest.
    """
    n_bytes = 0
    for chunk in unpack(_packed(file, member, where), member.method, where):
        n_bytes += len(chunk)
        if n_bytes > member.bytes:
            raise Refused(f"{where} is larger than the {member.bytes} bytes that its zip file says.")
        yield chunk
    if n_bytes != member.bytes:
        raise Refused(f"{where} has {n_bytes} bytes, and its zip file says {member.bytes}.")


def read_by_crc(file: BinaryIO, member: Member, where: str) -> Iterator[bytes]:
    """Yield the bytes of a member without a known SHA-256, checked by the CRC-32 of the zip file."""
    crc32 = 0
    for chunk in read(file, member, where):
        crc32 = zlib.crc32(chunk, crc32)
        yield chunk
    if crc32 != member.crc32:
        raise Refused(f"{where} is damaged: its CRC-32 is {crc32:08x}, and its zip file says {member.crc32:08x}.")


def _packed(file: BinaryIO, member: Member, where: str) -> Iterator[bytes]:
    at, end = member.data, member.data + member.packed
    while at < end:
        file.seek(at)  # another reader may have moved the position
        chunk = file.read(min(end - at, _CHUNK))
        if not chunk:
            raise Refused(f"{where} is cut off.")
        at += len(chunk)
        yield chunk


def _members(file: BinaryIO, path: Path) -> list[Member]:
    n_members, directory, start = _directory(file, path)
    entries = list(_entries(directory, n_members, path))
    members_read = []
    end = 0
    for entry in sorted(entries, key=lambda entry: entry.start):
        end = _require_contiguous(end, entry, file, path)
        member = _checked_member(entry, file, path)
        end = member.data + member.packed
        members_read.append(member)
        _require_sane(entry, member, path)
        if entry.flags & _SIZES_BEHIND:
            end = _end_after_descriptor(file, end, member, path)
    if end != start:
        raise Refused(f"{path} is not a plain zip file: {start - end} bytes before its directory belong to no member.")
    if sum(member.bytes for member in members_read) > format.MAX_TOTAL:
        raise Refused(f"{path} has more than {format.MAX_TOTAL >> 30} GiB in all, which is the most allowed.")
    names = [member.name for member in members_read]
    if len(set(names)) != len(names):
        twice = next(name for name, n in Counter(names).items() if n > 1)
        raise Refused(f"{path} has two members named {twice!r}; one is allowed.")
    return [member for member in members_read if not member.name.endswith("/")]


def _directory(file: BinaryIO, path: Path) -> tuple[int, bytes, int]:
    """The number of directory entries, the bytes of the directory, and its offset."""
    size = file.seek(0, 2)
    if size > format.MAX_FILE:
        raise Refused(f"{path} has {size} bytes; the most allowed is {format.MAX_FILE}.")
    if size < _END.size:
        raise Refused(f"{path} is no zip file.")
    file.seek(size - _END.size)
    signature, disk, directory_disk, here, n_members, n_bytes, start, comment = _END.unpack(file.read(_END.size))
    if signature != _END_SIGNATURE:
        raise Refused(f"{path} is no zip file, or it is cut off, or it ends in a comment or something else.")
    if disk or directory_disk or here != n_members or comment:
        raise Refused(f"{path} is not a plain zip file: it is a part of one, or has a comment.")
    if n_members > format.MAX_MEMBERS:
        raise Refused(f"{path} has {n_members} members; the most allowed is {format.MAX_MEMBERS}.")
    if start + n_bytes != size - _END.size:
        raise Refused(f"{path} is not a plain zip file: its directory does not end where its end begins.")
    if n_bytes > n_members * (_CENTRAL.size + format.MAX_NAME + format.MAX_EXTRA):
        raise Refused(
            f"{path} has a directory of {n_bytes} bytes for {n_members} members; the most allowed for each are "
            f"{format.MAX_NAME} bytes of a name and {format.MAX_EXTRA} of extra fields."
        )
    file.seek(start)
    return n_members, file.read(n_bytes), start


def _entries(directory: bytes, n_members: int, path: Path) -> Iterator[_DirectoryEntry]:
    at = 0
    for _ in range(n_members):
        (signature, made_by, _, flags, method, _, _, crc32, packed, n_bytes, name_length, extra_length,
         comment_length, disk, _, attributes, start) = _CENTRAL.unpack_from(directory, at)  # fmt: skip
        if signature != _CENTRAL_SIGNATURE or disk or comment_length:
            raise Refused(f"{path} is not a plain zip file: an entry of its directory is none, or has a comment.")
        if not name_length:
            raise Refused(f"{path} has a member that has no name.")
        if name_length > format.MAX_NAME or extra_length > format.MAX_EXTRA:
            raise Refused(
                f"{path} has a member with a name of {name_length} bytes and {extra_length} bytes of extra fields; the "
                f"most allowed are {format.MAX_NAME} and {format.MAX_EXTRA}."
            )
        at += _CENTRAL.size
        name = directory[at : at + name_length]
        at += name_length + extra_length
        mode = attributes >> 16 if made_by >> 8 == _UNIX else 0
        yield _DirectoryEntry(name, flags, method, crc32, packed, n_bytes, start, mode)
    if at != len(directory):
        raise Refused(f"{path} is not a plain zip file: its directory has another length than its entries.")


def _require_contiguous(end: int, entry: _DirectoryEntry, file: BinaryIO, path: Path) -> int:
    if entry.start != end:
        raise Refused(
            f"{path} is not a plain zip file: member {_quoted(entry.name)} starts at byte {entry.start}, where byte "
            f"{end} should be the next."
        )
    return end


def _checked_member(entry: _DirectoryEntry, file: BinaryIO, path: Path) -> Member:
    """The member, after checking that its header agrees with the directory."""
    file.seek(entry.start)
    signature, _, flags, method, _, _, crc32, packed, n_bytes, name_length, extra_length = _LOCAL.unpack(
        file.read(_LOCAL.size)
    )
    name = file.read(name_length)
    header = (flags, method, crc32, packed, n_bytes, name)
    sizes = (0, 0, 0) if flags & _SIZES_BEHIND and not packed else (entry.crc32, entry.packed, entry.bytes)
    if signature != _LOCAL_SIGNATURE or header != (entry.flags, entry.method, *sizes, entry.name):
        raise Refused(f"{path}: the directory and the header of member {_quoted(entry.name)} disagree.")
    try:
        text = name.decode("utf-8" if flags & _UTF8 else "ascii")
    except UnicodeDecodeError as error:
        raise Refused(f"{path}: the name {_quoted(name)} of a member is not UTF-8.") from error
    data = entry.start + _LOCAL.size + name_length + extra_length
    return Member(text, entry.method, entry.crc32, entry.packed, entry.bytes, entry.start, data)


def _require_sane(entry: _DirectoryEntry, member: Member, path: Path) -> None:
    where = f"{path}, member {member.name!r}"
    if entry.flags & ~(_SIZES_BEHIND | _UTF8 | _LEVEL):
        raise Refused(f"{where} is encrypted or packed in a way that is not known here.")
    if member.method not in METHODS:
        allowed = ", ".join(METHODS.values())
        raise Refused(f"{where} is compressed by method {member.method}; allowed: {allowed}.")
    kind = entry.mode & _KIND
    if member.name.endswith("/"):
        if kind not in (0, _FOLDER) or member.bytes or member.packed:
            raise Refused(f"{where} is a folder with something in it; a folder is a name alone.")
    elif kind not in _REGULAR:
        raise Refused(f"{where} is a link or another special file; files are allowed.")
    if member.bytes > format.max_bytes(member.name):
        raise Refused(f"{where} says it has {member.bytes} bytes; allowed are {format.max_bytes(member.name)}.")
    if member.bytes > max(format.MAX_RATIO * member.packed, format.MIB):
        raise Refused(f"{where} says it grows more than {format.MAX_RATIO} times, as no run file does.")


def _end_after_descriptor(file: BinaryIO, end: int, member: Member, path: Path) -> int:
    """The end of a member whose sizes follow it; they must agree with the directory."""
    file.seek(end)
    behind = file.read(16)
    sizes = struct.pack("<3L", member.crc32, member.packed, member.bytes)
    for descriptor in (_DESCRIPTOR + sizes, sizes):
        if behind.startswith(descriptor):
            return end + len(descriptor)
    raise Refused(f"{path}: the directory and what stands behind member {member.name!r} disagree.")


def _quoted(name: bytes) -> str:
    return repr(name.decode("utf-8", "backslashreplace"))


STORED, DEFLATED, LZMA = 0, 8, 14
METHODS = {STORED: "stored (0)", DEFLATED: "deflated (8)", LZMA: "LZMA (14)"}

_AT_ONCE = 1 << 16  # fits into a processor's cache
_LZMA_HEADER = 9  # bytes: version, length of the properties, properties


class _Decoder(Protocol):
    """Unpacks at most `_AT_ONCE` bytes per call, so that a zip bomb is noticed before it fills memory."""

    def feed(self, packed: bytes) -> bytes: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def is_at_its_end(self) -> bool: ...


class _Deflated:
    def __init__(self) -> None:
        self._decompressor = zlib.decompressobj(-zlib.MAX_WBITS)
        self._may_have_more = False  # zlib may hold back output after consuming all input

    def feed(self, packed: bytes) -> bytes:
        chunk = self._decompressor.decompress(self._decompressor.unconsumed_tail + packed, _AT_ONCE)
        self._may_have_more = len(chunk) == _AT_ONCE
        return chunk

    @property
    def needs_input(self) -> bool:
        return not (self._may_have_more or self._decompressor.unconsumed_tail)

    @property
    def is_at_its_end(self) -> bool:
        return self._decompressor.eof and not self._decompressor.unused_data


class _Lzma:
    def __init__(self, decompressor: lzma.LZMADecompressor) -> None:
        self._decompressor = decompressor

    def feed(self, packed: bytes) -> bytes:
        return self._decompressor.decompress(packed, _AT_ONCE)

    @property
    def needs_input(self) -> bool:
        return self._decompressor.needs_input

    @property
    def is_at_its_end(self) -> bool:
        return self._decompressor.eof and not self._decompressor.unused_data


def unpack(packed: Iterator[bytes], method: int, where: str) -> Iterator[bytes]:
    """Unpack the bytes of a member. Raises Refused if they are malformed."""
    if method == STORED:
        yield from packed
        return
    first = next(packed, b"")
    decoder, first = _lzma_decoder(first, where) if method == LZMA else (_Deflated(), first)
    try:
        for chunk in chain([first], packed):
            yield decoder.feed(chunk)
            while not decoder.needs_input and not decoder.is_at_its_end:
                yield decoder.feed(b"")
    except (zlib.error, lzma.LZMAError, EOFError) as error:
        raise Refused(f"{where} cannot be unpacked: {error}.") from error
    if not decoder.is_at_its_end:
        raise Refused(f"{where} cannot be unpacked: it is cut off, or something follows its end.")


def _lzma_decoder(first: bytes, where: str) -> tuple[_Decoder, bytes]:
    """The LZMA decoder for the header in the first packed bytes, and the bytes after the header."""
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
