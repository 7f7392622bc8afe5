"""The zip file of a bundle, read with distrust: what its directory says is checked against the file itself.

Only plain ones are taken: one disk, no comment, no encryption, no symbolic link, members one after another with nothing
before, between or behind them. So no two members share their bytes, and nothing is hidden from other readers.
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
_LEVEL = 2 | 4  # how hard it was compressed; of LZMA, whether its end is marked
_UNIX = 3
_LINK, _KIND = 0o120000, 0o170000
_REGULAR = (0, 0o100000)
_FOLDER = 0o040000

_CHUNK = 1 << 16


class Member(NamedTuple):
    """A file in the zip, as the directory and its own header say alike."""

    name: str
    method: int
    crc32: int
    packed: int
    bytes: int
    start: int
    """Where its header is."""
    data: int
    """Where its packed bytes are."""


class _Told(NamedTuple):
    """What the directory says of a member."""

    name: bytes
    flags: int
    method: int
    crc32: int
    packed: int
    bytes: int
    start: int
    mode: int


def members(file: BinaryIO, path: Path) -> list[Member]:
    """The files in a zip file, in its order. Raises Refused for one that is not plain and whole."""
    try:
        return _members(file, path)
    except struct.error as error:
        raise Refused(f"{path} is no whole zip file: a header is cut off.") from error


def read(file: BinaryIO, member: Member, where: str) -> Iterator[bytes]:
    """The bytes of a member, some at a time: as many as it has, or Refused is raised when one more comes.

    Whether they are those that were packed, their SHA-256 tells the caller, who has it of the manifest.
    """
    n_bytes = 0
    for chunk in unpacked(_packed(file, member, where), member.method, where):
        n_bytes += len(chunk)
        if n_bytes > member.bytes:
            raise Refused(f"{where} is larger than the {member.bytes} bytes that its zip file says.")
        yield chunk
    if n_bytes != member.bytes:
        raise Refused(f"{where} has {n_bytes} bytes, and its zip file says {member.bytes}.")


def read_by_crc(file: BinaryIO, member: Member, where: str) -> Iterator[bytes]:
    """The same of a member whose SHA-256 nobody knows: held against the CRC-32 of the zip file."""
    crc32 = 0
    for chunk in read(file, member, where):
        crc32 = zlib.crc32(chunk, crc32)
        yield chunk
    if crc32 != member.crc32:
        raise Refused(f"{where} is damaged: its CRC-32 is {crc32:08x}, and its zip file says {member.crc32:08x}.")


def _packed(file: BinaryIO, member: Member, where: str) -> Iterator[bytes]:
    at, end = member.data, member.data + member.packed
    while at < end:
        file.seek(at)  # others may have read from the file meanwhile
        chunk = file.read(min(end - at, _CHUNK))
        if not chunk:
            raise Refused(f"{where} is cut off.")
        at += len(chunk)
        yield chunk


def _members(file: BinaryIO, path: Path) -> list[Member]:
    n_members, directory, start = _directory(file, path)
    told = list(_entries(directory, n_members, path))
    found = []
    end = 0
    for entry in sorted(told, key=lambda entry: entry.start):
        end = _require_behind(end, entry, file, path)
        member = _checked(entry, file, path)
        end = member.data + member.packed
        found.append(member)
        _require_sane(entry, member, path)
        if entry.flags & _SIZES_BEHIND:
            end = _behind_descriptor(file, end, member, path)
    if end != start:
        raise Refused(f"{path} is not a plain zip file: {start - end} bytes before its directory belong to no member.")
    if sum(member.bytes for member in found) > format.MAX_TOTAL:
        raise Refused(f"{path} has more than {format.MAX_TOTAL >> 30} GiB in all, which is the most allowed.")
    names = [member.name for member in found]
    if len(set(names)) != len(names):
        twice = next(name for name, n in Counter(names).items() if n > 1)
        raise Refused(f"{path} has two members named {twice!r}; one is allowed.")
    return [member for member in found if not member.name.endswith("/")]


def _directory(file: BinaryIO, path: Path) -> tuple[int, bytes, int]:
    """How many entries the directory has, its bytes, and where it starts."""
    size = file.seek(0, 2)
    if size > format.MAX_FILE:
        raise Refused(f"{path} has {size} bytes; the most allowed is {format.MAX_FILE}.")
    if size < _END.size:
        raise Refused(f"{path} is no zip file.")
    file.seek(size - _END.size)
    signature, disk, its_disk, here, n_members, n_bytes, start, comment = _END.unpack(file.read(_END.size))
    if signature != _END_SIGNATURE:
        raise Refused(f"{path} is no zip file, or it is cut off, or it ends in a comment or something else.")
    if disk or its_disk or here != n_members or comment:
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


def _entries(directory: bytes, n_members: int, path: Path) -> Iterator[_Told]:
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
        yield _Told(name, flags, method, crc32, packed, n_bytes, start, mode)
    if at != len(directory):
        raise Refused(f"{path} is not a plain zip file: its directory has another length than its entries.")


def _require_behind(end: int, entry: _Told, file: BinaryIO, path: Path) -> int:
    if entry.start != end:
        raise Refused(
            f"{path} is not a plain zip file: member {_shown(entry.name)} starts at byte {entry.start}, where byte "
            f"{end} should be the next."
        )
    return end


def _checked(entry: _Told, file: BinaryIO, path: Path) -> Member:
    """The member, if its own header says the same as the directory."""
    file.seek(entry.start)
    signature, _, flags, method, _, _, crc32, packed, n_bytes, name_length, extra_length = _LOCAL.unpack(
        file.read(_LOCAL.size)
    )
    name = file.read(name_length)
    told = (flags, method, crc32, packed, n_bytes, name)
    sizes = (0, 0, 0) if flags & _SIZES_BEHIND and not packed else (entry.crc32, entry.packed, entry.bytes)
    if signature != _LOCAL_SIGNATURE or told != (entry.flags, entry.method, *sizes, entry.name):
        raise Refused(f"{path}: the directory and the header of member {_shown(entry.name)} disagree.")
    try:
        text = name.decode("utf-8" if flags & _UTF8 else "ascii")
    except UnicodeDecodeError as error:
        raise Refused(f"{path}: the name {_shown(name)} of a member is not UTF-8.") from error
    data = entry.start + _LOCAL.size + name_length + extra_length
    return Member(text, entry.method, entry.crc32, entry.packed, entry.bytes, entry.start, data)


def _require_sane(entry: _Told, member: Member, path: Path) -> None:
    where = f"{path}, member {member.name!r}"
    if entry.flags & ~(_SIZES_BEHIND | _UTF8 | _LEVEL):
        raise Refused(f"{where} is encrypted or packed in a way that is not known here.")
    if member.method not in METHODS:
        known = ", ".join(METHODS.values())
        raise Refused(f"{where} is compressed by method {member.method}; allowed: {known}.")
    kind = entry.mode & _KIND
    if member.name.endswith("/"):
        if kind not in (0, _FOLDER) or member.bytes or member.packed:
            raise Refused(f"{where} is a folder with something in it; a folder is a name alone.")
    elif kind not in _REGULAR:
        raise Refused(f"{where} is a link or another special file; files are allowed.")
    if member.bytes > format.largest(member.name):
        raise Refused(f"{where} says it has {member.bytes} bytes; allowed are {format.largest(member.name)}.")
    if member.bytes > max(format.MAX_RATIO * member.packed, format.MIB):
        raise Refused(f"{where} says it grows more than {format.MAX_RATIO} times, as no run file does.")


def _behind_descriptor(file: BinaryIO, end: int, member: Member, path: Path) -> int:
    """Where a member ends whose sizes stand behind it; they must be those of the directory."""
    file.seek(end)
    behind = file.read(16)
    told = struct.pack("<3L", member.crc32, member.packed, member.bytes)
    for descriptor in (_DESCRIPTOR + told, told):
        if behind.startswith(descriptor):
            return end + len(descriptor)
    raise Refused(f"{path}: the directory and what stands behind member {member.name!r} disagree.")


def _shown(name: bytes) -> str:
    return repr(name.decode("utf-8", "backslashreplace"))


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
