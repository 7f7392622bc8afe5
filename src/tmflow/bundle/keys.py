"""What no two runs of a bundle may have the same, kept in 36 bytes a run: their uid, and their point in its round."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

_BYTES = 16  # of a hash: in a million runs, the same by chance once in 10^26 bundles
_WORDS = 2


class Place(NamedTuple):
    """Where a run is."""

    member: str
    line: int


class Keys:
    """Of each run the hashes of its keys, in the order of the bundle."""

    def __init__(self) -> None:
        self._members: list[tuple[str, int]] = []  # each with the number of its first run
        self._lines = array("I")
        self._hashes = {"uid": bytearray(), "point": bytearray()}

    def begin(self, member: str) -> None:
        """The runs that are added next are of this member."""
        self._members.append((member, len(self._lines)))

    def add(self, line: int, uid: str, point: str) -> None:
        """A run of that line."""
        self._lines.append(line)
        for name, key in (("uid", uid), ("point", point)):
            self._hashes[name] += blake2b(key.encode(), digest_size=_BYTES).digest()

    def merge(self, its: Keys) -> None:
        """Add those of the members that come next."""
        n = len(self._lines)
        self._members += [(member, n + first) for member, first in its._members]
        self._lines += its._lines
        for name, hashes in its._hashes.items():
            self._hashes[name] += hashes

    def twice(self, name: str) -> Iterator[tuple[Place, Place]]:
        """Runs whose `name` is that of one before them, and that one."""
        words = np.frombuffer(self._hashes[name], dtype=np.uint64).reshape(-1, _WORDS)
        order = np.lexsort((words[:, 1], words[:, 0]))  # stable: of equal ones, the first comes first
        ordered = words[order]
        same = np.flatnonzero((ordered[1:] == ordered[:-1]).all(axis=1))
        for at in same[np.argsort(order[same + 1])]:
            yield self._place(int(order[at + 1])), self._place(int(order[at]))

    def _place(self, run: int) -> Place:
        member, _ = self._members[bisect_right(self._members, run, key=lambda its: its[1]) - 1]
        return Place(member, self._lines[run])
