"""Bundles changed at the level of bytes and lines: broken JSON, or content in other places."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from tests.support.changed_json import run_files
from tests.support.repacked import Members

CONTENTS: list[Callable[[Members, Random], None]] = []
"""The kinds of change, each made in the members of a good bundle."""


def _kind(change: Callable[[Members, Random], None]) -> Callable[[Members, Random], None]:
    CONTENTS.append(change)
    return change


_ENCODED: tuple[bytes, ...] = (
    b"\0", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n", b"\r\n", b"\x1a", b"\x1b[2J",
    b"\xe2\x80\xa8", b"\xf5\x80\x80\x80", b"\xe2\x82", b" ", b"\t", b"\x85", b"\x0b", b"{", b"}", b"[", b'"', b"\\",
    b",", b"\\u0000", b"\\ud800",
)  # fmt: skip


@_kind
def bits_of_a_member(members: Members, chance: Random) -> None:
    name = chance.choice(sorted(members))
    data = bytearray(members[name])
    for _ in range(chance.choice((1, 1, 2, 8))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    members[name] = bytes(data)


@_kind
def bytes_put_in(members: Members, chance: Random) -> None:
    name = chance.choice(sorted(members))
    data = members[name]
    at = chance.choice((0, len(data), len(data) - 1, chance.randrange(len(data))))
    members[name] = data[:at] + chance.choice(_ENCODED) * chance.choice((1, 1, 2, 1000)) + data[at:]


@_kind
def member_cut_off(members: Members, chance: Random) -> None:
    name = chance.choice(sorted(members))
    members[name] = members[name][: chance.randrange(len(members[name]))]


@_kind
def member_gone(members: Members, chance: Random) -> None:
    for _ in range(chance.choice((1, 1, 2, len(members)))):
        members.pop(chance.choice(sorted(members)))


@_kind
def lines(members: Members, chance: Random) -> None:
    name = chance.choice(run_files(members))
    found = members[name].splitlines(keepends=True)
    at = chance.randrange(len(found))
    match chance.randrange(8):
        case 0:
            found.insert(
                at, chance.choice((b"\n", b" \n", b"\r\n", b"null\n", b"[]\n", b"{}\n", b"1\n", b'"a"\n', b"\0\n"))
            )
        case 1:
            found = [line.replace(b"\n", b"\r\n") for line in found]
        case 2:
            found[at] = b"\xef\xbb\xbf" + found[at]
        case 3:
            found[-1] = found[-1].rstrip(b"\n")
        case 4:
            found[at] = found[at].rstrip(b"\n")
        case 5:
            found = [b"[" + b",".join(line.rstrip(b"\n") for line in found) + b"]\n"]
        case 6:
            found[at] = json.dumps(json.loads(found[at]), indent=1).encode() + b"\n"
        case _:
            chance.shuffle(found)
    members[name] = b"".join(found)


@_kind
def in_another_encoding(members: Members, chance: Random) -> None:
    name = chance.choice(sorted(members))
    members[name] = (
        members[name].decode().encode(chance.choice(("utf-16", "utf-16-le", "utf-32", "utf-7", "utf-8-sig")))
    )


@_kind
def a_line_without_end(members: Members, chance: Random) -> None:
    """A line of 5 MiB of blanks, brackets or text; it may also be in a document."""
    name = chance.choice(sorted(members))
    members[name] += chance.choice((b" ", b"[", b"a", b'"')) * (5 << 20)
