"""Zip files written byte by byte, so that their headers can contain anything."""

from __future__ import annotations

import lzma
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

STORED, DEFLATED, LZMA = 0, 8, 14
UTF8 = 2048

LOCAL = struct.Struct("<4s5H3L2H")
CENTRAL = struct.Struct("<4s6H3L5H2L")
END = struct.Struct("<4s4H2LH")


@dataclass(frozen=True)
class Entry:
    """A member. `local` and `central` replace fields of its header and of its directory entry."""

    name: bytes
    data: bytes
    method: int = STORED
    local: Mapping[str, Any] = field(default_factory=dict)
    central: Mapping[str, Any] = field(default_factory=dict)
    packed: bytes | None = None
    behind: bytes = b""


def packed(data: bytes, method: int) -> bytes:
    """The packed bytes of a member; unknown methods store it."""
    if method == DEFLATED:
        deflate = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
        return deflate.compress(data) + deflate.flush()
    if method == LZMA:
        filters = [{"id": lzma.FILTER_LZMA1, "dict_size": 1 << 16, "lc": 3, "lp": 0, "pb": 2}]
        return lzma_header(1 << 16) + lzma.compress(data, lzma.FORMAT_RAW, filters=filters)
    return data


def lzma_header(window: int, properties: int = 3 + 9 * (0 + 5 * 2), length: int = 5) -> bytes:
    """The header before the bytes of an LZMA member."""
    return struct.pack("<BBHBL", 9, 4, length, properties, window)


def zip_file(entries: Sequence[Entry], *, end: Mapping[str, int] | None = None, comment: bytes = b"") -> bytes:
    """The zip file of these members; `end` replaces fields of its end record."""
    body, directory = bytearray(), bytearray()
    for entry in entries:
        content = packed(entry.data, entry.method) if entry.packed is None else entry.packed
        plain: dict[str, Any] = {
            "name": entry.name,
            "flags": UTF8 | (2 if entry.method == LZMA else 0),
            "method": entry.method,
            "crc32": zlib.crc32(entry.data),
            "packed": len(content),
            "bytes": len(entry.data),
            "extra": b"",
            "start": len(body),
            "made_by": 3 << 8 | 20,
            "mode": 0o100644,
            "disk": 0,
            "comment": b"",
        }
        fields = plain | dict(entry.central)
        directory += CENTRAL.pack(
            b"PK\1\2", fields["made_by"], 20, fields["flags"], fields["method"], 0, 33, fields["crc32"],
            fields["packed"], fields["bytes"], len(fields["name"]), len(fields["extra"]), len(fields["comment"]),
            fields["disk"], 0, fields["mode"] << 16, fields["start"],
        ) + fields["name"] + fields["extra"] + fields["comment"]  # fmt: skip
        fields = plain | dict(entry.local)
        body += LOCAL.pack(
            b"PK\3\4", 20, fields["flags"], fields["method"], 0, 33, fields["crc32"], fields["packed"], fields["bytes"],
            len(fields["name"]), len(fields["extra"]),
        ) + fields["name"] + fields["extra"] + content + entry.behind  # fmt: skip
    last = {"disk": 0, "its_disk": 0, "here": len(entries), "all": len(entries), "bytes": len(directory),
            "start": len(body), "comment": len(comment)} | dict(end or {})  # fmt: skip
    return bytes(body + directory) + END.pack(b"PK\5\6", *last.values()) + comment
