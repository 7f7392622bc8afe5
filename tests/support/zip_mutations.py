"""Bundles with malformed or damaged zip files."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

from tests.support.raw_zips import DEFLATED, LZMA, STORED, Entry, lzma_header, packed, zip_file
from tests.support.repacked import MANIFEST, Members, entries, manifest_of, zipped

ZIPS: list[Callable[[Members, Random], bytes]] = []
"""The kinds of change, each of which makes a bundle of the members of a good one."""


def _kind(change: Callable[[Members, Random], bytes]) -> Callable[[Members, Random], bytes]:
    ZIPS.append(change)
    return change


# Damage in transit.


@_kind
def bits_flipped(good: Members, chance: Random) -> bytes:
    data = bytearray(zipped(good, chance.choice((STORED, DEFLATED, LZMA))))
    for _ in range(chance.choice((1, 1, 2, 8))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


@_kind
def bits_of_headers_flipped(good: Members, chance: Random) -> bytes:
    """Flipped bits in the directory and the end record."""
    data = bytearray(zipped(good))
    start = int.from_bytes(data[-6:-2], "little")
    for _ in range(chance.choice((1, 1, 2))):
        data[chance.randrange(start, len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


@_kind
def extreme_bytes_in_headers(good: Members, chance: Random) -> bytes:
    data = bytearray(zipped(good))
    start = int.from_bytes(data[-6:-2], "little")
    at, width = chance.randrange(start, len(data)), chance.choice((1, 2, 4))
    data[at : at + width] = chance.choice((b"\0", b"\xff", b"\x7f", b"\x80")) * width
    return bytes(data)


@_kind
def cut_off(good: Members, chance: Random) -> bytes:
    data = zipped(good, chance.choice((STORED, DEFLATED)))
    return data[: chance.choice((0, 1, len(data) - 1, len(data) - 22, chance.randrange(len(data))))]


@_kind
def a_part_missing_or_twice(good: Members, chance: Random) -> bytes:
    data = zipped(good)
    first, last = sorted((chance.randrange(len(data)), chance.randrange(len(data))))
    return data[:first] + data[first:last] * chance.choice((0, 2)) + data[last:]


@_kind
def something_around_it(good: Members, chance: Random) -> bytes:
    data, more = zipped(good), chance.randbytes(chance.choice((1, 22, 1000)))
    comment = zip_file(entries(good), comment=more)
    return chance.choice((more + data, data + more, data + data, data[-22:] + data, data + data[-22:], comment))


@_kind
def not_a_zip_file(good: Members, chance: Random) -> bytes:
    return chance.choice((b"", b"PK", chance.randbytes(500), gzip.compress(zipped(good)), b"PK\5\6" + bytes(18),
                          good["platform.json"], b"\0" * 10_000))  # fmt: skip


# Contradictory zip headers.

_NAMES = (
    b"", b"/", b".", b"..", b"../evil", b"../../../../tmp/evil.jsonl", b"/etc/passwd", b"//x", b"C:/x", b"C:\\x",
    b"..\\evil", b"logs\\..\\..\\evil", b"logs/../../evil", b"logs/./x", b"logs//x", b"logs/", b"logs/x/", b"logs/.x",
    b"logs/x\0.txt", b"logs/\xff", b"logs/\xed\xa0\x80", b"logs/\xe2\x80\xaetxt", b"logs/a\nb", b"logs/\x1b[31m",
    b"logs/" + b"a" * 300, b"logs/" + b"a/" * 90 + b"b", b"logs/con", b"logs/x.", b"logs/x ", b"LOGS/x",
    b"Manifest.json",
    b"manifest.json/", b"manifest.json ", b"./manifest.json", b"runs/x/0123456789ab/round-001.jsonl/",
    b"runs/../0123456789ab/round-001.jsonl", b"runs/x/0123456789AB/round-001.jsonl", b"runs/x/round-001.jsonl",
    b"runs/x/0123456789ab/round-001.jsonl\n", "runs/x/0123456789ab/round-\N{ARABIC-INDIC DIGIT ONE}01.jsonl".encode(),
    b"x" * 65_000, b"extra.jsonl", b"evil.py", b"__MACOSX/x", b"logs/\xc0\xaf", b"logs/a:b", b"logs/-rf", b"logs/~",
)  # fmt: skip


@_kind
def strange_name(good: Members, chance: Random) -> bytes:
    """A strange name of a new or existing member, which the manifest lists as far as possible."""
    name = chance.choice(_NAMES)
    members = dict(good)
    data = members.pop(chance.choice(sorted(good))) if chance.random() < 0.5 else b"x"
    listed = manifest_of(members | {name.decode("utf-8", "replace"): data})
    changes: dict[str, Any] = {"flags": chance.choice((0, 2048))}
    odd = Entry(name, data, local=changes, central=changes)
    return zip_file([*entries(members | {MANIFEST: listed}), odd])


@_kind
def two_of_a_name(good: Members, chance: Random) -> bytes:
    whole = entries(good)
    twice = chance.choice(whole)
    other = Entry(twice.name, chance.choice((twice.data, b"{}", b"", twice.data + b"\n")))
    whole.insert(chance.randrange(len(whole) + 1), other)
    return zip_file(whole)


@_kind
def names_that_differ(good: Members, chance: Random) -> bytes:
    """The directory and the local header give different names."""
    whole = entries(good)
    at = chance.randrange(len(whole))
    name = chance.choice((*_NAMES, whole[at].name.upper(), whole[at - 1].name))
    return zip_file([*whole[:at], _with(whole[at], chance.choice(("local", "central")), name=name), *whole[at + 1 :]])


@_kind
def special_file(good: Members, chance: Random) -> bytes:
    mode = chance.choice((0o120777, 0o020666, 0o060666, 0o010666, 0o140777, 0o040755, 0o104755, 0o170000, 0o000644, 0))
    made_by = chance.choice((3, 3, 3, 0, 19)) << 8 | 20
    return _one(good, chance, data=b"/etc/passwd" if chance.random() < 0.5 else None, mode=mode, made_by=made_by)


@_kind
def flags(good: Members, chance: Random) -> bytes:
    both = {"flags": chance.choice((0, 1, 2049, 64, 65, 8, 2056, 32, 8192, 0x4000, 0x8000, 0xFFFF, 2, 4))}
    where = chance.choice((("local", "central"), ("local",), ("central",)))
    return _one(good, chance, where=where, **both)


@_kind
def methods(good: Members, chance: Random) -> bytes:
    method = chance.choice((1, 2, 5, 6, 8, 9, 10, 12, 14, 18, 19, 93, 95, 96, 97, 98, 99, 0xFFFF))
    return _one(good, chance, where=chance.choice((("local", "central"), ("local",), ("central",))), method=method)


@_kind
def lying_sizes(good: Members, chance: Random) -> bytes:
    lie = chance.choice((0, 1, 100, 2**16, 2**20, 2**30, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1))
    which = chance.choice(("packed", "bytes", "crc32"))
    where = chance.choice((("local", "central"), ("local", "central"), ("local",), ("central",)))
    return _one(good, chance, method=chance.choice((STORED, DEFLATED, LZMA)), where=where, **{which: lie})


@_kind
def zip64(good: Members, chance: Random) -> bytes:
    extra = b"\1\0\x18\0" + chance.choice((2**40, 2**63, 5)).to_bytes(8, "little") * 3
    sizes: dict[str, Any] = {"extra": extra, "packed": 2**32 - 1, "bytes": 2**32 - 1}
    return _one(good, chance, **sizes | chance.choice(({}, {"start": 2**32 - 1})))


@_kind
def lying_end(good: Members, chance: Random) -> bytes:
    which = chance.choice(("disk", "its_disk", "here", "all", "bytes", "start", "comment"))
    largest = 2**32 - 1 if which in ("bytes", "start") else 2**16 - 1
    end = {which: chance.choice((0, 1, 7, largest // 2, largest - 1, largest))}
    return zip_file(entries(good), end=end | ({"here": end[which]} if which == "all" else {}))


@_kind
def overlapping(good: Members, chance: Random) -> bytes:
    """Many directory entries for the same or overlapping bytes."""
    whole = entries(good)
    start = chance.choice((0, 1, 40))
    more = [Entry(b"logs/%d" % number, b"", central={"start": start}) for number in range(chance.choice((1, 50)))]
    return zip_file([*whole, *more])


@_kind
def quoted_overlap(good: Members, chance: Random) -> bytes:
    """Each member's deflated bytes quote the header of the next, so that all share one kernel (D. Fifield, 2019)."""
    kernel = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    core = kernel.compress(bytes(1 << 16)) + kernel.flush()
    quoted, body, length = [], core, 1 << 16
    for number in range(chance.choice((2, 20))):
        header = zip_file([Entry(b"logs/%d" % number, b"", DEFLATED, packed=body)]).split(b"PK\1\2")[0][: 30 + 6 + 1]
        body = b"\0" + len(header).to_bytes(2, "little") + (len(header) ^ 0xFFFF).to_bytes(2, "little") + header + body
        length += len(header)
        quoted.append((len(body), length))
    more = [
        Entry(b"logs/q%d" % number, bytes(n_bytes), DEFLATED, packed=body[-n_packed:])
        for number, (n_packed, n_bytes) in enumerate(quoted)
    ]
    whole = zip_file([*entries(good), more[-1]])
    inside = zip_file([*entries(good), *more])
    return chance.choice((whole, inside))


