"""What runs of a bundle must not share (their keys), and what they must share (the fields of their campaign and round).

A bundle may have millions of runs, so that hashes in arrays are kept and not texts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from hashlib import blake2b
from struct import Struct
from typing import ClassVar, NamedTuple, Self

import numpy as np

from tmflow.runfile.record import Run


class Place(NamedTuple):
    """The position of a run."""

    member: str
    line: int


class _Rows:
    """Rows about runs, in the order of the bundle; each begins with the line of its run."""

    dtype: ClassVar[np.dtype[np.void]]

    def __init__(self) -> None:
        self._members: list[tuple[str, int]] = []  # each with the number of its first row
        self._bytes = bytearray()

    def begin(self, member: str) -> None:
        """Start a member: the rows added next belong to it."""
        self._members.append((member, len(self._bytes) // self.dtype.itemsize))

    def merge(self, others: Self) -> None:
        """Append the rows of the following members."""
        n = len(self._bytes) // self.dtype.itemsize
        self._members += [(member, n + first) for member, first in others._members]
        self._bytes += others._bytes

    def _rows(self) -> np.ndarray[tuple[int], np.dtype[np.void]]:
        return np.frombuffer(self._bytes, self.dtype)

    def _place(self, row: int) -> Place:
        member, _ = self._members[bisect_right(self._members, row, key=lambda item: item[1]) - 1]
        return Place(member, int(self._rows()["line"][row]))


class Keys(_Rows):
    """The hashes of the keys of all runs."""

    # A run, 36 bytes: its line, and the hashes of its two keys, each as two words. A chance collision of two hashes
    # among a million runs occurs once in 10^26 bundles.
    dtype = np.dtype([("line", "u4"), ("uid", "u8", 2), ("point", "u8", 2)])
    _pack = Struct("=I16s16s").pack

    def add(self, line: int, uid: str, point: str) -> None:
        """Add the run of a line."""
        self._bytes += self._pack(line, *(_hash(key, 16) for key in (uid, point)))

    def duplicates(self, name: str) -> Iterator[tuple[Place, Place]]:
        """Yield the places of each run with a duplicate key `name`, and of the run before it with the same key."""
        words = self._rows()[name]
        order = np.lexsort((words[:, 1], words[:, 0]))  # stable: equal keys keep their order
        ordered = words[order]
        same = np.flatnonzero((ordered[1:] == ordered[:-1]).all(axis=1))
        for at in same[np.argsort(order[same + 1])]:
            yield self._place(order[at + 1]), self._place(order[at])


class CommonFields(_Rows):
    """The fields that all runs of one campaign, round or backend have in common, because the database has them once."""

    FIELDS: ClassVar = ("campaign.created_at_utc", "order_seed", "backend.kind")
    # 21 bytes: its line, the number of the field, and the hashes of what has it and of its value. A chance collision
    # among a million rounds occurs once in 10^7 bundles.
    dtype = np.dtype([("line", "u4"), ("field", "u1"), ("of", "u8"), ("value", "u8")])
    _pack = Struct("=IB8s8s").pack

    def __init__(self) -> None:
        super().__init__()
        self._last: list[tuple[str, str] | None] = [None] * len(self.FIELDS)

    def begin(self, member: str) -> None:
        """Start a member: the rows added next belong to it."""
        super().begin(member)
        self._last = [None] * len(self.FIELDS)

    def add(self, line: int, run: Run) -> None:
        """Add the fields of the run of a line, unless the previous run has the same."""
        campaign, experiment, backend = run.campaign, run.experiment, run.backend
        round_ = f"{campaign.uid}\n{experiment.name}\n{experiment.definition_sha256}\n{experiment.scale}\n{run.round}"
        pairs = [(campaign.uid, campaign.created_at_utc), (round_, str(run.order_seed))]
        if backend is not None:
            pairs.append((f"{backend.name}\n{backend.version}\n{backend.config_sha256}", backend.kind))
        for field, pair in enumerate(pairs):
            if pair != self._last[field]:
                self._last[field] = pair
                self._bytes += self._pack(line, field, *(_hash(text, 8) for text in pair))

    def contradictions(self) -> Iterator[tuple[str, Place, Place]]:
        """Yield each field with the place of a run whose value differs, and that of the run before it."""
        rows = self._rows()
        order = np.lexsort((rows["of"], rows["field"]))  # stable: rows of one thing keep their order
        ordered = rows[order]
        same = (ordered["of"][1:] == ordered["of"][:-1]) & (ordered["field"][1:] == ordered["field"][:-1])
        two_values = np.flatnonzero(same & (ordered["value"][1:] != ordered["value"][:-1]))
        for at in two_values[np.argsort(order[two_values + 1])]:
            yield self.FIELDS[ordered["field"][at]], self._place(order[at + 1]), self._place(order[at])


def _hash(text: str, n_bytes: int) -> bytes:
    return blake2b(text.encode(), digest_size=n_bytes).digest()