@_kind
def bomb(good: Members, chance: Random) -> bytes:
    """A few bytes that decompress to many, announced in the headers or not."""
    n_bytes, method = 1 << chance.choice((20, 22, 24)), chance.choice((DEFLATED, LZMA))
    name = chance.choice(sorted(good))
    blown = _blown(n_bytes, method)
    claimed = chance.choice((n_bytes, 1000, 1 << 30))
    whole = [entry for entry in entries(good) if entry.name != name.encode()]
    lie: dict[str, Any] = {"bytes": claimed, "crc32": 0}
    return zip_file([*whole, Entry(name.encode(), b"", method, lie, lie, packed=blown)])


@_kind
def zip_in_zip(good: Members, chance: Random) -> bytes:
    inner = zipped({"logs/inner": _blown(1 << 20, DEFLATED)})
    for _ in range(chance.choice((1, 20))):
        inner = zip_file([Entry(b"manifest.json", inner, DEFLATED)])
    return zipped(good | {chance.choice(("logs/inner.zip", "config.yaml", "platform.json")): inner})


@_kind
def bad_lzma(good: Members, chance: Random) -> bytes:
    data = good["platform.json"]
    header = lzma_header(
        chance.choice((0, 1, 4096, 1 << 24, 1 << 25, 1 << 31, (1 << 32) - 1)),
        chance.choice((0, 93, 8, 44, 224, 225, 255)),
        chance.choice((5, 0, 4, 65_535)),
    )
    body = packed(data, LZMA)[9:]
    whole = [entry for entry in entries(good) if entry.name != b"platform.json"]
    content = chance.choice((header + body, header[: chance.randrange(9)], header + chance.randbytes(100)))
    return zip_file([*whole, Entry(b"platform.json", data, LZMA, packed=content)])


@_kind
def bad_deflate(good: Members, chance: Random) -> bytes:
    data = good["platform.json"]
    body = bytearray(packed(data, DEFLATED))
    match chance.randrange(4):
        case 0:
            body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
        case 1:
            del body[chance.randrange(len(body)) :]
        case 2:
            body += chance.randbytes(5)
        case _:
            body[:] = chance.randbytes(len(body))
    whole = [entry for entry in entries(good) if entry.name != b"platform.json"]
    return zip_file([*whole, Entry(b"platform.json", data, DEFLATED, packed=bytes(body))])


@_kind
def something_between(good: Members, chance: Random) -> bytes:
    """Bytes that belong to no member, or a data descriptor with right or wrong sizes."""
    whole = entries(good)
    at = chance.randrange(len(whole))
    claimed = b"".join(n.to_bytes(4, "little") for n in (zlib.crc32(whole[at].data), *[len(whole[at].data)] * 2))
    behind = chance.choice((b"x", b"PK\7\10" + claimed, claimed, b"PK\7\10" + claimed[::-1], bytes(12)))
    odd = Entry(whole[at].name, whole[at].data, behind=behind, **_both(flags=chance.choice((8, 0))))
    return zip_file([*whole[:at], odd, *whole[at + 1 :]])


@_kind
def members_in_any_order(good: Members, chance: Random) -> bytes:
    whole = entries(good, chance.choice((STORED, DEFLATED, LZMA)))
    chance.shuffle(whole)
    return zip_file(whole)


@_kind
def swapped_members(good: Members, chance: Random) -> bytes:
    """Swapped members with the old manifest or with a correct one."""
    first, second = chance.sample(sorted(good), 2)
    members = good | {first: good[second], second: good[first]}
    return zipped(members | ({MANIFEST: manifest_of(good)} if chance.random() < 0.5 else {}))


@_kind
def of_no_manifest(good: Members, chance: Random) -> bytes:
    """No manifest, as in old bundles: only run files, or also something else."""
    runs = {name: data for name, data in good.items() if name.startswith("runs/")}
    name = chance.choice((*sorted(runs), "round-1.jsonl", "a/b.jsonl", "b.txt", "../b.jsonl", "platform.json"))
    kept = dict(chance.sample(sorted(runs.items()), chance.randrange(len(runs) + 1)))
    return zip_file([Entry(n.encode(), d) for n, d in (kept | {name: runs[min(runs)]}).items()])


def _with(entry: Entry, where: str, **changes: Any) -> Entry:
    claimed = {"local": entry.local, "central": entry.central}
    claimed[where] = {**claimed[where], **changes}
    return Entry(entry.name, entry.data, entry.method, **claimed, packed=entry.packed)


def _both(**changes: Any) -> dict[str, Any]:
    return {"local": changes, "central": changes}


def _one(
    good: Members,
    chance: Random,
    *,
    data: bytes | None = None,
    where: tuple[str, ...] = ("local", "central"),
    **changes: Any,
) -> bytes:
    """The bundle with these changes in the headers of one member."""
    whole = entries(good)
    at = chance.randrange(len(whole))
    claimed = {side: {k: v for k, v in changes.items() if side == "central" or k not in ("start", "mode", "made_by")}
            for side in where}  # fmt: skip
    method = changes["method"] if changes.get("method") in (DEFLATED, LZMA) and len(where) == 2 else STORED
    whole[at] = Entry(whole[at].name, whole[at].data if data is None else data, method, **claimed)
    return zip_file(whole)


_BLOWN: dict[tuple[int, int], bytes] = {}


def _blown(n_bytes: int, method: int) -> bytes:
    if (n_bytes, method) not in _BLOWN:
        _BLOWN[n_bytes, method] = packed(bytes(n_bytes), method)
    return _BLOWN[n_bytes, method]
